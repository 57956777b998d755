"""What the masks look like: their sparsity by matrix, where weights are kept, and how much two masks share."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib

matplotlib.use("Agg")
import numpy as np
import torch
from matplotlib import pyplot as plt

from srnet.experiment import Evaluate, Store
from srnet.export import Subnetwork
from srnet.masks import Mask
from srnet.recipes.recipe import Point, Recipe

BLOCKS = 32
"""A matrix is drawn as at most so many blocks in each direction."""


@dataclass(frozen=True)
class Overlap:
    """The share of kept weights that two masks have in common, and what chance would give."""

    shared: float
    chance: float


def overlap(first: Mask, second: Mask) -> Overlap:
    """1 for the same mask. Chance: masks with the same count in every matrix, but drawn blindly."""
    size = float(np.sqrt(first.kept * second.kept)) or 1.0
    counts = [(int(first[n].sum()), int(second[n].sum()), first[n].numel()) for n in first]
    return Overlap(first.intersection(second).kept / size, sum(a * b / total for a, b, total in counts) / size)


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
    points = [point for point in recipe.points() if point.line.pruner and point.line.backbone is None]
    points = [p for p in points if p.start == p.line.starts[-1] and p.length == p.line.lengths[-1]]
    masks = {point: mask for point in points if (mask := _mask(point, store)) is not None}
    sparsities = sorted({point.sparsity for point in masks})
    grouped = {s: {p: m for p, m in masks.items() if p.sparsity == s} for s in sparsities}
    shown = next((p for p in masks if p.line.pruner == "mask" and p.sparsity == sparsities[-1]), None)
    return MaskPictures(
        overlaps=[_overlaps(s, group) for s, group in grouped.items()],
        matrices=[_matrices(s, group) for s, group in grouped.items()],
        mosaic=_mosaic(masks[shown]) if shown is not None else None,
        mosaic_of="" if shown is None else f"{shown.line.label}, {100 * shown.sparsity:g} %, seed {shown.seed}",
    )


def _mask(point: Point, store: Store) -> Mask | None:
    if not store.has(point.node.key) or not store.has(Evaluate(point.node).key):
        return None
    return Subnetwork.load(store.path(point.node.key)).mask


def _labels(group: dict[Point, Mask]) -> list[str]:
    return list(dict.fromkeys(point.line.label for point in group))


def _overlaps(sparsity: float, group: dict[Point, Mask]) -> OverlapTable:
    labels = _labels(group)
    by_line = {label: {p.seed: m for p, m in group.items() if p.line.label == label} for label in labels}

    def between(first: str, second: str) -> list[Overlap]:
        ours, theirs = by_line[first], by_line[second]
        if first == second:
            return [overlap(ours[a], ours[b]) for a in ours for b in ours if a < b]
        return [overlap(ours[seed], theirs[seed]) for seed in ours if seed in theirs]

    cells = {(a, b): between(a, b) for i, a in enumerate(labels) for b in labels[: i + 1]}
    found = [each for cell in cells.values() for each in cell]
    shared = [
        [_percent([each.shared for each in cells.get((a, b), cells.get((b, a), []))]) for b in labels] for a in labels
    ]
    return OverlapTable(sparsity, labels, shared, _percent([each.chance for each in found]) or 100 * (1 - sparsity))


def _percent(values: Sequence[float]) -> float | None:
    return round(100.0 * float(np.mean(values)), 2) if values else None


def _matrices(sparsity: float, group: dict[Point, Mask]) -> MatrixTable:
    labels, names = _labels(group), list(next(iter(group.values())))
    by_line = {label: [m.sparsities() for p, m in group.items() if p.line.label == label] for label in labels}
    pruned = [[100.0 * float(np.mean([each[n] for each in by_line[label]])) for label in labels] for n in names]
    return MatrixTable(sparsity, labels, [short_name(name) for name in names], pruned)


def short_name(name: str) -> str:
    """bert.encoder.layer.0.attention.self.query.weight -> 0 attention.self.query"""
    found = re.search(r"\.(\d+)\.(.+)\.weight$", name)
    return f"{found[1]} {found[2]}" if found else name.removesuffix(".weight")


def _mosaic(mask: Mask) -> bytes:
    """Every matrix of a mask as a small picture: the darker a block, the more of its weights are kept."""
    columns = 6
    rows = -(-len(mask) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(1.9 * columns, 1.9 * rows), squeeze=False, layout="constrained")
    for axis in axes.flat:
        axis.set_axis_off()
    highest = max(float(blocks(tensor).max()) for tensor in mask.values())
    for axis, (name, tensor) in zip(axes.flat, mask.items(), strict=False):
        drawn = axis.imshow(
            blocks(tensor), cmap="viridis_r", vmin=0.0, vmax=highest, interpolation="nearest", aspect="auto"
        )
        axis.set_title(short_name(name), fontsize=7)
    figure.colorbar(drawn, ax=axes, shrink=0.6, label="share kept")
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
