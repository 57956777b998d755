"""A bank of masks: one backbone in memory, and the tasks that its subnetworks were found for, switched in place."""

from __future__ import annotations

import ctypes
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING, PreTrainedModel
from transformers.utils import ModelOutput

from srnet.core.arrays import check_finite
from srnet.core.device import named_device
from srnet.core.errors import UserError
from srnet.core.files import new_folder, require_new, sha256, writing
from srnet.core.names import file_name
from srnet.core.sealed import Manifest, check_files
from srnet.masks.mask import Mask
from srnet.models.backbones import LoadedBackbone, load_backbone
from srnet.models.checkpoints import read_config
from srnet.models.heads import CLASSIFIER, LANGUAGE, Head
from srnet.models.subnetwork import ALL, FILES, SUBNETWORK, Index, Subnetwork, stored_entries
from srnet.tasks.answers.text import LanguageAnswer


def _are_tasks(value: object) -> bool:
    """Pairs of a name and a checksum."""
    return isinstance(value, list) and all(
        isinstance(each, list) and [type(part) for part in each] == [str, str] for each in value
    )


BANK = Manifest("bank.json", "a saved bank", {"backbone": str, "tasks": _are_tasks})
_CHUNK = 1 << 15
"""Times eight weights are masked at a time: they stay in the processor's cache."""
_PATTERNS = -np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.int32)
"""For each byte of a packed mask eight numbers whose bits are all 1 or all 0."""


@dataclass(frozen=True)
class _Change:
    """What a task does to a tensor that it shares: entries are pruned, or have other values, or both."""

    bits: torch.Tensor | None
    """One a weight, packed; the pruned ones are zero."""
    where: Index
    """Which entries have other values: those of a mask are not repeated here."""
    values: torch.Tensor | None

    @classmethod
    def of(cls, original: torch.Tensor, keep: torch.Tensor | None, changed: torch.Tensor | None) -> _Change:
        bits = None if keep is None else torch.from_numpy(np.packbits(keep.numpy().reshape(-1)))
        if changed is None:
            return cls(bits, ALL, None)
        where = stored_entries(changed, keep, original)
        return cls(bits, where if keep is None else ALL, changed[where].clone())

    def to(self, device: torch.device) -> _Change:
        parts = (self.bits, self.where, self.values)
        moved: list[Any] = [each.to(device) if isinstance(each, torch.Tensor) else each for each in parts]
        return _Change(*moved)

    def apply(self, tensor: torch.Tensor) -> None:
        """`tensor` holds the backbone's values."""
        if self.values is None:
            assert self.bits is not None
            _zero_pruned(tensor, self.bits)
        elif self.bits is None:
            tensor[self.where] = self.values
        else:
            tensor.zero_().view(-1).masked_scatter_(_unpacked(self.bits, tensor.numel()), self.values)


def _unpacked(bits: torch.Tensor, count: int) -> torch.Tensor:
    """Packed bits as a bool each."""
    if bits.device.type == "cpu":
        return torch.from_numpy(np.unpackbits(bits.numpy(), count=count).view(bool))
    places = torch.tensor([128, 64, 32, 16, 8, 4, 2, 1], dtype=torch.uint8, device=bits.device)
    return (bits[:, None] & places).ne(0).view(-1)[:count]


