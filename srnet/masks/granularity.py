"""What a mask decides about: single weights, or units that are pruned as a whole: heads, neurons, layers.

Scores are kept in groups. With single weights a group is a matrix, and each weight has a score. With units a group is
an attention block with a score for each head, a feed-forward block with a score for each neuron, or the stack of layers
with a score for each of its blocks. Budgets count weights, through the units; `srnet.masks.timed` counts time instead.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from srnet.core.errors import UserError
from srnet.core.lazy import nn, no_grad, torch
from srnet.masks.budget import Scope, divide_budget, keep_largest, kept_counts, meet_budget
from srnet.masks.mask import Mask
from srnet.masks.parametrization import attach, raw_weights, weight_name
from srnet.masks.units import Block, blocks_of

if TYPE_CHECKING:
    from srnet.masks.modules import ScoreMask

Unit = Literal["weight", "head", "neuron", "layer"]
Granularity = tuple[Unit, ...]
Values = Mapping[str, "torch.Tensor"]
"""By the name of a group, or of a weight."""

WEIGHT: Granularity = ("weight",)
KINDS = {"head": "attention", "neuron": "feed-forward"}
STACK = "stack"
"""The group whose units are whole blocks."""
ROUNDING = 1e-9
"""Of a number of units: what floating-point error may add to a whole number."""


def check_granularity(granularity: Granularity) -> Granularity:
    """The same in the order that a result's identity has."""
    if sorted(granularity) not in (["weight"], ["head"], ["neuron"], ["layer"], ["head", "neuron"]):
        raise UserError(
            f"granularity {','.join(granularity) or 'none'} is not possible",
            "give weight, head, neuron or layer, or head,neuron together",
        )
    return tuple(sorted(granularity))


@dataclass(frozen=True)
class Part:
    """One matrix of a group: the unit that each index of dimension `dim` belongs to."""

    weight: str
    dim: int
    unit_of: torch.Tensor
    writes: bool
    """Whether it writes the units' results to the hidden states."""

    def along(self, values: torch.Tensor) -> torch.Tensor:
        """A value for each unit, in a shape that broadcasts over the matrix."""
        return values[self.unit_of].unsqueeze(1 - self.dim)


@dataclass(frozen=True)
class Group:
    """Units that are ranked together."""

    name: str
    kind: str
    size: int
    parts: tuple[Part, ...]


class Groups(ABC):
    """The groups of scores of one model."""

    def __init__(self, layers: dict[str, nn.Module]) -> None:
        self.layers = layers
        """The layers that a mask covers, by module name."""
        self.masks: dict[str, ScoreMask] = {}
        """The trainable mask of each group, once they are attached."""

    @abstractmethod
    def __iter__(self) -> Iterator[str]:
        """The names of the groups."""

    @abstractmethod
    def pooled(self, name: str, values: Values) -> torch.Tensor:
        """From a value for each weight to one for each score of a group: the root mean square over a unit."""

    def pool(self, values: Values) -> dict[str, torch.Tensor]:
        return {name: self.pooled(name, values) for name in self}

    @abstractmethod
    def counts(self, totals: Mapping[str, int], sparsity: float) -> dict[str, int]:
        """How many of each group's `totals` scores stay where every group meets the sparsity by itself."""

    @abstractmethod
    def keep(self, scores: Values, sparsity: float, scope: Scope, ties: Values | None = None) -> Values:
        """What stays of each group so that the share `sparsity` of the weights is pruned, the lowest scores first."""

    def check_removes(self, sparsity: float, scope: Scope) -> None:
        """Refuse a share so small that some scores would leave everything, so that no training ends in it."""
        return

    @abstractmethod
    def expand(self, keep: Values) -> Mask:
        """The mask over weights, from a decision about each score."""

    def attach(self, masks: dict[str, ScoreMask]) -> None:
        """Put the trainable mask of each group on the weights that it decides about."""
        self.masks = masks
        self._attach()

    @abstractmethod
    def _attach(self) -> None: ...

    def magnitudes(self) -> dict[str, torch.Tensor]:
        return {name: self.magnitude(name) for name in self}

    def magnitude(self, name: str) -> torch.Tensor:
        """Of each weight or unit of a group."""
        return self.pooled(name, raw_weights(self.layers)).detach().abs()

    def scores(self) -> dict[str, torch.Tensor]:
        return {name: mask.scores.detach() for name, mask in self.masks.items()}

    def mask(self) -> Mask:
        """What the attached masks keep right now."""
        return self.expand({name: mask.binary() for name, mask in self.masks.items()})


