"""A compressed mask file for a receiver who has the backbone: its bits are coded given the backbone's magnitudes.

Mask training moves few weights across the cut, so that the magnitude of a weight largely determines its bit. Of each
matrix the weights are put into bins of about equally many, by magnitude. The header has, for every bin, how many of its
weights are kept; given that, its bits are coded at their entropy. Where whole rows or columns are pruned, as heads and
neurons are, each of them has one bit.

    magic | sha256 of what follows | sha256 of the backbone | size of the header | header | counts | coded bits

Decoding gives the same bits on every machine: bins are made from the bit patterns of the magnitudes and probabilities
from whole numbers.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import constriction
import numpy as np
import torch

from srnet.core.errors import UserError
from srnet.masks.mask import Mask, with_checksum, without_checksum

_MAGIC = b"SRNETMASK2\n"
_DIGEST = 32
_FINEST = 8
"""Bins of a matrix: at most 2 ** 8. Each costs a count of two or three bytes."""
_ROWS, _COLUMNS = -1, -2
"""In place of a depth: all weights of a row, or of a column, have the same bit."""
_LONGEST_HEADER = 1 << 22
_PRECISION = 24
"""Bits of a probability, as `constriction` has them."""
_BYTEWISE = 1024
"""Eight bits are one symbol, which decodes four times as fast, unless fewer than one in so many differs from the rest:
of 256 symbols each gets a probability of at least 2 ** -24, and that would be too much for the rare ones."""
_ONES = np.array([value.bit_count() for value in range(256)])

Weights = Mapping[str, torch.Tensor]
"""What the receiver has, by name. A matrix of which only the shape is known is all zeros."""


def encode_mask(mask: Mask, weights: Weights, backbone_sha256: str) -> bytes:
    """The content of a mask file for receivers who have `weights`."""
    layouts = {name: _layout(keep) for name, keep in mask.items()}
    matrices = {name: _Matrix.of(keep, weights[name], layouts[name]) for name, keep in mask.items()}
    depths = {name: matrix.depth if layouts[name] is None else layouts[name] for name, matrix in matrices.items()}
    header = zlib.compress(json.dumps(depths).encode(), 9)
    counts = b"".join(matrix.counts_as_bytes() for matrix in matrices.values())
    content = bytes.fromhex(backbone_sha256) + len(header).to_bytes(4, "little") + header + counts
    content += _encoded([block for matrix in matrices.values() for block in matrix.blocks()])
    return with_checksum(_MAGIC, content)


def decode_mask(data: bytes, weights: Weights, backbone_sha256: str, source: str = "mask") -> Mask:
    """The mask in a file. Memory is allocated by the shapes of `weights`, not by the file."""
    depths, rest = _opened(data, weights, backbone_sha256, source)
    matrices = []
    for name, depth in depths.items():
        matrix, rest = _Matrix.from_counts(depth, weights[name], rest, source)
        matrices.append(matrix)
    coder = _decoder(rest, source)
    tensors = {
        name: _unfolded(matrix.decoded(coder, source), depths[name], weights[name].shape)
        for name, matrix in zip(depths, matrices, strict=True)
    }
    if not coder.is_empty():
        raise _damaged(source, "has coded bits that belong to no weight")
    return Mask(tensors)


# --- rows and columns ----------------------------------------------------------------------------------------------


def _layout(keep: torch.Tensor) -> int | None:
    """Whether only rows or only columns are pruned; None if single weights are."""
    if keep.dim() == 2 and min(keep.shape) > 1:
        for layout, one in ((_ROWS, keep[:, :1]), (_COLUMNS, keep[:1])):
            if torch.equal(one.expand_as(keep), keep):
                return layout
    return None


def _folded(tensor: torch.Tensor, layout: int) -> torch.Tensor:
    return tensor[:, 0] if layout == _ROWS else tensor[0]


def _unfolded(bits: torch.Tensor, depth: int, shape: torch.Size) -> torch.Tensor:
    if depth >= 0:
        return bits.reshape(shape)
    return (bits[:, None] if depth == _ROWS else bits[None]).expand(shape).contiguous()


# --- bins ----------------------------------------------------------------------------------------------------------


def _bins_of(weight: torch.Tensor) -> np.ndarray:
    """The finest bin of each weight. Equal magnitudes share one; the others are about equally full."""
    bits = _flat(weight.float()).view(np.uint32)
    magnitudes = ((bits & 0x7FFFFFFF) >> 15).astype(np.uint16)  # exponent and 8 bits: steps of 0.4 %
    counts = np.bincount(magnitudes, minlength=1 << 16)
    smaller = np.cumsum(counts) - counts
    return ((smaller << _FINEST) // max(len(bits), 1)).astype(np.uint8)[magnitudes]


def _one_bin(size: int) -> np.ndarray:
    return np.zeros(size, dtype=np.uint8)


def _best_depth(sizes: np.ndarray, kept: np.ndarray) -> int:
    """How fine bins should be so that counts and bits together are shortest: there are 2 ** depth of them."""
    costs = [_cost(_merged(sizes, depth), _merged(kept, depth)) for depth in range(_FINEST + 1)]
    return costs.index(min(costs))


def _merged(counts: np.ndarray, depth: int) -> np.ndarray:
    return np.asarray(counts.reshape(1 << depth, -1).sum(axis=1))


def _cost(sizes: np.ndarray, kept: np.ndarray) -> float:
    """Bits that the counts and, at their entropy, the mask's bits take."""
    headers = sum(8 * _width(int(size)) for size in sizes)
    return headers + sum(_entropy(int(size), int(ones)) for size, ones in zip(sizes, kept, strict=True))


