"""Budgets in time: units are pruned until what is left takes at most a share of the measured time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from srnet.errors import UserError
from srnet.lazy import nn, torch
from srnet.masks.granularity import ROUNDING, STACK, Granularity, Group, Groups, Units, groups_of
from srnet.masks.latency import Latency
from srnet.masks.units import blocks_of


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
