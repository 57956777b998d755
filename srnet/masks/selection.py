"""Selection by rank: exact, by the fastest method of each device, and without a wait for a GPU for every matrix.

On the CPU numbers are partitioned, elsewhere they are sorted: of the methods that CUDA has, a sort is the fastest by far.
Both give the same selection, ties included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from srnet.core.lazy import torch

_PARTITIONED = ("float16", "float32", "float64", "int64")
"""The types that numpy can partition."""
_LONG = 65_536
"""Numbers above which tensors are not copied into one: a copy of all scores of a model would be as large as the model."""


@dataclass(frozen=True)
class Selection:
    """The highest of some scores."""

    scores: torch.Tensor
    edges: torch.Tensor | None
    """The highest score that is pruned and the lowest that is kept, where both exist and differ."""
    chosen: torch.Tensor | None = None
    """Which scores are kept, where the edges do not say it."""

    @property
    def keep(self) -> torch.Tensor:
        if self.chosen is not None:
            return self.chosen
        assert self.edges is not None
        return self.scores > self.edges[0]


def select(
    scores: Sequence[torch.Tensor], pruned: Sequence[int], tiebreak: Callable[[int], torch.Tensor] | None = None
) -> list[Selection]:
    """All but exactly `pruned` of each tensor's scores, the lowest ones.

    Among equal scores the one with the smaller `tiebreak` is pruned first, then the earlier entry. `tiebreak` is called
    with the position of a tensor in which scores are tied.
    """
    flat = [each.detach().reshape(-1) for each in scores]
    edges = {n: _edges(each, pruned[n]) for n, each in enumerate(flat) if 0 < pruned[n] < each.numel()}
    # at once: each `bool` would wait for a GPU
    is_tied = torch.stack([low == high for low, high in edges.values()]).tolist() if edges else []
    tied = dict(zip(edges, is_tied, strict=True))
    found = []
    for number, each in enumerate(scores):
        values = each.detach()
        if number not in edges:
            found.append(Selection(values, None, torch.full_like(values, pruned[number] <= 0, dtype=torch.bool)))
        elif tied[number]:
            ties = None if tiebreak is None else tiebreak(number).detach().reshape(-1)
            keep = _without_ties(flat[number], pruned[number], edges[number][0], ties)
            found.append(Selection(values, None, keep.reshape(values.shape)))
        else:
            found.append(Selection(values, edges[number]))
    return found


def _edges(flat: torch.Tensor, pruned: int) -> torch.Tensor:
    """The two scores between which a selection cuts: the highest that is pruned, the lowest that is kept."""
    if flat.device.type != "cpu":
        return flat.sort().values[pruned - 1 : pruned + 1].clone()  # a view would keep all of them
    values = np.partition(_as_numpy(flat), pruned)
    return torch.tensor([values[:pruned].max(), values[pruned]], dtype=flat.dtype)


def _as_numpy(flat: torch.Tensor) -> np.ndarray:
    """For numpy, which has no bfloat16."""
    array: np.ndarray = (flat if str(flat.dtype).removeprefix("torch.") in _PARTITIONED else flat.float()).numpy()
    return array


def _without_ties(flat: torch.Tensor, pruned: int, cut: torch.Tensor, ties: torch.Tensor | None) -> torch.Tensor:
    """True for all but `pruned` scores, some of which equal `cut` and some others do, too."""
    keep = flat > cut
    if flat.device.type != "cpu":
        # a fixed number of operations, whose results the CPU need not know: everything is ranked, untied scores first
        tied = flat == cut
        key = torch.zeros(flat.shape, device=flat.device) if ties is None else ties.to(flat.device)
        order = key.where(tied, torch.full((), -torch.inf, dtype=key.dtype, device=key.device)).argsort(stable=True)
        survivors = flat.numel() - pruned - keep.sum()
        last = torch.arange(flat.numel(), device=flat.device) >= flat.numel() - survivors
        return keep | (tied & torch.zeros_like(keep).scatter(0, order, last))
    equal = (flat == cut).nonzero().squeeze(1)
    survivors_here = flat.numel() - pruned - int(keep.count_nonzero())
    if ties is not None:
        equal = equal[ties[equal].argsort(stable=True)]
    keep[equal[equal.numel() - survivors_here :]] = True
    return keep


def kth_each(values: Sequence[torch.Tensor], ranks: Sequence[int]) -> list[torch.Tensor]:
    """The number at `ranks` (from 0) of each tensor of one dimension in ascending order."""
    found: list[torch.Tensor] = [torch.empty(0)] * len(values)
    for numbers, rows in in_stacks(values):
        if rows.device.type == "cpu":
            (number,), rank = numbers, ranks[numbers[0]]
            found[number] = torch.tensor(np.partition(_as_numpy(rows[0]), rank)[rank], dtype=rows.dtype)
            continue
        ordered, wanted = rows.sort(1).values, [ranks[number] for number in numbers]
        if len(set(wanted)) == 1:
            kth = ordered[:, wanted[0]]
        else:
            kth = ordered.gather(1, torch.tensor(wanted).to(rows.device, non_blocking=True)[:, None]).squeeze(1)
        for number, each in zip(numbers, kth.unbind(), strict=True):
            found[number] = each
    return found


def in_stacks(values: Sequence[torch.Tensor]) -> Iterator[tuple[list[int], torch.Tensor]]:
    """Tensors of one dimension as rows of few matrices, each with their positions.

    A GPU computes a matrix at once, and the number of operations does not depend on the number of layers. On the CPU,
    where it gains nothing, and where tensors are long, each is a matrix of its own.
    """
    lengths: dict[tuple[int, int], list[int]] = {}
    for number, each in enumerate(values):
        alone = each.device.type == "cpu" or each.numel() > _LONG
        lengths.setdefault((each.numel(), number if alone else -1), []).append(number)
    for numbers in lengths.values():
        rows = [values[number] for number in numbers]
        yield numbers, rows[0][None] if len(rows) == 1 else torch.stack(rows)


def count_each(decisions: Iterable[torch.Tensor]) -> torch.Tensor:
    """How many are true in each of some tensors, on their device. One by one, as they may be made one by one."""
    counts = [_count(each) for each in decisions]
    return torch.stack(counts)


def _count(decision: torch.Tensor) -> torch.Tensor:
    if decision.device.type != "cpu":
        return decision.sum()
    return torch.tensor(np.count_nonzero(decision.numpy()))  # 14 times as fast as torch's sum


def brought_to(device: torch.device, values: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors of one type on a device, copied together: each copy would wait for a GPU."""
    if all(each.device == device for each in values):
        return list(values)
    flat = torch.cat([each.reshape(-1) for each in values]).to(device, non_blocking=device.type != "cpu")
    parts = flat.split([each.numel() for each in values])
    return [part.reshape(each.shape) for part, each in zip(parts, values, strict=True)]
