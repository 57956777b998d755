"""Granularity: scores and budgets of single weights, or of units that are pruned as a whole (heads, neurons, layers).

Scores are kept in groups. With single weights a group is a matrix, and each weight has a score. With units a group is
an attention block with a score for each head, a feed-forward block with a score for each neuron, or the stack of layers
with a score for each of its blocks. The budget of units counts their weights or, with a latency table, their time.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from srnet.core.errors import UserError
from srnet.core.lazy import nn, no_grad, torch
from srnet.masks.budget import Scope, divide_budget, prune_count, select_within
from srnet.masks.mask import Mask
from srnet.masks.parametrization import attach, raw_weights, weight_name
from srnet.masks.selection import Selection, brought_to, count_each, select
from srnet.masks.timed import Latency
from srnet.masks.units import Block, blocks_of

if TYPE_CHECKING:
    from srnet.masks.modules import ScoreMask

Unit = Literal["weight", "head", "neuron", "layer"]
Granularity = tuple[Unit, ...]
Values = Mapping[str, "torch.Tensor"]
"""By the name of a group, or of a weight."""

WEIGHT: Granularity = ("weight",)
STACK = "stack"
"""The name of the group whose units are whole blocks."""
_KINDS = {"head": "attention", "neuron": "feed-forward"}
_ROUNDING = 1e-9
"""The floating-point error of a number of units."""


def check_granularity(granularity: Granularity) -> Granularity:
    """The granularity with its units in alphabetical order, as in a result's identity."""
    if sorted(granularity) not in (["weight"], ["head"], ["neuron"], ["layer"], ["head", "neuron"]):
        raise UserError(
            f"granularity {','.join(granularity) or 'none'} is not possible",
            "give weight, head, neuron or layer, or head,neuron together",
        )
    return tuple(sorted(granularity))


@dataclass(frozen=True)
class _GroupMatrix:
    """One matrix of a group: the unit that each index of dimension `dim` belongs to."""

    weight: str
    dim: int
    unit_of: torch.Tensor
    writes: bool
    """Whether it writes the units' results to the hidden states."""

    def along(self, values: torch.Tensor, unit_of: torch.Tensor) -> torch.Tensor:
        """A value for each unit, in a shape that broadcasts over the matrix; `unit_of` is on their device."""
        return values[unit_of].unsqueeze(1 - self.dim)


@dataclass(frozen=True)
class _Group:
    """Units that are ranked together."""

    name: str
    kind: str
    size: int
    matrices: tuple[_GroupMatrix, ...]


class Groups(ABC):
    """The groups of scores of one model."""

    def __init__(self, layers: dict[str, nn.Module]) -> None:
        self.layers = layers
        """The layers that a mask covers, by module name."""
        self.masks: dict[str, ScoreMask] = {}
        """The trainable mask of each group, once they are attached."""
        self.weights = sum(weight.numel() for weight in raw_weights(layers).values())
        """The number of weights that a mask covers."""

    @abstractmethod
    def __iter__(self) -> Iterator[str]:
        """The names of the groups."""

    @abstractmethod
    def pooled(self, name: str, values: Values) -> torch.Tensor:
        """A value for each score of a group, from a value for each weight: the root mean square over a unit."""

    def pool(self, values: Values) -> dict[str, torch.Tensor]:
        return {name: self.pooled(name, values) for name in self}

    @abstractmethod
    def counts(self, totals: Mapping[str, int], sparsity: float) -> dict[str, int]:
        """The number of kept scores of each group, out of `totals`, where every group meets the sparsity by itself."""

    @abstractmethod
    def select(self, scores: Values, sparsity: float, scope: Scope, ties: Values | None = None) -> dict[str, Selection]:
        """The scores of each group that are kept: the share `sparsity` is pruned, the lowest scores first."""

    def keep(self, scores: Values, sparsity: float, scope: Scope, ties: Values | None = None) -> Values:
        """True for the scores of each group that are kept."""
        return {name: each.keep for name, each in self.select(scores, sparsity, scope, ties).items()}

    def check_removes(self, sparsity: float, scope: Scope) -> None:
        """Refuse a share so small that, with some scores, every unit would be kept. Called before any training."""
        return

    @abstractmethod
    def over_weights(self, keep: Values) -> Values:
        """A decision about each weight from one about each score, on its device."""

    def expand(self, keep: Values) -> Mask:
        """The mask over weights, from a decision about each score."""
        return Mask(self.over_weights(keep))

    @abstractmethod
    def count(self, decisions: Iterable[tuple[str, torch.Tensor]]) -> torch.Tensor:
        """The number of weights whose decision is true, on their device; every group comes once."""

    def kept(self, decisions: Iterable[tuple[str, torch.Tensor]]) -> torch.Tensor:
        """The number of weights that are kept, with those that belong to no unit."""
        return self.count(decisions)

    @abstractmethod
    def attach(self, masks: dict[str, ScoreMask]) -> None:
        """Put the trainable mask of each group on the weights that it decides about."""

    def magnitudes(self) -> dict[str, torch.Tensor]:
        return {name: self.magnitude(name) for name in self}

    def ties(self) -> Values:
        """The magnitudes, each computed when it is read: few groups have tied scores."""
        return _Computed(self, self.magnitude)

    def magnitude(self, name: str) -> torch.Tensor:
        """The magnitude of each weight or unit of a group."""
        return self.pooled(name, raw_weights(self.layers)).detach().abs()

    def scores(self) -> dict[str, torch.Tensor]:
        return {name: mask.scores.detach() for name, mask in self.masks.items()}

    def mask(self) -> Mask:
        """The mask that the attached modules apply."""
        return self.expand({name: mask.binary() for name, mask in self.masks.items()})


