"""Format 1, which the store keeps: it is read without the backbone, in less time, and takes more space.

mask.bits           one bit a weight (absent for a full model)
weights.safetensors tensors that differ from the backbone, the head among them; of a masked matrix only kept values
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from srnet.errors import UserError
from srnet.files import read_bytes, write_bytes
from srnet.masks import Mask
from srnet.subnetwork.card import MASKS, PLAIN, WEIGHTS

MASK = MASKS[PLAIN]
Tensors = dict[str, torch.Tensor]


def write_plain(folder: Path, mask: Mask | None, weights: Tensors) -> None:
    if mask is not None:
        write_bytes(folder / MASK, mask.to_bytes())
    kept: Mapping[str, torch.Tensor] = mask or {}
    packed = {name: (t[kept[name]] if name in kept else t).contiguous() for name, t in weights.items()}
    write_bytes(folder / WEIGHTS, save(packed))


def read_plain(folder: Path, *, masked: bool) -> tuple[Mask | None, Tensors]:
    mask = Mask.from_bytes(read_bytes(folder / MASK), str(folder / MASK)) if masked else None
    return mask, _with_zeros(folder / WEIGHTS, mask or {})


def _with_zeros(path: Path, mask: Mapping[str, torch.Tensor]) -> Tensors:
    """The tensors; masked ones with zeros where they are pruned."""
    weights = read_tensors(path)
    for name, tensor in weights.items():
        check_finite(path, name, tensor)
    for name in weights.keys() & mask.keys():
        check_size(path, name, weights[name], (int(mask[name].sum()),))
        dense = torch.zeros(mask[name].shape, dtype=weights[name].dtype)
        dense[mask[name]] = weights[name]
        weights[name] = dense
    return weights


def read_tensors(path: Path) -> Tensors:
    try:
        tensors: Tensors = load(read_bytes(path))
    except SafetensorError as error:
        raise UserError(f"{path} is not a safetensors file: {error}") from error
    return tensors


def check_finite(path: Path, name: str, tensor: torch.Tensor) -> None:
    if not tensor.is_floating_point() or not bool(tensor.isfinite().all()):
        raise UserError(f"{path}: '{name}' holds non-finite values", "restore the file")


def check_size(path: Path, name: str, tensor: torch.Tensor, shape: tuple[int, ...]) -> None:
    if tensor.shape != shape:
        raise UserError(f"{path}: '{name}' has another number of values than its mask keeps", "restore the file")