class Weights(Groups):
    """Each weight has a score; a group is a matrix."""

    def __iter__(self) -> Iterator[str]:
        return iter(map(weight_name, self.layers))

    def pooled(self, name: str, values: Values) -> torch.Tensor:
        return values[name]

    def counts(self, totals: Mapping[str, int], sparsity: float) -> dict[str, int]:
        return kept_counts(totals, sparsity)

    def keep(self, scores: Values, sparsity: float, scope: Scope, ties: Values | None = None) -> Values:
        return meet_budget(scores, sparsity, scope, ties)

    def expand(self, keep: Values) -> Mask:
        return Mask(keep)

    def _attach(self) -> None:
        attach(self.layers, self.masks)


class Units(Groups):
    """Each head, neuron or block has a score. At least one unit of every group stays."""

    def __init__(self, layers: dict[str, nn.Module], groups: Iterable[Group]) -> None:
        super().__init__(layers)
        weights = raw_weights(layers)
        self.groups = {group.name: group for group in groups}
        self.total: float = sum(weight.numel() for weight in weights.values())
        """What the share of a budget refers to."""
        self.sizes = {name: _sizes(group, weights) for name, group in self.groups.items()}
        """How many weights each unit has, by group. On the CPU, wherever the model is: budgets are computed there."""
        self.costs = self.sizes
        """What each unit takes of the budget."""

    def __iter__(self) -> Iterator[str]:
        return iter(self.groups)

    @no_grad
    def pooled(self, name: str, values: Values) -> torch.Tensor:
        squares = _sums_of_squares(self.groups[name], values)
        return (squares / self.sizes[name].to(squares.device)).sqrt()

    # --- budgets ---------------------------------------------------------------------------------------------------

    def counts(self, totals: Mapping[str, int], sparsity: float) -> dict[str, int]:
        """About the same share of every kind. Blocks of one kind differ by one unit at most.

        The kind with the cheapest units makes up for what the others rounded, so that the budget is missed by half of
        such a unit at most. Only where these are too few for it, it is missed by more: as little as units allow.
        """
        self.check_reach(sparsity)
        counts: dict[str, int] = {}
        wanted, kinds = sparsity * self.total, self.kinds()
        for place, names in enumerate(kinds):
            gone = self._gone(wanted, names, [name for kind in kinds[place + 1 :] for name in kind])
            wanted -= gone * float(self.costs[names[0]][0])
            free = {name: self.groups[name].size - 1 for name in names}
            for name, lost in divide_budget(gone, free, dict.fromkeys(names, 1.0)).items():
                size = self.groups[name].size
                counts[name] = max(1, round(totals[name] * (size - lost) / size))  # `totals` may be those of a sample
        return counts

    def _gone(self, wanted: float, names: list[str], cheaper: list[str]) -> int:
        """How many units of one kind go: the same share as of the others, if those can make up for the rounding.

        They cannot give back what is too much, nor lose more than they have.
        """
        cost, sizes = float(self.costs[names[0]][0]), [self.groups[name].size for name in names]
        if cost == 0.0 or wanted <= 0.0:
            return 0
        share = wanted / float(sum(self.costs[name].sum() for name in (*names, *cheaper)))
        least, most = (wanted - sum(map(self._free, cheaper))) / cost, wanted / cost
        low, high = max(0, math.ceil(least - ROUNDING)), math.floor(most + ROUNDING)
        even = sum(round(share * size) for size in sizes)
        found = max(low, min(high, even)) if low <= high else self._rounded(least, most)
        return min(found, sum(sizes) - len(sizes))

    def _rounded(self, least: float, most: float) -> int:
        """The nearest whole number where none is between the two."""
        low, high = math.ceil(least), math.floor(most)
        return low if low - most < least - high else high

    def kinds(self) -> list[list[str]]:
        """The groups by kind, the most expensive units first."""
        kinds: dict[str, list[str]] = {}
        for name, group in sorted(self.groups.items(), key=lambda item: -float(self.costs[item[0]][0])):
            kinds.setdefault(group.kind, []).append(name)
        return list(kinds.values())

    def _free(self, name: str) -> float:
        """What can go of a group whatever the scores are: one unit stays, in the worst case the most expensive."""
        return float(self.costs[name].sum() - self.costs[name].max())

    def check_reach(self, sparsity: float) -> None:
        """Refuse what some scores could not reach, so that no training ends in it."""
        most = sum(map(self._free, self.groups)) / self.total
        if sparsity > most + ROUNDING:
            raise self.out_of_reach(sparsity, most)

    def check_removes(self, sparsity: float, scope: Scope) -> None:
        """Refuse a share so small that some scores would leave every unit, so that no training ends in it."""
        sizes = {name: group.size for name, group in self.groups.items()}
        if scope == "global" or STACK in self.groups:
            costs, _ = torch.cat(list(self.costs.values())).sort(descending=True)
            is_whole = self._number_pruned(costs, len(costs), sparsity) == 0
        else:
            is_whole = self.counts(sizes, sparsity) == sizes
        if is_whole and sparsity > 0.0:
            units = "block" if STACK in self.groups else "unit"
            raise UserError(f"sparsity {sparsity:g} rounds to no {units}", "give a larger one, or prune weights")

    def out_of_reach(self, sparsity: float, most: float) -> UserError:
        what = "block" if STACK in self.groups else "unit of a block"
        is_one_kind = STACK not in self.groups and len({group.kind for group in self.groups.values()}) == 1
        largest = math.floor(1000.0 * most + ROUNDING) / 1000.0
        fix = f"give at most {largest:g}" + (", or prune other units too" if is_one_kind else "")
        return UserError(f"sparsity {sparsity:g} would remove every {what}", fix if largest else "prune other units")

    def keep(self, scores: Values, sparsity: float, scope: Scope, ties: Values | None = None) -> Values:
        if scope == "global" or STACK in self.groups:
            return self._keep_globally(scores, sparsity)
        counts = self.counts({name: each.numel() for name, each in scores.items()}, sparsity)
        return {
            name: keep_largest(each, each.numel() - counts[name], ties[name] if ties else None)
            for name, each in scores.items()
        }

    def _keep_globally(self, scores: Values, sparsity: float) -> dict[str, torch.Tensor]:
        """The lowest scores of all groups go until the budget is met as nearly as units allow."""
        names = sorted(scores)
        flat = torch.cat([_best_protected(scores[name]) for name in names])
        costs = torch.cat([self.costs[name] for name in names])
        order = flat.argsort(stable=True)
        pruned = self._number_pruned(costs[order.to(costs.device)], int((flat < torch.inf).sum()), sparsity)
        keep = torch.ones_like(flat, dtype=torch.bool)
        keep[order[:pruned]] = False
        parts = torch.split(keep, [scores[name].numel() for name in names])
        return dict(zip(names, parts, strict=True))

    def _number_pruned(self, costs: torch.Tensor, free: int, sparsity: float) -> int:
        """How many go, given their costs from the lowest score to the highest, of which the first `free` may go."""
        self.check_reach(sparsity)
        removed = torch.cat([costs.new_zeros(1), costs.cumsum(0)])
        return min(free, int((removed - sparsity * self.total).abs().argmin()))

    # --- masks -----------------------------------------------------------------------------------------------------

    def expand(self, keep: Values) -> Mask:
        """Matrices of which no unit is pruned are covered as well: the budget counts them."""
        weights = raw_weights(self.layers)
        masks = dict(Mask.ones_like(weights))
        for name, group in self.groups.items():
            for part in group.parts:
                masks[part.weight] = part.along(keep[name].cpu()).expand(weights[part.weight].shape)
        return Mask(masks)

    def _attach(self) -> None:
        """On the matrix that writes alone: a unit that writes nothing is pruned, and it still has a gradient.

        If its other matrices were masked as well, all of its gradients would be zero, and it could never return.
        """
        from srnet.masks.modules import UnitMask  # not at the top: it imports torch

        on_weight = {
            part.weight: UnitMask(self.masks[name], part.unit_of.to(self.masks[name].scores.device), part.dim)
            for name, group in self.groups.items()
            for part in group.parts
            if part.writes
        }
        attach({n: layer for n, layer in self.layers.items() if weight_name(n) in on_weight}, on_weight)


