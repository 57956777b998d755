"""A mask is a value: which weights of which matrices are kept."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from srnet.core.errors import UserError
from srnet.core.lazy import torch

_MAGIC = b"SRNETMASK1\n"


class Mask(Mapping[str, "torch.Tensor"]):
    """Which weights are kept: `tensors` by name, True where it is. Immutable; equal masks compare equal."""

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        for name, tensor in tensors.items():
            if tensor.dtype != torch.bool:
                raise ValueError(f"mask '{name}' must be boolean, not {tensor.dtype}")
        self._tensors = {name: tensors[name].detach().cpu().clone() for name in sorted(tensors)}

    # --- a mapping -------------------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> torch.Tensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mask) or list(self) != list(other):
            return False
        return all(self[name].shape == other[name].shape and torch.equal(self[name], other[name]) for name in self)

    def __hash__(self) -> int:
        return hash(self.to_bytes())

    def __repr__(self) -> str:
        return f"Mask({len(self)} matrices, {self.total:,} weights, sparsity {self.sparsity:.4f})"

    # --- counting --------------------------------------------------------------------------------------------------

    @property
    def total(self) -> int:
        return sum(tensor.numel() for tensor in self.values())

    @property
    def kept(self) -> int:
        return sum(int(tensor.sum()) for tensor in self.values())

    @property
    def sparsity(self) -> float:
        """The share of weights that is pruned, counted."""
        return share_pruned(self.kept, self.total)

    def sparsities(self) -> dict[str, float]:
        return {name: int((~tensor).sum()) / tensor.numel() for name, tensor in self.items()}

    # --- making and combining --------------------------------------------------------------------------------------

    @classmethod
    def ones_like(cls, weights: Mapping[str, torch.Tensor]) -> Mask:
        return cls({name: torch.ones(weight.shape, dtype=torch.bool) for name, weight in weights.items()})

    def union(self, other: Mask) -> Mask:
        return self._combine(other, torch.logical_or)

    def intersection(self, other: Mask) -> Mask:
        return self._combine(other, torch.logical_and)

    def _combine(self, other: Mask, operation: Callable[..., torch.Tensor]) -> Mask:
        if {name: t.shape for name, t in self.items()} != {name: t.shape for name, t in other.items()}:
            raise ValueError("the two masks do not cover the same matrices")
        return Mask({name: operation(self[name], other[name]) for name in self})

    def apply(self, weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """`m * W` for the masked matrices; all other tensors unchanged."""
        missing = [name for name in self if name not in weights or weights[name].shape != self[name].shape]
        if missing:
            raise UserError(f"the mask does not fit this model: {missing[0]} is missing or has another shape")
        kept = {name: torch.where(mask.to(weights[name].device), weights[name], 0) for name, mask in self.items()}
        return {**weights, **kept}

    # --- bytes -----------------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Header with names and shapes, one bit per weight, and a checksum over both."""
        header = json.dumps({name: list(tensor.shape) for name, tensor in self.items()}).encode()
        flat = [tensor.numpy().reshape(-1) for tensor in self.values()]
        bits = np.packbits(np.concatenate(flat)).tobytes() if flat else b""
        return with_checksum(_MAGIC, len(header).to_bytes(8, "little") + header + bits)

    @classmethod
    def from_bytes(cls, data: bytes, source: str = "mask") -> Mask:
        shapes, packed = _unpacked(without_checksum(_MAGIC, data, source), source)
        counts = {name: math.prod(shape) for name, shape in shapes.items()}
        bits = np.unpackbits(packed, count=sum(counts.values()))
        tensors, start = {}, 0
        for name, shape in shapes.items():
            flat = torch.from_numpy(bits[start : start + counts[name]].astype(bool))
            tensors[name], start = flat.reshape(shape), start + counts[name]
        return cls(tensors)


def share_pruned(kept: int, total: int) -> float:
    """The share that is not kept, with one rounding: 34 of 100 are 0.34."""
    return (total - kept) / total if total else 0.0


def hash_tensors(tensors: Mapping[str, torch.Tensor]) -> str:
    """A hash of the names, types, shapes and values, whatever the order and the device."""
    digest = hashlib.sha256()
    for key in sorted(tensors):
        tensor = tensors[key].detach().cpu().contiguous()
        digest.update(f"{key}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        digest.update(tensor.view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def with_checksum(magic: bytes, body: bytes) -> bytes:
    """The content of a mask file: its magic number, a checksum, the body."""
    return magic + hashlib.sha256(body).digest() + body


def without_checksum(magic: bytes, data: bytes, source: str) -> bytes:
    """The body of a mask file, checked."""
    checksum, body = data[len(magic) : len(magic) + 32], data[len(magic) + 32 :]
    if not data.startswith(magic):
        raise UserError(f"{source} is not a mask file, or one of another format", "restore the file")
    if hashlib.sha256(body).digest() != checksum:
        raise UserError(f"{source} is truncated or altered: its checksum does not match", "restore the file")
    return body


def _unpacked(body: bytes, source: str) -> tuple[dict[str, list[int]], np.ndarray]:
    """The shapes in the header, and the bits after it: as many as the shapes need."""
    size = int.from_bytes(body[:8], "little")
    try:
        shapes = json.loads(body[8 : 8 + size])
    except (ValueError, RecursionError) as error:
        raise UserError(f"{source} has an unreadable header", "restore the file") from error
    packed = np.frombuffer(body[8 + size :], np.uint8)
    if not isinstance(shapes, dict) or not all(map(_is_shape, shapes.values())):
        raise UserError(f"{source} has a header that is not a list of shapes", "restore the file")
    needed = -(-sum(map(math.prod, shapes.values())) // 8)
    if len(packed) != needed:
        raise UserError(f"{source} holds {len(packed):,} bytes of bits, its shapes need {needed:,}", "restore the file")
    return shapes, packed


def _is_shape(value: object) -> bool:
    return isinstance(value, list) and all(type(size) is int and size >= 0 for size in value)
