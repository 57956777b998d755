"""Sparsity over time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from srnet.config.fields import Described
from srnet.config.values import Fraction, Share
from srnet.core.errors import UserError
from srnet.core.lazy import torch
from srnet.masks.budget import Sparsity


@dataclass(frozen=True)
class Schedule(Described):
    """Cubic from `initial` to `final`, reached at the share `ramp` of the run and then held.

    s(t) = s_f + (s_i - s_f) (1 - (t - t_0) / (T - t_0))^3, with t_0 = begin * t_max and T = ramp * t_max. Until t_0 it
    is s_i. With s_i = s_f the sparsity is fixed.
    """

    initial: Sparsity
    final: Sparsity
    ramp: Share = 0.7
    begin: Fraction = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.initial > self.final:
            raise UserError(f"initial sparsity {self.initial:g} exceeds the final {self.final:g}", "swap them")
        if not 0.0 <= self.begin < self.ramp:
            raise UserError(
                f"begin {self.begin:g} is out of range", f"it is a share of the run before ramp {self.ramp:g}"
            )

    def at(self, progress: float) -> float:
        """The sparsity at `progress` = t / t_max; exactly `final` from the end of the ramp on."""
        if progress >= self.ramp:
            return self.final
        return self.final + (self.initial - self.final) * (1.0 - self.ramp_progress(progress)) ** 3

    def ramp_progress(self, progress: float) -> float:
        """The completed share of the ramp, from 0 to 1."""
        return min(1.0, max(0.0, progress - self.begin) / (self.ramp - self.begin))

    def growth(self, progress: float) -> float:
        """1 - (1 - t/T)^3: the same curve from 0 to 1, on which a penalty grows."""
        return 1.0 - (1.0 - self.ramp_progress(progress)) ** 3

    def reached(self, progress: float) -> bool:
        return self.at(progress) == self.final


# --- scores behind a mask: their initial values, and the threshold that separates pruned from kept ---

BETA, LOW, HIGH = 2.0 / 3.0, -0.1, 1.1
"""Of hard concrete gates: the temperature, and the ends to which the sigmoid is stretched."""
Init = Literal["hard", "soft"]
Cut = Literal["middle", "kth"]
"""Where a threshold lies between pruned and kept scores: halfway, or, as published, right above the k-th score."""


def initial_scores(weight: torch.Tensor, keep: torch.Tensor, init: Init, phi: float, alpha: float) -> torch.Tensor:
    """`hard` (Eq. 1): 0 where pruned, alpha * phi where kept. `soft` (Eq. 2): the magnitude itself."""
    if init == "soft":
        return weight.detach().abs().float()
    return keep.float() * (alpha * phi)


SAMPLE = 32_768
"""Scores from which a threshold is estimated: the error of the share above it is then a few thousandths."""


def sampled(scores: torch.Tensor, turn: int) -> torch.Tensor:
    """Every n-th score, different ones each turn. n is coprime to a row's length, or it would miss columns."""
    flat = scores.detach().reshape(-1)
    stride = max(1, flat.numel() // SAMPLE)
    while math.gcd(stride, scores.shape[-1]) > 1:
        stride += 1
    return flat[turn % stride :: stride]


def estimated_cut(sample: torch.Tensor, kept: float) -> torch.Tensor:
    """A threshold above which about the share `kept` of the scores lies. Where scores are tied, more stay."""
    pruned = round((1.0 - kept) * sample.numel())
    if pruned <= 0:  # keep every score, also those outside the sample
        return torch.full((), -torch.inf, dtype=sample.dtype, device=sample.device)
    if pruned >= sample.numel():
        return torch.full((), torch.inf, dtype=sample.dtype, device=sample.device)
    return sample.kthvalue(pruned + 1).values


def cut_between(scores: torch.Tensor, keep: torch.Tensor, cut: Cut = "middle") -> torch.Tensor:
    """The threshold phi that separates `keep` from the rest, as `scores >= phi`.

    `middle` lies halfway between the two, so that small updates flip neither side; for the initial scores of Eq. 1 with
    alpha = 2 that is phi itself. `kth` is the published rule, `scores > k-th value` for k pruned weights: the next
    float above the highest pruned score, which any increase of that score crosses. Pruned entries tied with the lowest
    kept one are lowered in place by one unit in the last place: the comparison in the forward pass then gives the exact
    budget.
    """
    infinity = torch.full((), torch.inf, dtype=scores.dtype, device=scores.device)
    if not bool(keep.any()):
        return infinity
    if bool(keep.all()):
        return -infinity
    lowest_kept = scores[keep].min()
    scores[(scores >= lowest_kept) & ~keep] = torch.nextafter(lowest_kept, -infinity)
    highest_pruned = scores[~keep].max()
    if cut == "kth":
        return torch.nextafter(highest_pruned, infinity)
    middle = highest_pruned + (lowest_kept - highest_pruned) / 2
    return torch.where(middle > highest_pruned, middle, lowest_kept)  # adjacent floats have no middle


def kth_of_all(scores: Mapping[str, torch.Tensor], keep: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The thresholds of all groups by the published rule for a global budget: the k-th value of all scores together.

    It is one number, the next float above the highest pruned score, also for groups of which everything or nothing
    stays. Kept scores that are tied with that score are raised to it in place. Only a group that keeps its best unit,
    which is below, has the threshold of its own.
    """
    pruned = {name: each.masked_fill(keep[name], -torch.inf).max() for name, each in scores.items()}
    highest = torch.stack(list(pruned.values())).max()
    shared = torch.nextafter(highest, torch.full_like(highest, torch.inf))
    return {name: _raised(each, keep[name], highest, shared) for name, each in scores.items()}


def _raised(scores: torch.Tensor, keep: torch.Tensor, highest: torch.Tensor, shared: torch.Tensor) -> torch.Tensor:
    if bool((scores[keep] < highest).any()):
        return cut_between(scores, keep, "kth")
    scores[keep & (scores == highest)] = shared
    return shared