def _best_protected(scores: torch.Tensor) -> torch.Tensor:
    """The highest score of a group becomes infinite, so that one unit stays."""
    protected = scores.detach().clone()
    protected[protected.argmax()] = torch.inf
    return protected


def _sizes(group: Group, weights: Values) -> torch.Tensor:
    """How many weights each unit has."""
    total = torch.zeros(group.size)
    for part in group.parts:
        total += part.unit_of.bincount(minlength=group.size) * weights[part.weight].shape[1 - part.dim]
    return total


def _sums_of_squares(group: Group, values: Values) -> torch.Tensor:
    """Over the weights of each unit."""
    total = torch.zeros(group.size, device=values[group.parts[0].weight].device)
    for part in group.parts:
        sums = values[part.weight].detach().square().sum(1 - part.dim, dtype=torch.float32)
        total.index_add_(0, part.unit_of.to(total.device), sums)
    return total


# --- the groups of a model -----------------------------------------------------------------------------------------


def groups_of(model: nn.Module, layers: dict[str, nn.Module], granularity: Granularity) -> Groups:
    """The groups of scores of `model`, of which `layers` are to be masked."""
    if granularity == WEIGHT:
        return Weights(layers)
    blocks = _masked_blocks(blocks_of(model), layers)
    weights = raw_weights(layers)
    covered = {each.name: weights[each.name].shape for block in blocks for each in block.weights}
    chosen = {name: layer for name, layer in layers.items() if weight_name(name) in covered}
    if granularity == ("layer",):
        return Units(chosen, [_stack(blocks, covered)])
    kinds = {KINDS[unit] for unit in granularity}
    found = [_group(block, covered) for block in blocks if block.kind in kinds]
    if not found:
        raise UserError(f"no {' or '.join(sorted(kinds))} block is masked", "choose other target modules")
    return Units(chosen, found)


