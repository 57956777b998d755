"""A subnetwork: a backbone, the tensors in which a model differs from it, and a mask; and its folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import EllipsisType
from typing import Any

import torch
from safetensors.torch import save
from transformers import PreTrainedModel

from srnet.core.errors import UserError, choose
from srnet.core.files import new_folder, read_bytes, write_bytes
from srnet.core.sealed import README, Manifest, are_texts, is_length
from srnet.masks.coding import decode_mask, encode_mask
from srnet.masks.mask import Mask
from srnet.masks.saved import check_finite, check_size, packed_tensors, read_tensors
from srnet.models.backbones import LoadedBackbone, load_backbone
from srnet.models.heads import CLASSIFIER, Head

PLAIN, CODED = 1, 2
"""The formats: mask bits as they are, which the store keeps; and what only a receiver with the backbone can read."""
WEIGHTS = "weights.safetensors"
MASKS = {PLAIN: "mask.bits", CODED: "mask.coded"}
SUBNETWORK = Manifest(
    "subnetwork.json",
    "a saved subnetwork",
    {
        "backbone": str,
        "backbone_sha256": str,
        "labels": are_texts,
        "label_words": are_texts,
        "per_token": bool,
        "as_is": bool,
        "language": bool,
        "files": dict,
        "max_length": lambda value: value is None or is_length(value),
    },
    formats=tuple(MASKS),
    defaults={"label_words": [], "per_token": False, "as_is": False, "language": False, "max_length": None},
)
FILES = (SUBNETWORK.file, *MASKS.values(), WEIGHTS, README)
"""The files that a folder may hold."""


def _write_manifest(folder: Path, format: int, facts: dict[str, Any]) -> None:
    """Write the manifest; the files whose checksums it has are there already."""
    files = [name for name in (MASKS[format], WEIGHTS) if (folder / name).exists()]
    SUBNETWORK.write(folder, {"format": format, **facts}, files)


def _read_manifest(folder: Path) -> dict[str, Any]:
    """The facts, if the manifest and the files that it names are as they were written."""
    facts = SUBNETWORK.read(folder)
    if not {WEIGHTS} <= facts["files"].keys() <= {WEIGHTS, MASKS[facts["format"]]}:
        raise UserError(f"{folder / SUBNETWORK.file}: 'files' are not those of a subnetwork", "restore the file")
    return facts


def _head_fields(head: Head) -> dict[str, Any]:
    """The fields of a head in the manifest; none for an ordinary classifier, which is the default."""
    fields = {
        "label_words": list(head.words), "per_token": head.per_token, "as_is": head.as_is, "language": head.language,
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value}


# --- format 1, which the store keeps: it is read without the backbone, in less time, and takes more space ---

MASK = MASKS[PLAIN]
Tensors = dict[str, torch.Tensor]


def _write_plain(folder: Path, mask: Mask | None, weights: Tensors) -> None:
    if mask is not None:
        write_bytes(folder / MASK, mask.to_bytes())
    kept: Mapping[str, torch.Tensor] = mask or {}
    packed = {name: (t[kept[name]] if name in kept else t).contiguous() for name, t in weights.items()}
    write_bytes(folder / WEIGHTS, save(packed))


def _read_plain(folder: Path, *, masked: bool) -> tuple[Mask | None, Tensors]:
    mask = Mask.from_bytes(read_bytes(folder / MASK), str(folder / MASK)) if masked else None
    weights = packed_tensors(folder / WEIGHTS, mask or {})
    for name, tensor in weights.items():
        _check_finite(folder / WEIGHTS, name, tensor)
    return mask, weights


def _check_finite(path: Path, name: str, tensor: torch.Tensor) -> None:
    check_finite(path, name, tensor)
    if not tensor.is_floating_point():
        raise UserError(f"{path}: '{name}' holds no floating-point numbers", "restore the file")


# --- format 2, for receivers who have the backbone: only what is new ---

CODED_MASK = MASKS[CODED]
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
_ROWS = "#rows"


def _write_coded(folder: Path, mask: Mask | None, packed: Tensors, base: LoadedBackbone) -> None:
    if mask is not None:
        write_bytes(folder / CODED_MASK, encode_mask(mask, _known_to_receiver(base), base.sha256))
    write_bytes(folder / WEIGHTS, save(packed))


def _read_coded(folder: Path, base: LoadedBackbone, *, masked: bool) -> tuple[Mask | None, Tensors]:
    mask, path = None, folder / CODED_MASK
    if masked:
        mask = decode_mask(read_bytes(path), _known_to_receiver(base), base.sha256, str(path))
    return mask, _unpack(read_tensors(folder / WEIGHTS), mask or {}, base, folder / WEIGHTS)


def _known_to_receiver(base: LoadedBackbone) -> Tensors:
    """The model's tensors; of those that are no part of the backbone only the shape is known, so they are zero."""
    state = base.model.state_dict()
    return {name: torch.zeros(()).expand(t.shape) if name in base.fresh else t for name, t in state.items()}


