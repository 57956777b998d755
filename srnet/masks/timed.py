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

    def counts(self, totals: Mapping[str, int], sparsity: float) -> dict[str, int]:
        """About the same share of every kind, and no unit more than the budget needs.

        Blocks of one kind differ by one unit at most. The kind with the cheapest units makes up for the others.
        """
        self.check_reach(sparsity)
        counts: dict[str, int] = {}
        wanted, kinds = sparsity * self.total, self.kinds()
        for place, names in enumerate(kinds):
            gone = self._gone(wanted, names, kinds[place + 1 :])
            wanted -= gone * float(self.costs[names[0]][0])
            for index, name in enumerate(names):
                size = self.groups[name].size
                left = size - gone // len(names) - (index < gone % len(names))
                counts[name] = max(1, round(totals[name] * left / size))  # `totals` may be those of a sample
        return counts

    def _gone(self, wanted: float, names: list[str], others: list[list[str]]) -> int:
        """How many units of one kind go to save the time `wanted` together with cheaper kinds."""
        cost, size = float(self.costs[names[0]][0]), self.groups[names[0]].size
        if cost == 0.0 or wanted <= 0.0:
            return 0
        rest = [float(self.costs[name][0]) * self.groups[name].size for kind in others for name in kind]
        spared = sum(float(self.costs[name][0]) for kind in others for name in kind)
        least = math.ceil(max(0.0, wanted - sum(rest) + spared) / cost - ROUNDING)
        most = min(math.floor(wanted / cost + ROUNDING), len(names) * (size - 1))
        even = len(names) * round(size * wanted / (cost * size * len(names) + sum(rest)))
        return max(least, min(most, even))

    def out_of_reach(self, sparsity: float, most: float) -> UserError:
        largest = math.floor(100.0 / (1.0 - most) + ROUNDING) / 100.0
        fix = f"give at most {largest:g}, or prune other units too" if largest > 1.0 else "prune other units"
        return UserError(f"a speed-up of {1.0 / (1.0 - sparsity):g} cannot be reached with these units", fix)

    def _number_pruned(self, costs: torch.Tensor, free: int, sparsity: float) -> int:
        """Just enough of them, the lowest scores first."""
        self.check_reach(sparsity)
        short = costs.cumsum(0) < sparsity * self.total * (1.0 - ROUNDING)
        return min(free, int(short.sum()) + 1) if sparsity > 0.0 else 0
