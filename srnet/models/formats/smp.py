"""Mask files of static model pruning (SMP): packed bits in a `.npy` file, and nothing else."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from srnet.core.arrays import read_npy_header
from srnet.core.errors import UserError
from srnet.core.files import open_file, write_bytes
from srnet.core.lazy import nn, torch
from srnet.masks.mask import Mask
from srnet.masks.parametrization import raw_weights
from srnet.masks.targets import LAYERS, linear_layers
from srnet.models.formats.base import Format, Source, register

_ZIP = b"PK\x03\x04"
Shapes = Mapping[str, tuple[int, ...]]
"""Weight name -> shape."""


def stack_shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    """The matrices of the attention and feed-forward layers: no pooler, no head."""
    return _shapes(LAYERS.find(model))


def linear_shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    """Every matrix that can be masked."""
    return _shapes(linear_layers(model))


def _shapes(layers: Mapping[str, nn.Module]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(weight.shape) for name, weight in raw_weights(layers).items()}


# --- reading -------------------------------------------------------------------------------------------------------


def read_smp(path: Path, shapes: Shapes) -> Mask:
    """The mask in a published file, for a backbone with matrices of these shapes. Nothing is unpickled."""
    if not path.exists():
        raise UserError(f"there is no file {path}", "give the .npy file of a mask")
    with open_file(path) as file:
        length = _check_header(file, path)
        found, needed = path.stat().st_size - file.tell(), -(-_weights_in(shapes) // 8)
        if found != needed or length != needed:
            raise UserError(
                f"{path} holds {length if found == needed else found:,} bytes; {needed:,} are needed for the "
                f"{len(shapes)} matrices ({_weights_in(shapes):,} weights) of this backbone",
                "the file is damaged, or for another backbone",
            )
        packed = np.frombuffer(file.read(), np.uint8)
    try:
        return _unpack(packed, shapes)
    except ValueError as error:
        raise UserError(f"{path}: {error}", "the file is damaged, or for another backbone") from error


def _unpack(packed: np.ndarray, shapes: Shapes) -> Mask:
    """The mask from one bit per weight."""
    bits, start, tensors = np.unpackbits(packed), 0, {}
    if bits[_weights_in(shapes) :].any():
        raise ValueError("bits are set after the last weight")
    for name in sorted(shapes):
        size = int(np.prod(shapes[name], dtype=np.int64))
        tensors[name] = torch.from_numpy(bits[start : start + size].view(bool)).reshape(shapes[name])
        start += size
    return Mask(tensors)


def _check_header(file: BinaryIO, path: Path) -> int:
    """The array's length in bytes by its header; `file` is then at the first byte."""
    if file.read(len(_ZIP)) == _ZIP:
        raise UserError(f"{path} is a zip archive", "unpack it and give the .npy file that is in it")
    file.seek(0)
    shape, _, dtype = read_npy_header(file, str(path))
    if dtype != np.uint8 or len(shape) != 1:
        raise UserError(
            f"{path} holds an array of {dtype} in {len(shape)} dimensions", "a mask of SMP is one row of uint8"
        )
    return int(shape[0])


def _weights_in(shapes: Shapes) -> int:
    return sum(int(np.prod(shape, dtype=np.int64)) for shape in shapes.values())


# --- writing -------------------------------------------------------------------------------------------------------


@register
@dataclass(frozen=True)
class Smp(Format):
    """The mask bits alone, in one file (NAME.npy), as the authors of static model pruning publish theirs.

    Weights and head are no part of it. The mask must cover the layers' matrices and nothing else.
    """

    name = "smp"
    is_file = True

    def write(self, source: Source, out: Path) -> list[str]:
        mask, weights = source.subnetwork.mask, sorted(source.subnetwork.weights)
        if out.exists():
            raise UserError(f"{out} exists already", "choose a new file")
        if mask is None:
            raise UserError("a full model has no mask to write", "prune it first, or choose another format")
        _check_cover(mask, stack_shapes(source.base.model))
        if trained := [name for name in mask if name in weights]:
            raise UserError(
                f"the weights of this model were trained too ({trained[0]}), and SMP's format has a mask only",
                "choose --format subnetwork",
            )
        write_bytes(out, _to_npy(mask))
        if not weights:
            return []
        names = f"{len(weights)} trained tensors, such as {weights[0]},"
        return [f"{names} are not in the file: SMP's format has a mask only"]


def _to_npy(mask: Mask) -> bytes:
    """The bytes of the file."""
    file = io.BytesIO()
    np.save(file, np.packbits(np.concatenate([mask[name].numpy().reshape(-1) for name in sorted(mask)])))
    return file.getvalue()


def _check_cover(mask: Mask, shapes: Shapes) -> None:
    """The file has no names: one matrix more or less would shift all bits after it."""
    beyond = [name for name in mask if name not in shapes]
    if beyond:
        raise UserError(
            f"the mask also covers {beyond[0]}, which SMP's format does not have",
            "prune with exclude_modules=outside-stack",
        )
    missing = [name for name in shapes if name not in mask]
    if missing:
        raise UserError(
            f"the mask does not cover {missing[0]}, which SMP's format requires", "prune all matrices of the stack"
        )