# --- what differs --------------------------------------------------------------------------------------------------


def _pack(weights: Tensors, mask: Mapping[str, torch.Tensor], base: LoadedBackbone, dtype: str) -> Tensors:
    """The tensors as they are stored."""
    kind, original, packed = DTYPES[choose("dtype", dtype, DTYPES)], base.pretrained(), Tensors()
    for name, tensor in weights.items():
        tensor = tensor.float()
        where = stored_entries(tensor, mask.get(name), original.get(name))
        values = tensor[where]
        if kind != torch.float32 and name in original:
            values = (values - original[name][where]).to(kind)
            _check_range(name, values, dtype)
        if name not in mask and isinstance(where, torch.Tensor):
            packed[name + _ROWS] = where.to(torch.int32)
        packed[name] = values.contiguous()
    return packed


def _unpack(packed: Tensors, mask: Mapping[str, torch.Tensor], base: LoadedBackbone, path: Path) -> Tensors:
    """The tensors of the model, pruned entries zero: the inverse of `pack`."""
    places, original, weights = base.model.state_dict(), base.pretrained(), Tensors()
    for name in (name for name in packed if not name.endswith(_ROWS)):
        if name not in places:
            raise UserError(f"{path}: '{name[:80]}' has no place in backbone '{base.name}'", "restore the file")
        values = packed[name]
        _check_finite(path, name, values)
        whole = original.get(name) if name not in mask else None
        where, size = _where(packed, name, mask, whole, places[name].shape, path)
        check_size(path, name, values, size)
        if values.dtype != torch.float32 and name in original:
            values = original[name][where] + values.float()
        dense = torch.zeros(places[name].shape) if whole is None else whole.clone()
        dense[where] = values.float()
        weights[name] = dense
    if orphans := [name for name in packed if name.endswith(_ROWS) and name.removesuffix(_ROWS) not in weights]:
        raise UserError(f"{path}: '{orphans[0][:80]}' belongs to no tensor", "restore the file")
    return weights


Index = torch.Tensor | EllipsisType
"""Which entries of a tensor are stored: the kept ones, some rows, or all."""
ALL = ...


def stored_entries(tensor: torch.Tensor, keep: torch.Tensor | None, original: torch.Tensor | None) -> Index:
    """Which entries of a tensor are stored, for a reader that has the backbone."""
    if keep is not None:
        return keep
    if original is None or tensor.dim() < 2 or tensor.shape != original.shape:
        return ALL
    differs = tensor.contiguous().view(torch.int32) != original.contiguous().view(torch.int32)  # -0.0 is not 0.0
    rows = differs.flatten(1).any(1)
    return ALL if bool(rows.all()) else rows.nonzero()[:, 0]