def _zero_pruned(tensor: torch.Tensor, bits: torch.Tensor) -> None:
    """Keep or clear all bits of a weight: a product of floats would leave -0.0 where a negative weight was.

    On the CPU eight at a time from a table, which is three times as fast as unpacking the bits.
    """
    if tensor.device.type != "cpu":
        tensor.view(-1).masked_fill_(_unpacked(bits, tensor.numel()).logical_not(), 0.0)
        return
    packed = bits.numpy()
    whole = tensor.view(-1).numpy().view(np.int32)
    octets = whole[: len(whole) // 8 * 8].reshape(-1, 8)
    for start in range(0, len(octets), _CHUNK):
        part = octets[start : start + _CHUNK]
        np.bitwise_and(part, _PATTERNS[packed[start : start + len(part)]], out=part)
    tail = whole[octets.size :]
    tail *= np.unpackbits(packed[len(octets) :], count=len(tail))


class _Originals:
    """The backbone's values of tensors that some task changes, in a file without a name that ends with the bank.

    A copy in memory would cost as much as the model. The operating system keeps what is read often in its cache.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115  it lives as long as the bank
        self._starts: dict[str, int] = {}

    def keep(self, name: str, tensor: torch.Tensor) -> None:
        if name in self._starts:
            return
        with writing(self._path):
            start, data = self._file.seek(0, 2), _bytes_of(tensor.cpu())
            while data:  # the system may write a part at a time
                data = data[self._file.write(data) :]
        self._starts[name] = start

    def restore(self, name: str, tensor: torch.Tensor) -> None:
        host = tensor if tensor.device.type == "cpu" else torch.empty_like(tensor, device="cpu")
        self._file.seek(self._starts[name])
        data = _bytes_of(host)
        while data:
            count = self._file.readinto(data)
            if not count:
                raise UserError(f"the bank's file in {self._path} was truncated", "load the bank again")
            data = data[count:]
        if host is not tensor:
            tensor.copy_(host)


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    return memoryview(tensor.view(-1).numpy().view(np.uint8).data)


@dataclass(frozen=True)
class _Task:
    model: PreTrainedModel
    tokenizer: Any
    changes: dict[str, _Change]


class MaskBank:
    """One `backbone` in memory, tasks switched in place.

        bank = srnet.MaskBank("bert-base-uncased")
        bank.add("nli", "exported/nli")
        bank.use("nli")
        bank.model(**bank.tokenizer("A man sleeps.", "A person is awake.", return_tensors="pt")).logits
        with bank.using("qqp"):
            ...

    For a language model a mask is a task, and `add` without a folder adds the model as it was pre-trained:

        bank = srnet.MaskBank("DECODER")
        bank.add("full")
        bank.add("balanced", "exported/balanced")
        with bank.using("balanced") as model:
            model.generate(...)

    A task whose weights are the backbone's own (a mask of the raw model) costs one bit a weight and its head; one of a
    fine-tuned model also costs its kept values. The models share their tensors, in float32: ask for `bank.model` after
    each switch. They stay on `device` (cpu, cuda, cuda:1; auto is a GPU, if there is one), as do the masks. A switch
    puts the model into evaluation mode. A model whose task is not in use refuses to run.
    """

    def __init__(self, backbone: str, device: str = "cpu") -> None:
        self.backbone = backbone
        self.device = named_device(device)
        self.current: str | None = None
        """The task in use."""
        self._tasks: dict[str, _Task] = {}
        self._tokenizers: dict[Head, Any] = {}
        """One for all tasks with the same head: a vocabulary takes megabytes."""
        self._changed: set[str] = set()
        """Tensors that do not hold the backbone's own values."""
        self._folder = tempfile.TemporaryDirectory(prefix="srnet-bank-")
        self._originals = _Originals(Path(self._folder.name))
        base = load_backbone(backbone, *_any_head(backbone))
        base.model.to(self.device)
        self._base = base.model.base_model.requires_grad_(False)
        """Its modules serve every task that changes nothing but values: for ten tasks they would take 50 MB."""
        self._shared = {name: p for name, p in base.model.named_parameters() if name not in base.fresh}
        self._places = {name: p.data_ptr() for name, p in self._shared.items()}

    # --- tasks -----------------------------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tasks)

    @property
    def model(self) -> PreTrainedModel:
        """An ordinary Hugging Face model with the logits of the task in use."""
        return self._tasks[self._in_use()].model

    @property
    def tokenizer(self) -> Any:
        return self._tasks[self._in_use()].tokenizer

    def add(self, name: str, folder: Path | str | None = None) -> None:
        """Read a subnetwork's folder; without one, the backbone's own language model.

        For a moment this takes the memory of a second model and of the mask.
        """
        if file_name("a task", name) in self._tasks:
            raise UserError(f"the bank has a task '{name}' already", "remove it first, or take another name")
        with self._returning():
            self._switch(None)  # the tensors hold the backbone's own values while others are compared with them
            opened = self._unpruned() if folder is None else Subnetwork.open(Path(folder), self.backbone)
            task = self._added(name, *opened)
        with new_folder(Path(self._folder.name) / name) as staging:
            opened[0].write_into(staging) if folder is None else _copy(Path(folder), staging)
        self._tasks[name] = task
        _return_freed_memory()

    def _unpruned(self) -> tuple[Subnetwork, LoadedBackbone]:
        base = load_backbone(self.backbone, LanguageAnswer.outputs, 0, LANGUAGE)
        return Subnetwork(self.backbone, base.sha256, LanguageAnswer.outputs, {}, head=LANGUAGE), base

    def remove(self, name: str) -> None:
        self._known(name)
        if self.current == name:
            self._switch(None)
        del self._tasks[name]
        shutil.rmtree(Path(self._folder.name) / name)

    def use(self, name: str) -> PreTrainedModel:
        """Switch to a task; its model."""
        self._switch(self._known(name))
        return self.model

    @contextmanager
    def using(self, name: str) -> Iterator[PreTrainedModel]:
        """Switch to a task for a block, then back to what was in use."""
        with self._returning():
            yield self.use(name)

    @contextmanager
    def _returning(self) -> Iterator[None]:
        before = self.current
        try:
            yield
        finally:
            self._switch(before if before in self._tasks else None)

    def _known(self, name: str) -> str:
        if name not in self._tasks:
            known = ", ".join(self.names) or "none yet: add one"
            raise UserError(f"the bank has no task '{name}'", f"its tasks: {known}")
        return name

    def _in_use(self) -> str:
        if self.current is None:
            raise UserError("no task of the bank is in use", "call use(NAME) first")
        return self.current

    # --- tensors ---------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _switch(self, name: str | None) -> None:
        """What was changed is noted before it is, so that a switch that was interrupted can be repeated."""
        if name is not None:
            self._tasks[name].model.eval()  # tasks share modules, and another task may have changed their mode
        if name == self.current:
            return
        self._check_tensors()
        changes = {} if name is None else self._tasks[name].changes
        self.current = None
        for each in sorted(self._changed | changes.keys()):
            tensor = self._shared[each].data
            if each in self._changed:
                self._originals.restore(each, tensor)
            if each in changes:
                self._changed.add(each)
                changes[each].apply(tensor)
            else:
                self._changed.remove(each)
        self.current = name

    def _check_tensors(self) -> None:
        """A conversion puts other tensors in place of the bank's, and back again rounded ones."""
        if any(tensor.data_ptr() != self._places[name] for name, tensor in self._shared.items()):
            raise UserError(
                "a model of the bank was converted to another dtype or device",
                "load the bank again; load_subnetwork gives a model of its own",
            )

    def _added(self, name: str, subnetwork: Subnetwork, base: LoadedBackbone) -> _Task:
        """The task's model, on the bank's tensors wherever they are the same."""
        subnetwork.check(base)
        if subnetwork.head.language:
            self._adopt(base)
        own, twins = dict(base.model.named_parameters()), base.twins()
        same = {n for n, p in self._shared.items() if n in own and _equal(p.data.cpu(), own[n].data)}
        changes = self._changes(subnetwork, same, twins)
        for each in changes:
            self._originals.keep(each, self._shared[each].data)
        model = _without(subnetwork, same, twins).model(base).requires_grad_(False)
        self._share(model, {id(own[n]): self._shared[n] for n in same})
        model.to(self.device)
        model.register_forward_pre_hook(lambda *_: self._check_in_use(name, model))
        model.register_forward_hook(lambda module, inputs, output: _check_logits(name, output))
        tokenizer = self._tokenizers.setdefault(subnetwork.head, base.tokenizer)
        return _Task(model, tokenizer, changes)

    def _adopt(self, base: LoadedBackbone) -> None:
        """Share the layers of a language model above the backbone too: an output layer has the vocabulary's size."""
        for name, own in base.model.named_parameters():
            if name not in self._shared:
                shared = nn.Parameter(own.data.clone().to(self.device), requires_grad=False)
                self._shared[name], self._places[name] = shared, shared.data_ptr()

    def _share(self, model: PreTrainedModel, parameters: dict[int, nn.Parameter]) -> None:
        """Put the bank's parameters in place of those with these ids, and its modules where all are the bank's."""
        whole = model.base_model
        if (
            whole is not model
            and _names(whole) == _names(self._base)
            and all(id(each) in parameters for each in whole.parameters())
        ):
            setattr(model, model.base_model_prefix, self._base)
        _replace(model, parameters)
        _detach_from_checkpoint(model, {id(each) for each in self._shared.values()})

    def _changes(self, subnetwork: Subnetwork, same: set[str], twins: dict[str, str]) -> dict[str, _Change]:
        mask, weights = (
            {twins.get(n, n): t for n, t in each.items()} for each in (subnetwork.mask or {}, subnetwork.weights)
        )
        touched = sorted(same & (mask.keys() | weights.keys()))
        known = {n: self._shared[n].data.cpu() for n in touched}
        return {n: _Change.of(known[n], mask.get(n), weights.get(n)).to(self.device) for n in touched}

    def _check_in_use(self, name: str, model: PreTrainedModel) -> None:
        if self.current != name or self._tasks[name].model is not model:
            raise UserError(f"the task '{name}' of the bank is not in use", f"call use('{name}') first")

    # --- folders ---------------------------------------------------------------------------------------------------

    def save(self, folder: Path | str) -> None:
        """Write every task's folder, and a manifest that names them, whole or not at all."""
        kept = Path(self._folder.name)
        tasks = [[name, sha256(kept / name / SUBNETWORK.file)] for name in self.names]
        with new_folder(require_new(Path(folder))) as staging:
            for name in self.names:
                (staging / name).mkdir()
                _copy(kept / name, staging / name)
            BANK.write(staging, {"backbone": self.backbone, "tasks": tasks})

    @classmethod
    def load(cls, folder: Path | str, backbone: str | None = None, device: str = "cpu") -> MaskBank:
        """Read a saved bank to `device`. `backbone` is the backbone's location, if not the manifest's."""
        folder = Path(folder)
        facts = BANK.read(folder)
        names = [file_name("a task", name) for name, _ in facts["tasks"]]
        check_files(folder, {f"{name}/{SUBNETWORK.file}": checksum for name, checksum in facts["tasks"]})
        bank = cls(backbone or facts["backbone"], device)
        for name in names:
            bank.add(name, folder / name)
        return bank


def _any_head(backbone: str) -> tuple[tuple[str, ...], int, Head]:
    """Labels, seed and head with which a backbone loads: some decoders have no classifier. The head is not shared."""
    language = type(read_config(backbone)) not in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING
    return (LanguageAnswer.outputs, 0, LANGUAGE) if language else (("0", "1"), 0, CLASSIFIER)


def _check_logits(name: str, output: Any) -> None:
    if isinstance(output, ModelOutput):  # a caller may ask for a tuple
        check_finite(bool(output.logits.isfinite().all()), f"the task '{name}'")


def _copy(subnetwork: Path, folder: Path) -> None:
    for file in (subnetwork / each for each in FILES):
        if file.is_file():
            shutil.copy(file, folder)


def _replace(model: nn.Module, parameters: dict[int, nn.Parameter]) -> None:
    """Put other parameters in place of those with these ids, under every name they have."""
    for module in model.modules():
        for name, own in list(module.named_parameters(recurse=False, remove_duplicate=False)):
            if id(own) in parameters:
                setattr(module, name, parameters[id(own)])


def _without(subnetwork: Subnetwork, names: set[str], twins: dict[str, str]) -> Subnetwork:
    """The subnetwork as far as it is about other tensors than these."""
    mask, weights = (
        {n: t for n, t in each.items() if twins.get(n, n) not in names}
        for each in (subnetwork.mask or {}, subnetwork.weights)
    )
    return replace(subnetwork, mask=Mask(mask), weights=weights)


def _names(module: nn.Module) -> set[str]:
    return set(module.state_dict())


def _detach_from_checkpoint(model: nn.Module, shared: set[int]) -> None:
    """Copy what the model has for itself: small tensors that lie in the mapped checkpoint keep all of it in memory."""
    for tensor in (*model.parameters(), *model.buffers()):
        if id(tensor) not in shared:
            tensor.data = tensor.data.clone()


def _return_freed_memory() -> None:
    """Decoding frees hundreds of megabytes between what stays, and glibc keeps them unless it is asked."""
    with suppress(OSError, AttributeError):  # other systems have another C library
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Bit by bit."""
    return one.shape == other.shape and torch.equal(one.view(torch.int32), other.view(torch.int32))
