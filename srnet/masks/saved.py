"""A mask in a folder of its own, for a model that has the weights it was found on.

mask.json             settings, counted sparsity, and a checksum of every tensor of the model that did not train
mask.bits             one bit a weight; or
mask.coded            coded given the weights, for a model that names its backbone
weights.safetensors   the tensors that trained; of masked ones the kept entries
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import nn

from srnet.core.errors import UserError
from srnet.core.files import new_folder, read_bytes, require_new, write_bytes
from srnet.core.sealed import Manifest, checksum_of
from srnet.masks.coding import decode_mask, encode_mask
from srnet.masks.mask import Mask, hash_tensors

Tensors = Mapping[str, torch.Tensor]


def _are_checksums(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


SAVED = Manifest(
    "mask.json", "a saved mask", {"settings": dict, "backbone": str, "unchanged": _are_checksums, "files": dict}
)
_BITS, _CODED, _WEIGHTS = "mask.bits", "mask.coded", "weights.safetensors"


@dataclass(frozen=True)
class FoundMask:
    """A mask, the unmasked tensors of its model by name, and the names of those that trained."""

    mask: Mask
    tensors: Tensors
    trained: Collection[str]

    def save(self, folder: Path | str, backbone: str, settings: Mapping[str, Any]) -> None:
        """Write a new folder, whole or not at all."""
        trained = {name: self.tensors[name].cpu() for name in self.trained}
        aliases = {self.tensors[name].data_ptr() for name in trained}
        fixed = {n: t.cpu() for n, t in self.tensors.items() if n not in trained and t.data_ptr() not in aliases}
        checksums = {name: hash_tensors({name: tensor}) for name, tensor in fixed.items()}
        kept = {name: tensor[self.mask[name]] if name in self.mask else tensor for name, tensor in trained.items()}
        with new_folder(require_new(Path(folder))) as staging:
            if backbone and self.mask.keys() <= fixed.keys():
                write_bytes(staging / _CODED, encode_mask(self.mask, fixed, checksum_of(checksums)))
            else:
                write_bytes(staging / _BITS, self.mask.to_bytes())
            write_bytes(staging / _WEIGHTS, save({name: tensor.contiguous() for name, tensor in kept.items()}))
            counted = {"sparsity": self.mask.sparsity, "weights_kept": self.mask.kept, "weights_total": self.mask.total}
            facts = {"settings": dict(settings), "backbone": backbone, **counted, "unchanged": checksums}
            SAVED.write(staging, facts)

    def put_into(self, model: nn.Module) -> None:
        """Give the model, which has no masks on it, the values of its tensors, with zeros where they are pruned.

        Masked weights get new memory, so that `tensors` stay as they are.
        """
        state = model.state_dict()
        for name, value in self.mask.apply(self.tensors).items():
            if name in self.mask:
                model.get_parameter(name).data = value
            elif value.data_ptr() != state[name].data_ptr():
                state[name].copy_(value)


def read_found(folder: Path | str, model: nn.Module, *, strict: bool = True) -> FoundMask:
    """The mask in a folder with the tensors of the model, those that trained replaced.

    With `strict` the other tensors must be those that the mask was found on.
    """
    folder, tensors = Path(folder), model.state_dict()
    facts = SAVED.read(folder)
    if facts["files"].keys() not in ({_BITS, _WEIGHTS}, {_CODED, _WEIGHTS}):
        raise UserError(f"{folder / SAVED.file}: 'files' are not those of a mask", "restore the file")
    is_coded = _CODED in facts["files"]
    if is_coded:
        _check_unchanged(folder, facts, tensors, is_coded=True)
        known = {name: tensor.cpu() for name, tensor in tensors.items() if name in facts["unchanged"]}
        mask = decode_mask(read_bytes(folder / _CODED), known, checksum_of(facts["unchanged"]), str(folder / _CODED))
    else:
        mask = Mask.from_bytes(read_bytes(folder / _BITS), str(folder / _BITS))
    trained = packed_tensors(folder / _WEIGHTS, mask)
    _check_places(folder, {**mask, **trained}, tensors)
    if strict and not is_coded:
        _check_unchanged(folder, facts, tensors, is_coded=False)
    return FoundMask(mask, {**tensors, **{name: each.to(tensors[name]) for name, each in trained.items()}}, trained)


def _check_unchanged(folder: Path, facts: dict[str, Any], tensors: Tensors, *, is_coded: bool) -> None:
    for name, checksum in facts["unchanged"].items():
        if name not in tensors or hash_tensors({name: tensors[name]}) != checksum:
            source = f", '{facts['backbone']}'" if facts["backbone"] else ""
            other = "" if is_coded else ", or give strict=False to put the mask on other weights"
            raise UserError(
                f"{name[:80]} is not the tensor that the mask in {folder} was found on",
                f"load the same checkpoint{source} first{other}",
            )


def _check_places(folder: Path, found: Tensors, tensors: Tensors) -> None:
    for name, each in found.items():
        if name not in tensors or each.shape != tensors[name].shape:
            problem = f"the mask in {folder} does not fit this model: {name[:80]} is missing or has another shape"
            raise UserError(problem, "give the model that was pruned")


# --- tensors of which only the kept entries are stored -------------------------------------------------------------


def packed_tensors(path: Path, mask: Tensors) -> dict[str, torch.Tensor]:
    """The tensors in a file; masked ones with zeros where they are pruned."""
    weights = read_tensors(path)
    for name, tensor in weights.items():
        check_finite(path, name, tensor)
    for name in weights.keys() & mask.keys():
        check_size(path, name, weights[name], (int(mask[name].sum()),))
        dense = torch.zeros(mask[name].shape, dtype=weights[name].dtype)
        dense[mask[name]] = weights[name]
        weights[name] = dense
    return weights


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    try:
        tensors: dict[str, torch.Tensor] = load(read_bytes(path))
    except SafetensorError as error:
        raise UserError(f"{path} is not a safetensors file: {error}") from error
    return tensors


def check_finite(path: Path, name: str, tensor: torch.Tensor) -> None:
    if not bool(tensor.isfinite().all()):
        raise UserError(f"{path}: '{name}' holds non-finite values", "restore the file")


def check_size(path: Path, name: str, tensor: torch.Tensor, shape: tuple[int, ...]) -> None:
    if tensor.shape != shape:
        raise UserError(f"{path}: '{name}' has another number of values than its mask keeps", "restore the file")
