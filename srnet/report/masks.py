"""What the masks look like: their sparsity by matrix, where weights are kept, and how much two masks share."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
import torch
from matplotlib import pyplot as plt

from srnet.experiment import Store
from srnet.masks import Mask
from srnet.recipes.points import Point
from srnet.recipes.recipe import Recipe
from srnet.subnetwork import MASK

BLOCKS = 32
"""A matrix is drawn as at most so many blocks in each direction."""


@dataclass(frozen=True)
class Overlap:
    """The share of kept weights that two masks have in common, and what chance would give."""

    shared: float
    chance: float


@dataclass(frozen=True)
class Bits:
    """A mask packed for counting: eight weights a byte, matrix by matrix."""

    packed: dict[str, np.ndarray]
    kept: dict[str, int]
    sizes: dict[str, int]

    @classmethod
    def of(cls, mask: Mask) -> Bits:
        packed = {name: np.packbits(tensor.numpy().reshape(-1)) for name, tensor in mask.items()}
        kept = {name: int(np.bitwise_count(bits).sum()) for name, bits in packed.items()}
        return cls(packed, kept, {name: tensor.numel() for name, tensor in mask.items()})


def overlap(first: Bits, second: Bits) -> Overlap:
    """1 for the same mask. Chance: masks with the same count in every matrix, but drawn blindly."""
    names = [name for name in first.packed if name in second.packed]  # lines may mask other matrices
    size = float(np.sqrt(sum(first.kept[n] for n in names) * sum(second.kept[n] for n in names))) or 1.0
    common = sum(int(np.bitwise_count(first.packed[n] & second.packed[n]).sum()) for n in names)
    chance = sum(first.kept[n] * second.kept[n] / first.sizes[n] for n in names)
    return Overlap(common / size, chance / size)


@dataclass(frozen=True)
class OverlapTable:
    """Lines against lines at one sparsity. On the diagonal: the same line, other seeds. Elsewhere: the same seed."""

    sparsity: float
    labels: list[str]
    shared: list[list[float | None]]
    """Percent; None where one seed leaves nothing to compare."""
    chance: float


@dataclass(frozen=True)
class MatrixTable:
    """Percent pruned, one row a matrix, one column a line, mean over seeds."""

    sparsity: float
    labels: list[str]
    matrices: list[str]
    pruned: list[list[float]]


@dataclass(frozen=True)
class MaskPictures:
    overlaps: list[OverlapTable]
    matrices: list[MatrixTable]
    mosaic: bytes | None
    """A PNG of one mask."""
    mosaic_of: str


def mask_pictures(recipe: Recipe, store: Store) -> MaskPictures:
    """Of every sparsity at which at least one line has a mask."""
    points = [p for p in recipe.points if p.is_pruned and p.backbone == recipe.profile.backbone]
    last = {(p.label, p.place.sparsity): p.place for p in points}  # of several starts or lengths
    points = [p for p in points if p.place == last[p.label, p.place.sparsity]]
    bits = {point: _bits(store.path(point.node.key) / MASK) for point in points}
    sparsities = sorted({point.place.sparsity for point in bits})
    grouped = {s: {p: b for p, b in bits.items() if p.place.sparsity == s} for s in sparsities}
    shown = next((p for p in bits if _is_mask_training(p) and p.place.sparsity == sparsities[-1]), None)
    return MaskPictures(
        overlaps=[_overlaps(s, group) for s, group in grouped.items()],
        matrices=[_matrices(s, group) for s, group in grouped.items()],
        mosaic=None if shown is None else draw_mosaic(_read(store.path(shown.node.key) / MASK)),
        mosaic_of="" if shown is None else f"{shown.label}, {100 * shown.place.sparsity:g} %, seed {shown.seed}",
    )


def _is_mask_training(point: Point) -> bool:
    return point.search is not None and point.search.pruner.name == "mask"


def _read(path: Path) -> Mask:
    return Mask.from_bytes(path.read_bytes(), str(path))


@lru_cache(maxsize=512)
def _bits(path: Path) -> Bits:
    """An artifact never changes, and several figures show the same one."""
    return Bits.of(_read(path))


def _labels(group: dict[Point, Bits]) -> list[str]:
    return list(dict.fromkeys(point.label for point in group))


def _overlaps(sparsity: float, group: dict[Point, Bits]) -> OverlapTable:
    labels = _labels(group)
    by_line = {label: {p.seed: b for p, b in group.items() if p.label == label} for label in labels}

    def between(first: str, second: str) -> list[Overlap]:
        ours, theirs = by_line[first], by_line[second]
        if first == second:
            return [overlap(ours[a], ours[b]) for a in ours for b in ours if a < b]
        return [overlap(ours[seed], theirs[seed]) for seed in ours if seed in theirs]

    cells = {(a, b): between(a, b) for a in labels for b in labels}
    shared = [[_percent([each.shared for each in cells[a, b]]) for b in labels] for a in labels]
    chance = _percent([each.chance for cell in cells.values() for each in cell])
    return OverlapTable(sparsity, labels, shared, 100.0 * (1.0 - sparsity) if chance is None else chance)


def _percent(values: Sequence[float]) -> float | None:
    return round(100.0 * float(np.mean(values)), 2) if values else None


def _matrices(sparsity: float, group: dict[Point, Bits]) -> MatrixTable:
    labels, names = _labels(group), list(next(iter(group.values())).packed)

    def pruned(name: str, label: str) -> float:
        shares = [1.0 - bits.kept[name] / bits.sizes[name] for p, bits in group.items() if p.label == label]
        return 100.0 * float(np.mean(shares))

    cells = [[pruned(name, label) for label in labels] for name in names]
    return MatrixTable(sparsity, labels, [short_name(name) for name in names], cells)


def short_name(name: str) -> str:
    """bert.encoder.layer.0.attention.self.query.weight -> 0 attention.self.query"""
    found = re.search(r"\.(\d+)\.(.+)\.weight$", name)
    return f"{found[1]} {found[2]}" if found else name.removesuffix(".weight")


def draw_mosaic(mask: Mask, columns: int = 6) -> bytes:
    """Every matrix of a mask as a small picture: the darker a block, the more of its weights are kept."""
    cell, gap = BLOCKS + 4, 8
    rows = -(-len(mask) // columns)
    canvas = np.full((rows * (cell + gap), columns * cell), np.nan)
    figure = plt.figure(figsize=(1.7 * columns + 1.0, 1.7 * rows * (cell + gap) / cell))
    axis = figure.add_axes((0.01, 0.01, 0.9, 0.98))
    axis.set_axis_off()
    for index, (name, tensor) in enumerate(mask.items()):
        top, left = (index // columns) * (cell + gap) + gap, (index % columns) * cell
        drawn = blocks(tensor)
        canvas[top : top + drawn.shape[0], left : left + drawn.shape[1]] = drawn
        axis.text(left, top - 2.5, short_name(name), fontsize=6.5, va="center")
    image = axis.imshow(canvas, cmap="viridis_r", vmin=0.0, vmax=float(np.nanmax(canvas)), interpolation="nearest")
    figure.colorbar(image, cax=figure.add_axes((0.925, 0.25, 0.015, 0.5)), label="share kept")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    plt.close(figure)
    return buffer.getvalue()


def blocks(matrix: torch.Tensor, most: int = BLOCKS) -> np.ndarray:
    """The share kept in each block of a matrix."""
    kept = matrix.to(torch.float32)[None, None]
    rows, columns = (min(most, side) for side in matrix.shape)
    pooled: np.ndarray = torch.nn.functional.adaptive_avg_pool2d(kept, (rows, columns))[0, 0].numpy()
    return pooled