def _entropy(size: int, ones: int) -> float:
    """Bits that `size` independent bits have of which `ones` are set."""
    if ones in (0, size):
        return 0.0
    share = ones / size
    return -size * (share * math.log2(share) + (1 - share) * math.log2(1 - share))


def _width(size: int) -> int:
    """Bytes of a count from 0 to `size`."""
    return (size.bit_length() + 7) // 8


def _flat(tensor: torch.Tensor) -> np.ndarray:
    return np.asarray(tensor.detach().cpu().contiguous().numpy().reshape(-1))


# --- one matrix ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Matrix:
    """Which weight is in which bin, and how many of each bin are kept; when encoding, also the bits."""

    depth: int
    bins: np.ndarray
    sizes: np.ndarray
    kept: np.ndarray
    bits: np.ndarray | None = None

    @classmethod
    def of(cls, keep: torch.Tensor, weight: torch.Tensor, layout: int | None) -> _Matrix:
        if layout is not None:
            bits = _flat(_folded(keep, layout))
            return cls(0, _one_bin(len(bits)), np.array([len(bits)]), np.array([bits.sum()]), bits)
        finest, bits = _bins_of(weight), _flat(keep)
        sizes, kept = (np.bincount(each, minlength=1 << _FINEST) for each in (finest, finest[bits]))
        depth = _best_depth(sizes, kept)
        return cls(depth, finest >> (_FINEST - depth), _merged(sizes, depth), _merged(kept, depth), bits)

    @classmethod
    def from_counts(cls, depth: int, weight: torch.Tensor, data: bytes, source: str) -> tuple[_Matrix, bytes]:
        """Read the counts at the beginning of `data`; the rest is returned."""
        if depth >= 0:
            bins = _bins_of(weight) >> (_FINEST - depth)
        else:
            depth, bins = 0, _one_bin(len(_folded(weight, depth)))
        sizes, kept, start = np.bincount(bins, minlength=1 << depth), [], 0
        for size in map(int, sizes):
            end = start + _width(size)
            kept.append(int.from_bytes(data[start:end], "little"))
            if end > len(data) or kept[-1] > size:
                raise _damaged(source, "counts more weights than there are")
            start = end
        return cls(depth, bins, sizes, np.array(kept)), data[start:]

    def counts_as_bytes(self) -> bytes:
        return b"".join(kept.to_bytes(_width(size), "little") for size, kept in self._by_bin())

    def blocks(self) -> Iterator[tuple[np.ndarray, Any]]:
        """What is coded, bin by bin: symbols and their model."""
        assert self.bits is not None
        ordered, start = self.bits[self._order()], 0
        for size, kept in self._by_bin():
            bits, start = ordered[start : start + size], start + size
            whole = 8 * _bytes_in(size, kept)
            if whole:
                yield np.packbits(bits[:whole]).astype(np.int32), _byte_model(size, kept)
            if whole < size and 0 < kept < size:
                yield bits[whole:].astype(np.int32), _bit_model(size, kept)

    def decoded(self, coder: Any, source: str) -> torch.Tensor:
        parts = [_decoded_bin(coder, size, kept) for size, kept in self._by_bin()]
        if any(int(part.sum()) != kept for part, kept in zip(parts, self.kept, strict=True)):
            raise _damaged(source, "has other bits than it counts")
        bits = np.empty(len(self.bins), dtype=bool)
        bits[self._order()] = np.concatenate(parts)
        return torch.from_numpy(bits)

    def _by_bin(self) -> Iterator[tuple[int, int]]:
        """The size of each bin, and how many of its weights are kept."""
        return zip(map(int, self.sizes), map(int, self.kept), strict=True)

    def _order(self) -> Any:
        """The weights bin by bin, each in its order."""
        return slice(None) if self.depth == 0 else np.argsort(self.bins, kind="stable")


