"""Format 2, for receivers who have the backbone: only what is new.

mask.coded          the mask, coded given the backbone's magnitudes (absent for a full model)
weights.safetensors tensors that differ from the backbone: of a masked matrix the kept entries, of other matrices
                    (embeddings) the rows that differ, with their numbers under `NAME#rows`

As float32 they are the values themselves and come back bit by bit. As float16 or bfloat16 they are the differences from
the backbone's values, which are small, so that little is lost. What the backbone lacks, the head, stays float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import EllipsisType

import torch
from safetensors.torch import save

from srnet.backbones import LoadedBackbone
from srnet.errors import UserError, choose
from srnet.files import read_bytes, write_bytes
from srnet.masks import Mask
from srnet.masks.coding import decode_mask, encode_mask
from srnet.subnetwork.card import CODED, MASKS, WEIGHTS
from srnet.subnetwork.plain import Tensors, check_finite, check_size, read_tensors

CODED_MASK = MASKS[CODED]
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
_ROWS = "#rows"


def write_coded(folder: Path, mask: Mask | None, packed: Tensors, base: LoadedBackbone) -> None:
    if mask is not None:
        write_bytes(folder / CODED_MASK, encode_mask(mask, _known_to_receiver(base), base.sha256))
    write_bytes(folder / WEIGHTS, save(packed))


def read_coded(folder: Path, base: LoadedBackbone, *, masked: bool) -> tuple[Mask | None, Tensors]:
    mask, path = None, folder / CODED_MASK
    if masked:
        mask = decode_mask(read_bytes(path), _known_to_receiver(base), base.sha256, str(path))
    return mask, unpack(read_tensors(folder / WEIGHTS), mask or {}, base, folder / WEIGHTS)


def _known_to_receiver(base: LoadedBackbone) -> Tensors:
    """The model's tensors; of those that are no part of the backbone only the shape is known, so they are zero."""
    state = base.model.state_dict()
    return {name: torch.zeros(()).expand(t.shape) if name in base.fresh else t for name, t in state.items()}


# --- what differs --------------------------------------------------------------------------------------------------


def pack(weights: Tensors, mask: Mapping[str, torch.Tensor], base: LoadedBackbone, dtype: str) -> Tensors:
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


def unpack(packed: Tensors, mask: Mapping[str, torch.Tensor], base: LoadedBackbone, path: Path) -> Tensors:
    """The tensors of the model, pruned entries zero: the inverse of `pack`."""
    places, original, weights = base.model.state_dict(), base.pretrained(), Tensors()
    for name in (name for name in packed if not name.endswith(_ROWS)):
        if name not in places:
            raise UserError(f"{path}: '{name[:80]}' has no place in backbone '{base.name}'", "restore the file")
        values = packed[name]
        check_finite(path, name, values)
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
