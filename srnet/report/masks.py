"""What the masks look like: their sparsity by matrix, where weights are kept, and how much two masks share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, permutations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from srnet.core.errors import shortened
from srnet.core.files import read_bytes
from srnet.experiment.store import Store
from srnet.masks.mask import Mask
from srnet.models.subnetwork import MASK
from srnet.recipes.recipe import Recipe
from srnet.report.pictures import Picture, draw_mosaic, heat_map, short_name


class _Matrix(NamedTuple):
    """A matrix of a mask, packed for counting: eight weights a byte."""

    bits: np.ndarray
    kept: int
    size: int


Packed = dict[str, _Matrix]
"""A mask, matrix by matrix."""
Lines = dict[str, dict[int, Packed]]
"""The masks at one sparsity, by label and seed."""


def _pack(mask: Mask) -> Packed:
    bits = {name: np.packbits(tensor.numpy().reshape(-1)) for name, tensor in mask.items()}
    return {name: _Matrix(each, int(np.bitwise_count(each).sum()), mask[name].numel()) for name, each in bits.items()}


def _overlap(first: Packed, second: Packed) -> tuple[float, float]:
    """The share of kept weights that two masks have in common, and what chance would give.

    1 for the same mask. Chance: masks with the same count in every matrix, but chosen at random.
    """
    pairs = [(first[name], second[name]) for name in first if name in second]  # lines may mask other matrices
    size = float(np.sqrt(sum(a.kept for a, _ in pairs) * sum(b.kept for _, b in pairs))) or 1.0
    common = sum(int(np.bitwise_count(a.bits & b.bits).sum()) for a, b in pairs)
    return common / size, sum(a.kept * b.kept / a.size for a, b in pairs) / size


@dataclass(frozen=True)
class MaskPictures:
    overlaps: list[Picture]
    """Maps of the overlap by sparsity, lines against lines; on the diagonal other seeds, elsewhere the same seed."""
    matrices: list[Picture]
    """Maps of the matrices by sparsity: percent pruned, one row per matrix, one column per line, mean over seeds."""
    mosaic: bytes | None
    """A PNG of one mask."""
    mosaic_of: str


def mask_pictures(recipe: Recipe, store: Store) -> MaskPictures:
    """The pictures of every sparsity at which at least one line has a mask."""
    points = [p for p in recipe.points if p.is_pruned and p.backbone == recipe.profile.backbone]
    last = {(p.label, p.place.aim): p.place for p in points}  # of several starts or lengths
    points = sorted((p for p in points if p.place == last[p.label, p.place.aim]), key=lambda p: p.place.sparsity)
    masks: dict[str, Lines] = {}
    for point in points:
        line = masks.setdefault(point.place.aim, {}).setdefault(shortened(point.label), {})
        line[point.seed] = _packed(store.path(point.node.key) / MASK)
    sparsest = points[-1].place.aim if points else ""
    trained = [p for p in points if p.search and p.search.pruner.name == "mask" and p.place.aim == sparsest]
    return MaskPictures(
        overlaps=[_overlap_map(aim, lines) for aim, lines in masks.items()],
        matrices=[_matrix_map(aim, lines) for aim, lines in masks.items()],
        mosaic=next((draw_mosaic(_read(store.path(p.node.key) / MASK)) for p in trained), None),
        mosaic_of=next((f"{shortened(p.label)}, {p.place.aim}, seed {p.seed}" for p in trained), ""),
    )


def _read(path: Path) -> Mask:
    return Mask.from_bytes(read_bytes(path), str(path))


@lru_cache(maxsize=512)
def _packed(path: Path) -> Packed:
    """An artifact never changes, and several figures show the same one."""
    return _pack(_read(path))


def _overlap_map(aim: str, lines: Lines) -> Picture:
    pairs = {(a, b): [(lines[a][s], lines[b][s]) for s in lines[a] if s in lines[b]] for a, b in permutations(lines, 2)}
    pairs |= {(label, label): list(combinations(line.values(), 2)) for label, line in lines.items()}
    overlaps = {cell: [_overlap(*pair) for pair in each] for cell, each in pairs.items()}
    cells = [[_percent([shared for shared, _ in overlaps[a, b]], 2) for b in lines] for a in lines]
    alone = [_overlap(mask, mask)[1] for line in lines.values() for mask in line.values()]
    chance = _percent([chance for each in overlaps.values() for _, chance in each] or alone, 2)
    title = f"{_titled(aim)}: kept weights in common (chance {chance:.1f} %)"
    return heat_map(title, list(lines), list(lines), cells, " % in common")


def _titled(aim: str) -> str:
    return f"{aim} sparse" if aim.endswith("%") else aim


def _percent(shares: Sequence[float], digits: int = 10) -> float | None:
    """The mean; None where there is nothing to compare."""
    return round(100.0 * float(np.mean(shares)), digits) if shares else None


def _matrix_map(aim: str, lines: Lines) -> Picture:
    names = dict.fromkeys(name for line in lines.values() for mask in line.values() for name in mask)
    cells = []
    for name in names:
        matrices = [[mask[name] for mask in line.values() if name in mask] for line in lines.values()]
        cells.append([_percent([(matrix.size - matrix.kept) / matrix.size for matrix in line]) for line in matrices])
    title = f"{_titled(aim)}: percent pruned, by matrix"
    return heat_map(title, list(lines), [short_name(name) for name in names], cells, " % pruned")
