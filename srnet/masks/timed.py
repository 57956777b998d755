"""What units cost in time: a small table, measured on a machine, through which a budget counts time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from srnet.config.fields import Described
from srnet.config.values import NotNegative
from srnet.core.errors import UserError
from srnet.core.lazy import nn, torch
from srnet.masks.granularity import ROUNDING, STACK, Granularity, Group, Groups, Units, groups_of
from srnet.masks.units import Block, Kind, blocks_of

Times = Mapping[Kind, Mapping[int, float]]
"""Milliseconds of a forward pass, by the units that are left in every block of a kind; 0: without these blocks."""
DIGITS = 3
"""Significant digits of a cost: more would be noise."""


@dataclass(frozen=True)
class Latency(Described):
    """Milliseconds of a forward pass that each unit takes, and those that no unit can save."""

    head: NotNegative
    neuron: NotNegative
    attention: NotNegative
    """Of a whole attention part."""
    feed_forward: NotNegative
    """Of a whole feed-forward part."""
    rest: NotNegative
    """Embeddings, norms and residual connections."""

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


# --- budgets in time: units are pruned until what is left takes at most a share of the measured time ---


def budgeted_groups(
    model: nn.Module, layers: dict[str, nn.Module], granularity: Granularity, latency: Latency | None
) -> Groups:
    """The groups of scores of `model`; with a latency table their budget is in time, otherwise in weights."""
    groups = groups_of(model, layers, granularity)
    if latency is None:
        return groups
    assert isinstance(groups, Units), "a pruner with a speed-up has units"
    blocks = blocks_of(model)
    kinds = {each.name: block.kind for block in blocks for each in block.weights}

    def costs(group: Group) -> torch.Tensor:
        own = torch.zeros(group.size, dtype=torch.float64)
        for part in group.parts:
            cost = latency.whole if group.name == STACK else latency.unit
            own[part.unit_of] = cost(kinds[part.weight])
        return own

    own = list(groups.groups.values())
    return TimedUnits(groups.layers, own, {group.name: costs(group) for group in own}, latency.total(blocks))


class TimedUnits(Units):
    """Units whose budget is time: `sparsity` is the share of the time that has to go, at least."""

    def __init__(
        self,
        layers: dict[str, nn.Module],
        groups: Iterable[Group],
        costs: Mapping[str, torch.Tensor],
        total: float,
    ) -> None:
        super().__init__(layers, groups)
        self.costs, self.total = dict(costs), total

    def _rounded(self, least: float, most: float) -> int:
        """Enough to save the time."""
        return math.ceil(least)

    def out_of_reach(self, sparsity: float, most: float) -> UserError:
        largest = math.floor(100.0 / (1.0 - most) + ROUNDING) / 100.0
        fix = f"give at most {largest:g}, or prune other units too" if largest > 1.0 else "prune other units"
        return UserError(f"a speed-up of {1.0 / (1.0 - sparsity):g} cannot be reached with these units", fix)

    def _number_pruned(self, costs: torch.Tensor, free: int, sparsity: float) -> int:
        """Just enough of them, the lowest scores first."""
        self.check_reach(sparsity)
        short = costs.cumsum(0) < sparsity * self.total * (1.0 - ROUNDING)
        return min(free, int(short.sum()) + 1) if sparsity > 0.0 else 0