def _masked_blocks(blocks: list[Block], layers: dict[str, nn.Module]) -> list[Block]:
    """Blocks of which every matrix is to be masked: units of the others would lose only some of their weights."""
    found = []
    for block in blocks:
        masked = {each.name.removesuffix(".weight") in layers for each in block.weights}
        if len(masked) > 1:
            raise UserError(f"only some matrices of {block.name} are masked", "target all of them, or none")
        found += [block] if True in masked else []
    return found


def _group(block: Block, shapes: Mapping[str, torch.Size]) -> Group:
    """A matrix that holds several roles (query, key and value in one) is one part."""
    units, parts = torch.arange(block.size), dict[str, Part]()
    for each in block.weights:
        length = shapes[each.name][each.dim]
        empty = torch.zeros(length, dtype=torch.long)
        part = parts.setdefault(each.name, Part(each.name, each.dim, empty, each.role == "output"))
        part.unit_of[each.indices(units)] = units.repeat_interleave(each.width)
    return Group(block.name, block.kind, block.size, tuple(parts.values()))


def _stack(blocks: list[Block], shapes: Mapping[str, torch.Size]) -> Group:
    parts = {
        each.name: Part(each.name, 0, torch.full((shapes[each.name][0],), number), each.role == "output")
        for number, block in enumerate(blocks)
        for each in block.weights
    }
    return Group(STACK, "layer", len(blocks), tuple(parts.values()))
