"""What units cost in time: a small table, measured on a machine, through which a budget counts time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from srnet.errors import UserError
from srnet.masks.units import Block, Kind

Times = Mapping[Kind, Mapping[int, float]]
"""Milliseconds of a forward pass, by the units that are left in every block of a kind; 0: without these blocks."""
DIGITS = 3
"""Significant digits of a cost: more would be noise."""


@dataclass(frozen=True)
class Latency:
    """Milliseconds of a forward pass that each unit takes, and those that no unit can save."""

    head: float
    neuron: float
    attention: float
    """Of a whole attention part."""
    feed_forward: float
    """Of a whole feed-forward part."""
    rest: float
    """Embeddings, norms and residual connections."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0.0 <= value < math.inf:
                raise UserError(f"latency: {each.name} is {value!r:.80}", "give milliseconds, 0 or more")

    def unit(self, kind: Kind) -> float:
        return self.head if kind == "attention" else self.neuron

    def whole(self, kind: Kind) -> float:
        return self.attention if kind == "attention" else self.feed_forward

    def total(self, blocks: Iterable[Block]) -> float:
        """Of a model with these blocks."""
        return self.rest + sum(self.whole(block.kind) for block in blocks)


def latency_table(dense: float, times: Times, blocks: Sequence[Block]) -> Latency:
    """The table of a model with these blocks, from its time and from those with fewer units.

    A unit's cost is the slope of a line, fitted by least squares: a matrix product takes time in proportion to its
    width but for what a call costs at any width. That is in the cost of the whole part alone.
    """
    unit, whole = dict[Kind, float](), dict[Kind, float]()
    for kind, by_width in times.items():
        sizes = [block.size for block in blocks if block.kind == kind]
        whole[kind] = max(0.0, dense - by_width[0]) / len(sizes)
        widths = {**{width: time for width, time in by_width.items() if width}, sizes[0]: dense}
        # all units together cannot save more than the whole part does
        unit[kind] = min(_slope(widths) / len(sizes) if len(widths) > 1 else math.inf, whole[kind] / sizes[0])
    rest = dense - sum(whole[block.kind] for block in blocks)
    costs = (unit["attention"], unit["feed-forward"], whole["attention"], whole["feed-forward"], rest)
    return Latency(*(float(f"{max(0.0, cost):.{DIGITS}g}") for cost in costs))


def _slope(points: Mapping[int, float]) -> float:
    """Of the line with the least squares through (x, y)."""
    middle, level = sum(points) / len(points), sum(points.values()) / len(points)
    across = sum((x - middle) * (y - level) for x, y in points.items())
    return across / sum((x - middle) ** 2 for x in points)
