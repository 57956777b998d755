"""How many weights may stay, and which: budgets met to the weight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from srnet.config.values import Fraction, kind_of, located
from srnet.core.lazy import torch
from srnet.masks.mask import Mask
from srnet.masks.selection import Selection, select

Scope = Literal["local", "global"]
Sparsity = Fraction
"""The share of the weights that is pruned."""


def prune_count(sparsity: float, total: int) -> int:
    """The number of weights to prune out of `total`; exact halves round to even, as Python's `round` does."""
    with located("sparsity"):
        share: float = kind_of(Sparsity).convert(sparsity)
        return round(share * total)


def keep_largest(scores: torch.Tensor, pruned: int, tiebreak: torch.Tensor | None = None) -> torch.Tensor:
    """True for all but exactly `pruned` entries, the lowest ones.

    Among equal scores the one with the smaller `tiebreak` (a weight's magnitude) is pruned first, then the earlier
    entry, so that a tie neither breaks the budget nor removes complete rows.
    """
    return select([scores], [pruned], None if tiebreak is None else lambda _: tiebreak)[0].keep


def meet_budget(
    scores: Mapping[str, torch.Tensor],
    sparsity: float,
    scope: Scope = "local",
    magnitude: Mapping[str, torch.Tensor] | None = None,
) -> Mask:
    """The mask that keeps the highest scores: in each matrix (`local`) or over all of them (`global`)."""
    return Mask({name: each.keep for name, each in select_within(scores, sparsity, scope, magnitude).items()})


def select_within(
    scores: Mapping[str, torch.Tensor],
    sparsity: float,
    scope: Scope = "local",
    magnitude: Mapping[str, torch.Tensor] | None = None,
) -> dict[str, Selection]:
    """The highest scores, on their device. Magnitudes are read only of matrices in which scores are tied."""
    names = sorted(scores)
    if scope == "local":
        counts = [prune_count(sparsity, scores[name].numel()) for name in names]
        ties = None if magnitude is None else lambda number: magnitude[names[number]]
        return dict(zip(names, select([scores[name] for name in names], counts, ties), strict=True))
    flat = torch.cat([scores[name].detach().reshape(-1) for name in names])
    all_ties = None if magnitude is None else lambda _: torch.cat([magnitude[name].reshape(-1) for name in names])
    keep = select([flat], [prune_count(sparsity, flat.numel())], all_ties)[0].keep
    parts = torch.split(keep, [scores[name].numel() for name in names])
    return {
        name: Selection(scores[name].detach(), None, part.reshape(scores[name].shape))
        for name, part in zip(names, parts, strict=True)
    }


def divide_budget(budget: int, totals: Mapping[str, int], shares: Mapping[str, float]) -> dict[str, int]:
    """`budget` weights among matrices, in proportion to share times size; none gets more than it has.

    The excess of a full matrix goes to the others in the same proportion. Counts are rounded by largest remainder, so
    that their sum is the budget.
    """
    if not 0 <= budget <= sum(totals.values()):
        raise ValueError(f"{budget} weights cannot be kept of {sum(totals.values())}")
    quotas: dict[str, float] = {}
    open_, left = sorted(totals), float(budget)
    while open_:
        worth = {name: shares[name] * totals[name] for name in open_}
        if not sum(worth.values()) > 0:  # all shares are zero: divide by size alone
            worth = {name: float(totals[name]) for name in open_}
        if not sum(worth.values()) > 0:  # they have no weights
            quotas |= dict.fromkeys(open_, 0.0)
            break
        parts = {name: left * (worth[name] / sum(worth.values())) for name in open_}
        full = [name for name in open_ if parts[name] >= totals[name]]
        if not full:
            quotas |= parts
            break
        quotas |= {name: float(totals[name]) for name in full}
        open_ = [name for name in open_ if name not in full]
        left = budget - sum(totals[name] for name in quotas)
    counts = {name: int(quota) for name, quota in quotas.items()}
    by_remainder = sorted(counts, key=lambda name: (counts[name] - quotas[name], name))
    missing = budget - sum(counts.values())
    takers = [name for name in by_remainder if counts[name] < totals[name]]
    for name in takers[:missing]:
        counts[name] += 1
    return counts