def _decoded_bin(coder: Any, size: int, kept: int) -> np.ndarray:
    if kept in (0, size):
        return np.full(size, kept > 0)
    count = _bytes_in(size, kept)
    bits = np.empty(size, dtype=bool)
    if count:
        symbols = coder.decode(_byte_model(size, kept), count)
        bits[: 8 * count] = np.unpackbits(symbols.astype(np.uint8)).view(bool)
    if 8 * count < size:
        bits[8 * count :] = coder.decode(_bit_model(size, kept), size - 8 * count)
    return bits


# --- the entropy coder ---------------------------------------------------------------------------------------------


def _bytes_in(size: int, kept: int) -> int:
    """How many symbols of eight bits a bin is coded in; what remains is coded bit by bit."""
    return size // 8 if min(kept, size - kept) * _BYTEWISE >= size else 0


def _bit_model(size: int, kept: int) -> Any:
    return _model(np.array([size - kept, kept]))


def _byte_model(size: int, kept: int) -> Any:
    """Eight independent bits: a product, rounded to a whole number of 2 ** -24 so that it is the same everywhere."""
    products = [((kept**ones * (size - kept) ** (8 - ones)) << _PRECISION) // size**8 for ones in range(9)]
    return _model(np.array(products)[_ONES])


def _model(weights: np.ndarray) -> Any:
    return constriction.stream.model.Categorical(weights.astype(np.float64), perfect=False)


def _encoded(blocks: list[tuple[np.ndarray, Any]]) -> bytes:
    coder = constriction.stream.stack.AnsCoder()
    for symbols, model in reversed(blocks):  # a stack: what is decoded first goes in last
        coder.encode_reverse(symbols, model)
    return bytes(coder.get_compressed().astype("<u4").tobytes())


def _decoder(data: bytes, source: str) -> Any:
    try:
        return constriction.stream.stack.AnsCoder(np.frombuffer(data, "<u4").astype(np.uint32))
    except ValueError as error:  # no whole number of words, or a last one that no encoder writes
        raise _damaged(source, "has coded bits that cannot be read") from error


# --- the file ------------------------------------------------------------------------------------------------------


def _opened(data: bytes, weights: Weights, backbone_sha256: str, source: str) -> tuple[dict[str, int], bytes]:
    """How fine the bins of each matrix are, or its layout, and what follows the header."""
    content = without_checksum(_MAGIC, data, source)
    needed = content[:_DIGEST].hex()
    if needed != backbone_sha256:
        raise UserError(
            f"{source} was coded for the backbone {needed[:12]}, not for {backbone_sha256[:12]}",
            "give the folder of the original backbone",
        )
    end = _DIGEST + 4 + int.from_bytes(content[_DIGEST : _DIGEST + 4], "little")
    return _checked_header(content[_DIGEST + 4 : end], weights, source), content[end:]


def _checked_header(packed: bytes, weights: Weights, source: str) -> dict[str, int]:
    unpacker = zlib.decompressobj()
    try:
        depths = json.loads(unpacker.decompress(packed, _LONGEST_HEADER))
    except (zlib.error, ValueError, RecursionError) as error:
        raise _damaged(source, "has an unreadable header") from error
    known = range(_COLUMNS, _FINEST + 1)
    if not isinstance(depths, dict) or not all(type(each) is int and each in known for each in depths.values()):
        raise _damaged(source, "has a header that is no list of matrices")
    unknown = [name for name in depths if name not in weights or not weights[name].is_floating_point()]
    if unknown or list(depths) != sorted(depths):
        raise _damaged(source, f"has a mask for '{''.join(unknown[:1])[:80]}', and the backbone has no such matrix")
    if any(depth < 0 and (weights[name].dim() != 2 or not weights[name].numel()) for name, depth in depths.items()):
        raise _damaged(source, "has rows or columns of a tensor that is no matrix")
    return depths


def _damaged(source: str, problem: str) -> UserError:
    return UserError(f"{source} {problem}", "restore the file")
