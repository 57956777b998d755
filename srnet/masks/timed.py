"""The latency table of a model: what units cost in time, measured on a machine."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from srnet.config.fields import Described
from srnet.config.values import NotNegative
from srnet.masks.units import Block, Kind

Times = Mapping[Kind, Mapping[int, float]]
"""Milliseconds of a forward pass, by the number of units in every block of a kind; 0: without these blocks."""
_DIGITS = 3
"""Significant digits of a cost: more would be noise."""


@dataclass(frozen=True)
class Latency(Described):
    """Milliseconds of a forward pass that each `head` and `neuron` takes, and those that no unit can save."""

    head: NotNegative
    neuron: NotNegative
    attention: NotNegative
    """Milliseconds of a whole attention part."""
    feed_forward: NotNegative
    """Milliseconds of a whole feed-forward part."""
    rest: NotNegative
    """Milliseconds of embeddings, norms and residual connections."""

    @classmethod
    def fitted(cls, dense: float, times: Times, blocks: Sequence[Block]) -> Latency:
        """The table of a model with these blocks, from its time and from those with fewer units.

        A unit's cost is the slope of a line, fitted by least squares: the time of a matrix product is proportional to
        its width, plus a constant for the call. The constant belongs to the cost of the whole part.
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
        return cls(*(float(f"{max(0.0, cost):.{_DIGITS}g}") for cost in costs))

    def unit(self, kind: Kind) -> float:
        return self.head if kind == "attention" else self.neuron

    def whole(self, kind: Kind) -> float:
        return self.attention if kind == "attention" else self.feed_forward

    def total(self, blocks: Iterable[Block]) -> float:
        """Milliseconds of a model with these blocks."""
        return self.rest + sum(self.whole(block.kind) for block in blocks)


def _slope(points: Mapping[int, float]) -> float:
    """The slope of the line with the least squares through (x, y)."""
    middle, level = sum(points) / len(points), sum(points.values()) / len(points)
    across = sum((x - middle) * (y - level) for x, y in points.items())
    return across / sum((x - middle) ** 2 for x in points)
