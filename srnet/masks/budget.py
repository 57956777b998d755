"""How many weights may stay, and which: budgets met to the weight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from srnet.config.values import Fraction, kind_of, located
from srnet.core.lazy import torch
from srnet.masks.mask import Mask

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
    flat = scores.detach().reshape(-1)
    if pruned <= 0:
        return torch.ones(scores.shape, dtype=torch.bool, device=scores.device)
    cut = flat.kthvalue(pruned).values
    keep = flat > cut
    tied = (flat == cut).nonzero().squeeze(1)
    survivors = flat.numel() - pruned - int(keep.sum())
    if survivors:
        if tiebreak is not None and tied.numel() > survivors:
            order = tiebreak.detach().reshape(-1)[tied].argsort(stable=True)
            tied = tied[order]
        keep[tied[tied.numel() - survivors :]] = True
    return keep.reshape(scores.shape)


def meet_budget(
    scores: Mapping[str, torch.Tensor],
    sparsity: float,
    scope: Scope = "local",
    magnitude: Mapping[str, torch.Tensor] | None = None,
) -> Mask:
    """The mask that keeps the highest scores: in each matrix (`local`) or over all of them (`global`)."""
    names = sorted(scores)
    if scope == "local":
        return Mask({n: _keep(scores[n], sparsity, magnitude[n] if magnitude else None) for n in names})
    flat = torch.cat([scores[n].detach().reshape(-1) for n in names])
    ties = torch.cat([magnitude[n].detach().reshape(-1) for n in names]) if magnitude else None
    keep = keep_largest(flat, prune_count(sparsity, flat.numel()), ties)
    parts = torch.split(keep, [scores[n].numel() for n in names])
    return Mask({n: part.reshape(scores[n].shape) for n, part in zip(names, parts, strict=True)})


def _keep(scores: torch.Tensor, sparsity: float, tiebreak: torch.Tensor | None) -> torch.Tensor:
    return keep_largest(scores, prune_count(sparsity, scores.numel()), tiebreak)


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