def _where(
    packed: Tensors,
    name: str,
    mask: Mapping[str, torch.Tensor],
    original: torch.Tensor | None,
    shape: torch.Size,
    path: Path,
) -> tuple[Index, tuple[int, ...]]:
    """Which entries of a tensor are stored, and the shape of what is."""
    rows = packed.get(name + _ROWS)
    if name in mask and rows is None:
        return mask[name], (int(mask[name].sum()),)
    if rows is None:
        return ALL, tuple(shape)
    rising = rows.dtype == torch.int32 and rows.dim() == 1 and bool((rows[1:] > rows[:-1]).all())
    inside = rising and (not len(rows) or 0 <= int(rows[0]) <= int(rows[-1]) < (shape[0] if shape else 0))
    if original is None or not inside:
        raise UserError(f"{path}: '{name}' has rows that the backbone has not", "restore the file")
    return rows.long(), (len(rows), *shape[1:])


def _check_range(name: str, values: torch.Tensor, dtype: str) -> None:
    if not bool(values.isfinite().all()):
        raise UserError(
            f"'{name}' differs too much from the backbone for {dtype}", "choose --dtype bfloat16 or float32"
        )


# --- the subnetwork as a value -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Subnetwork:
    """A model as a value: a `backbone`, the `weights` in which it differs, and a `mask` over some of them.

    A full model is one without a mask. `backbone_sha256` makes sure of the backbone; `head` gives logits for `labels`.
    """

    backbone: str
    backbone_sha256: str
    labels: tuple[str, ...]
    weights: dict[str, torch.Tensor]
    mask: Mask | None = None
    head: Head = CLASSIFIER
    max_length: int | None = None
    """Where texts were cut in training, if that is known."""

    @classmethod
    def of(
        cls,
        base: LoadedBackbone,
        labels: tuple[str, ...],
        state: dict[str, torch.Tensor],
        mask: Mask | None,
    ) -> Subnetwork:
        """Keep what differs from the backbone; pruned entries do not count as a difference.

        Of tensors that share their memory one is kept.
        """
        original, twins = base.pretrained(), base.twins()
        masked = mask.apply(state) if mask is not None else state
        expected = (
            mask.apply(original | {n: state[n] for n in mask if n not in original}) if mask is not None else original
        )
        own = {n: t for n, t in masked.items() if n not in twins}
        differs = {n: t for n, t in own.items() if n not in original or not torch.equal(t.cpu(), expected[n].cpu())}
        kept = {n: t.detach().cpu().clone() for n, t in differs.items()}
        return cls(base.name, base.sha256, labels, kept, mask, base.head)

    @property
    def sparsity(self) -> float:
        return 0.0 if self.mask is None else self.mask.sparsity

    def base(self, backbone: str | None = None) -> LoadedBackbone:
        """Load the backbone and make sure that it is the one this subnetwork was cut from."""
        base = load_backbone(backbone or self.backbone, self.labels, seed=0, head=self.head)
        if base.sha256 != self.backbone_sha256:
            raise UserError(
                f"backbone '{base.name}' has hash {base.sha256[:12]}, the subnetwork needs {self.backbone_sha256[:12]}",
                "give the folder of the original backbone",
            )
        return base

    def state(self, base: LoadedBackbone) -> dict[str, torch.Tensor]:
        """All tensors of the model, pruned entries zero."""
        state = {**base.model.state_dict(), **self.weights}
        state |= {name: state[other] for name, other in base.twins().items()}
        return state if self.mask is None else self.mask.apply(state)

    def model(self, base: LoadedBackbone) -> PreTrainedModel:
        """An ordinary model with the mask baked in."""
        self.check(base)
        base.model.load_state_dict(self.state(base))
        return base.model.eval()

    def check(self, base: LoadedBackbone) -> None:
        """Every tensor has its place in the model, and what the backbone lacks is there."""
        places, twins = base.model.state_dict(), base.twins()
        for name, keep in (self.mask or {}).items():
            if name not in places or places[name].shape != keep.shape:
                raise UserError(f"the mask does not fit this model: {name} is missing or has another shape")
        for name, tensor in self.weights.items():
            if name not in places or places[name].shape != tensor.shape:
                raise UserError(f"weights '{name}' have no place in backbone '{base.name}'", "restore the subnetwork")
        missing = sorted(places.keys() - base.pretrained().keys() - self.weights.keys() - twins.keys())
        if missing:
            raise UserError(f"the subnetwork has no weights '{missing[0]}'", "restore the subnetwork")

    def rounded(self, base: LoadedBackbone, dtype: str) -> Subnetwork:
        """The subnetwork that is read again when this one is written as `dtype`."""
        return replace(self, weights=_unpack(self._packed(base, dtype), self.mask or {}, base, Path(base.name)))

    def _packed(self, base: LoadedBackbone, dtype: str) -> Tensors:
        """The tensors as format 2 stores them."""
        self.check(base)
        return _pack(self.weights, self.mask or {}, base, dtype)

    # --- files -----------------------------------------------------------------------------------------------------

    def write_into(self, folder: Path) -> None:
        """Write the files of format 1, as the store keeps them; the caller makes it atomic."""
        _write_plain(folder, self.mask, self.weights)
        _write_manifest(folder, PLAIN, self._facts())

    def save(self, folder: Path) -> None:
        """Write a new folder of format 1, whole or not at all."""
        with new_folder(Path(folder)) as staging:
            self.write_into(staging)

    def save_coded(
        self, folder: Path, base: LoadedBackbone | None = None, dtype: str = "float32", **fields: Any
    ) -> None:
        """Write a new folder of format 2, with `fields` in its manifest, whole or not at all."""
        with new_folder(Path(folder)) as staging:
            self.write_coded_into(staging, base or self.base(), dtype, **fields)

    def write_coded_into(self, folder: Path, base: LoadedBackbone, dtype: str = "float32", **fields: Any) -> None:
        """Write the files of format 2; the caller makes it atomic."""
        _write_coded(folder, self.mask, self._packed(base, dtype), base)
        _write_manifest(folder, CODED, {**self._facts(), "dtype": dtype, "max_length": self.max_length, **fields})

    def _facts(self) -> dict[str, Any]:
        return {
            "backbone": self.backbone,
            "backbone_sha256": self.backbone_sha256,
            "labels": list(self.labels),
            **_head_fields(self.head),
            "sparsity": self.sparsity,
            "weights_total": self.mask.total if self.mask else None,
            "weights_kept": self.mask.kept if self.mask else None,
        }

    @classmethod
    def load(cls, folder: Path, backbone: str | None = None) -> Subnetwork:
        """Read a folder. Format 2 needs the backbone: `backbone` is its location if not the manifest's."""
        return cls._read(Path(folder), backbone)[0]

    @classmethod
    def open(cls, folder: Path, backbone: str | None = None) -> tuple[Subnetwork, LoadedBackbone]:
        """Read a folder, and load its backbone."""
        subnetwork, base = cls._read(Path(folder), backbone)
        return subnetwork, base or subnetwork.base(backbone)

    @classmethod
    def _read(cls, folder: Path, backbone: str | None) -> tuple[Subnetwork, LoadedBackbone | None]:
        """The backbone as well where it was needed."""
        facts = _read_manifest(folder)
        masked = MASKS[facts["format"]] in facts["files"]
        empty = cls(
            facts["backbone"],
            facts["backbone_sha256"],
            tuple(facts["labels"]),
            {},
            head=Head(tuple(facts["label_words"]), facts["per_token"], facts["as_is"], facts["language"]),
            max_length=facts["max_length"],
        )
        base = None if facts["format"] == PLAIN else empty.base(backbone)
        mask, weights = _read_plain(folder, masked=masked) if base is None else _read_coded(folder, base, masked=masked)
        return replace(empty, mask=mask, weights=weights), base