class _Computed(Mapping[str, "torch.Tensor"]):
    """Values that are computed when they are read."""

    def __init__(self, names: Iterable[str], compute: Callable[[str], torch.Tensor]) -> None:
        self.names, self.compute = list(names), compute

    def __getitem__(self, name: str) -> torch.Tensor:
        return self.compute(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


class _WeightGroups(Groups):
    """Groups of single weights: each weight has a score, and a group is a matrix."""

    def __iter__(self) -> Iterator[str]:
        return iter(map(weight_name, self.layers))

    def pooled(self, name: str, values: Values) -> torch.Tensor:
        return values[name]

    def counts(self, totals: Mapping[str, int], sparsity: float) -> dict[str, int]:
        return {name: total - prune_count(sparsity, total) for name, total in totals.items()}

    def select(self, scores: Values, sparsity: float, scope: Scope, ties: Values | None = None) -> dict[str, Selection]:
        return select_within(scores, sparsity, scope, ties)

    def over_weights(self, keep: Values) -> Values:
        return keep

    def count(self, decisions: Iterable[tuple[str, torch.Tensor]]) -> torch.Tensor:
        return count_each(decision for _, decision in decisions).sum()

    def attach(self, masks: dict[str, ScoreMask]) -> None:
        self.masks = masks
        attach(self.layers, masks)


class _UnitGroups(Groups):
    """Groups of heads, neurons or blocks, each with a score. At least one unit of every group is kept."""

    def __init__(self, layers: dict[str, nn.Module], groups: Iterable[_Group]) -> None:
        super().__init__(layers)
        weights = raw_weights(layers)
        self.groups = {group.name: group for group in groups}
        self.total: float = self.weights
        """The amount of which a budget is a share: weights."""
        self.sizes = {name: _sizes(group, weights) for name, group in self.groups.items()}
        """The number of weights of each unit, by group. Budgets are computed on the CPU, wherever the model is."""
        self.costs = self.sizes
        """The part of `total` that each unit has."""
        self._placed: dict[torch.device, _Placed] = {}

    def placed(self, device: torch.device) -> _Placed:
        """Sizes and places of units on the device of a model, to which they are copied once."""
        if device not in self._placed:
            self._placed[device] = _placed(self, device)
        return self._placed[device]

    def __iter__(self) -> Iterator[str]:
        return iter(self.groups)

    @no_grad
    def pooled(self, name: str, values: Values) -> torch.Tensor:
        group = self.groups[name]
        placed = self.placed(values[group.matrices[0].weight].device)
        return (_sums_of_squares(group, values, placed) / placed.sizes[name]).sqrt()

    # --- budgets ---------------------------------------------------------------------------------------------------

    def counts(self, totals: Mapping[str, int], sparsity: float) -> dict[str, int]:
        """About the same share of every kind. Blocks of one kind differ by one unit at most.

        The kind with the cheapest units makes up for the rounding of the others, so that the budget is missed by half
        of such a unit at most. It is missed by more, as little as possible, only where there are too few of these.
        """
        self._check_reach(sparsity)
        counts: dict[str, int] = {}
        wanted, kinds = sparsity * self.total, self._kinds()
        for place, names in enumerate(kinds):
            pruned = self._pruned_units(wanted, names, [name for kind in kinds[place + 1 :] for name in kind])
            wanted -= pruned * float(self.costs[names[0]][0])
            free = {name: self.groups[name].size - 1 for name in names}
            for name, lost in divide_budget(pruned, free, dict.fromkeys(names, 1.0)).items():
                size = self.groups[name].size
                counts[name] = max(1, round(totals[name] * (size - lost) / size))  # `totals` may be those of a sample
        return counts

    def _pruned_units(self, wanted: float, names: list[str], cheaper: list[str]) -> int:
        """The number of units of one kind to prune: the same share as of the others, if those can absorb the rounding.

        They can neither restore an excess nor lose more than they have.
        """
        cost, sizes = float(self.costs[names[0]][0]), [self.groups[name].size for name in names]
        if cost == 0.0 or wanted <= 0.0:
            return 0
        share = wanted / float(sum(self.costs[name].sum() for name in (*names, *cheaper)))
        least, most = (wanted - sum(map(self._free, cheaper))) / cost, wanted / cost
        low, high = max(0, math.ceil(least - _ROUNDING)), math.floor(most + _ROUNDING)
        even = sum(round(share * size) for size in sizes)
        found = max(low, min(high, even)) if low <= high else self._rounded(least, most)
        return min(found, sum(sizes) - len(sizes))

    def _rounded(self, least: float, most: float) -> int:
        """The nearest whole number where none is between the two."""
        low, high = math.ceil(least), math.floor(most)
        return low if low - most < least - high else high

    def _kinds(self) -> list[list[str]]:
        """The groups by kind, the most expensive units first."""
        kinds: dict[str, list[str]] = {}
        for name, group in sorted(self.groups.items(), key=lambda item: -float(self.costs[item[0]][0])):
            kinds.setdefault(group.kind, []).append(name)
        return list(kinds.values())

    def _free(self, name: str) -> float:
        """The cost that can be pruned from a group with any scores: all but one unit, at worst the most expensive."""
        return float(self.costs[name].sum() - self.costs[name].max())

    def _check_reach(self, sparsity: float) -> None:
        """Refuse a share that is impossible with some scores. Called before any training."""
        most = sum(map(self._free, self.groups)) / self.total
        if sparsity > most + _ROUNDING:
            raise self._out_of_reach(sparsity, most)

    def check_removes(self, sparsity: float, scope: Scope) -> None:
        sizes = {name: group.size for name, group in self.groups.items()}
        if scope == "global" or STACK in self.groups:
            costs, _ = torch.cat(list(self.costs.values())).sort(descending=True)
            is_whole = self._number_pruned(costs, len(costs), sparsity) == 0
        else:
            is_whole = self.counts(sizes, sparsity) == sizes
        if is_whole and sparsity > 0.0:
            units = "block" if STACK in self.groups else "unit"
            raise UserError(f"sparsity {sparsity:g} rounds to no {units}", "give a larger one, or prune weights")

    def _out_of_reach(self, sparsity: float, most: float) -> UserError:
        what = "block" if STACK in self.groups else "unit of a block"
        is_one_kind = STACK not in self.groups and len({group.kind for group in self.groups.values()}) == 1
        largest = math.floor(1000.0 * most + _ROUNDING) / 1000.0
        fix = f"give at most {largest:g}" + (", or prune other units too" if is_one_kind else "")
        return UserError(f"sparsity {sparsity:g} would remove every {what}", fix if largest else "prune other units")

    def select(self, scores: Values, sparsity: float, scope: Scope, ties: Values | None = None) -> dict[str, Selection]:
        if scope == "global" or STACK in self.groups:
            return self._select_globally(scores, sparsity)
        names = list(scores)
        counts = self.counts({name: each.numel() for name, each in scores.items()}, sparsity)
        pruned = [scores[name].numel() - counts[name] for name in names]
        of_number = None if ties is None else lambda number: ties[names[number]]
        return dict(zip(names, select(list(scores.values()), pruned, of_number), strict=True))

    def _select_globally(self, scores: Values, sparsity: float) -> dict[str, Selection]:
        """The lowest scores of all groups are pruned until the budget is met as nearly as units allow."""
        names = sorted(scores)
        flat = torch.cat([_best_protected(scores[name]) for name in names])
        costs = torch.cat([self.costs[name] for name in names])
        order = flat.argsort(stable=True)
        pruned = self._number_pruned(costs[order.to(costs.device)], int((flat < torch.inf).sum()), sparsity)
        keep = torch.ones_like(flat, dtype=torch.bool).index_fill_(0, order[:pruned], False)
        parts = torch.split(keep, [scores[name].numel() for name in names])
        return {name: Selection(scores[name], None, part) for name, part in zip(names, parts, strict=True)}

    def _number_pruned(self, costs: torch.Tensor, free: int, sparsity: float) -> int:
        """The number of units to prune, by their costs in the order of their scores; the first `free` may be pruned."""
        self._check_reach(sparsity)
        removed = torch.cat([costs.new_zeros(1), costs.cumsum(0)])
        return min(free, int((removed - sparsity * self.total).abs().argmin()))

    # --- masks -----------------------------------------------------------------------------------------------------

    @no_grad
    def over_weights(self, keep: Values) -> Values:
        """Matrices of which no unit is pruned are covered as well: the budget counts them."""
        device = next(iter(keep.values())).device
        weights, placed = raw_weights(self.layers), self.placed(device)
        masks = {name: torch.ones(each.shape, dtype=torch.bool, device=device) for name, each in weights.items()}
        for name, group in self.groups.items():
            for matrix in group.matrices:
                along = matrix.along(keep[name], placed.unit_of[matrix.weight])
                masks[matrix.weight] = along.expand(weights[matrix.weight].shape)
        return masks

    def expand(self, keep: Values) -> Mask:
        here = brought_to(torch.device("cpu"), list(keep.values()))  # far less than the mask
        return Mask(self.over_weights(dict(zip(keep, here, strict=True))))

    def count(self, decisions: Iterable[tuple[str, torch.Tensor]]) -> torch.Tensor:
        counts = [(self.placed(each.device).sizes[name].long() * each).sum() for name, each in decisions]
        return torch.stack(counts).sum()

    def kept(self, decisions: Iterable[tuple[str, torch.Tensor]]) -> torch.Tensor:
        return self.count(decisions) + (self.weights - sum(int(each.long().sum()) for each in self.sizes.values()))

    def attach(self, masks: dict[str, ScoreMask]) -> None:
        """Only the matrix that writes is masked: a unit that writes nothing is pruned, and it still has a gradient.

        If its other matrices were masked as well, all of its gradients would be zero, and it could never return.
        """
        from srnet.masks.modules import UnitMask  # not at the top: it imports torch

        self.masks, on_weight = masks, {}
        for name, group in self.groups.items():
            for number, matrix in enumerate(each for each in group.matrices if each.writes):
                unit_of = matrix.unit_of.to(masks[name].scores.device)
                on_weight[matrix.weight] = UnitMask(masks[name], unit_of, matrix.dim, owns=number == 0)
        attach({n: layer for n, layer in self.layers.items() if weight_name(n) in on_weight}, on_weight)


class _TimedUnitGroups(_UnitGroups):
    """Groups of units whose budget is time: at least the share `sparsity` of the measured time is saved."""

    def __init__(
        self, layers: dict[str, nn.Module], groups: Iterable[_Group], latency: Latency, blocks: list[Block]
    ) -> None:
        super().__init__(layers, groups)
        self.total = latency.total(blocks)
        kinds = {each.name: block.kind for block in blocks for each in block.weights}
        self.costs = {name: torch.zeros(group.size, dtype=torch.float64) for name, group in self.groups.items()}
        for name, group in self.groups.items():
            cost = latency.whole if name == STACK else latency.unit
            for matrix in group.matrices:
                self.costs[name][matrix.unit_of] = cost(kinds[matrix.weight])

    def _rounded(self, least: float, most: float) -> int:
        """Enough to save the time."""
        return math.ceil(least)

    def _out_of_reach(self, sparsity: float, most: float) -> UserError:
        largest = math.floor(100.0 / (1.0 - most) + _ROUNDING) / 100.0
        fix = f"give at most {largest:g}, or prune other units too" if largest > 1.0 else "prune other units"
        return UserError(f"a speed-up of {1.0 / (1.0 - sparsity):g} cannot be reached with these units", fix)

    def _number_pruned(self, costs: torch.Tensor, free: int, sparsity: float) -> int:
        """The smallest number that saves the time."""
        self._check_reach(sparsity)
        short = costs.cumsum(0) < sparsity * self.total * (1.0 - _ROUNDING)
        return min(free, int(short.sum()) + 1) if sparsity > 0.0 else 0


def _best_protected(scores: torch.Tensor) -> torch.Tensor:
    """The scores of a group with the highest one infinite, so that one unit is kept."""
    best = scores.detach().argmax(0, keepdim=True)  # as an index in brackets the CPU would read it
    return scores.detach().scatter(0, best, torch.inf)


def _sizes(group: _Group, weights: Values) -> torch.Tensor:
    """The number of weights of each unit."""
    total = torch.zeros(group.size)
    for matrix in group.matrices:
        total += matrix.unit_of.bincount(minlength=group.size) * weights[matrix.weight].shape[1 - matrix.dim]
    return total


@dataclass(frozen=True)
class _Placed:
    """The sizes of units, and the units of matrices, on one device."""

    sizes: dict[str, torch.Tensor]
    unit_of: dict[str, torch.Tensor]


def _placed(groups: _UnitGroups, device: torch.device) -> _Placed:
    unit_of = {matrix.weight: matrix.unit_of for group in groups.groups.values() for matrix in group.matrices}
    sizes = brought_to(device, list(groups.sizes.values()))
    places = brought_to(device, list(unit_of.values()))
    return _Placed(dict(zip(groups.sizes, sizes, strict=True)), dict(zip(unit_of, places, strict=True)))


def _sums_of_squares(group: _Group, values: Values, placed: _Placed) -> torch.Tensor:
    """The sum of squares over the weights of each unit."""
    total = torch.zeros(group.size, device=values[group.matrices[0].weight].device)
    for matrix in group.matrices:
        sums = values[matrix.weight].detach().square().sum(1 - matrix.dim, dtype=torch.float32)
        total.index_add_(0, placed.unit_of[matrix.weight], sums)
    return total


# --- the groups of a model -----------------------------------------------------------------------------------------


def groups_of(
    model: nn.Module, layers: dict[str, nn.Module], granularity: Granularity = WEIGHT, latency: Latency | None = None
) -> Groups:
    """The groups of scores of `model`, of which `layers` are to be masked.

    With a latency table the budget of units is in time, otherwise in weights.
    """
    if granularity == WEIGHT:
        return _WeightGroups(layers)
    blocks, weights = blocks_of(model), raw_weights(layers)
    masked = _masked_blocks(blocks, layers)
    shapes = {each.name: weights[each.name].shape for block in masked for each in block.weights}
    covered = {name: layer for name, layer in layers.items() if weight_name(name) in shapes}
    if granularity == ("layer",):
        groups = [_stack(masked, shapes)]
    else:
        kinds = {_KINDS[unit] for unit in granularity}
        groups = [_group(block, shapes) for block in masked if block.kind in kinds]
        if not groups:
            raise UserError(f"no {' or '.join(sorted(kinds))} block is masked", "choose other target modules")
    return _UnitGroups(covered, groups) if latency is None else _TimedUnitGroups(covered, groups, latency, blocks)


def _masked_blocks(blocks: list[Block], layers: dict[str, nn.Module]) -> list[Block]:
    """The blocks of which every matrix is to be masked: units of others would lose only some of their weights."""
    found = []
    for block in blocks:
        masked = {each.name.removesuffix(".weight") in layers for each in block.weights}
        if len(masked) > 1:
            raise UserError(f"only some matrices of {block.name} are masked", "target all of them, or none")
        found += [block] if True in masked else []
    return found


def _group(block: Block, shapes: Mapping[str, torch.Size]) -> _Group:
    """The units of a block. A matrix with several roles (query, key and value in one) is listed once."""
    units, matrices = torch.arange(block.size), dict[str, _GroupMatrix]()
    for each in block.weights:
        empty = torch.zeros(shapes[each.name][each.dim], dtype=torch.long)
        matrix = matrices.setdefault(each.name, _GroupMatrix(each.name, each.dim, empty, each.role == "output"))
        matrix.unit_of[each.indices(units)] = units.repeat_interleave(each.width)
    return _Group(block.name, block.kind, block.size, tuple(matrices.values()))


def _stack(blocks: list[Block], shapes: Mapping[str, torch.Size]) -> _Group:
    """All blocks as the units of one group."""
    matrices = {
        each.name: _GroupMatrix(each.name, 0, torch.full((shapes[each.name][0],), number), each.role == "output")
        for number, block in enumerate(blocks)
        for each in block.weights
    }
    return _Group(STACK, "layer", len(blocks), tuple(matrices.values()))
