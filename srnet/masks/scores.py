"""The sparsity schedule, and the initial scores behind a mask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from srnet.config.fields import Described
from srnet.config.values import Fraction, Share
from srnet.core.errors import UserError
from srnet.core.lazy import torch
from srnet.masks.budget import Sparsity

Init = Literal["hard", "soft"]
Cut = Literal["middle", "kth"]
"""The threshold between pruned and kept scores: halfway, or, as published, right above the k-th score."""
BETA, LOW, HIGH = 2.0 / 3.0, -0.1, 1.1
"""The temperature of hard concrete gates, and the ends to which the sigmoid is stretched."""


@dataclass(frozen=True)
class Schedule(Described):
    """Sparsity over time: cubic from `initial` to `final`, reached at the share `ramp` of the run and then held.

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


def initial_scores(weight: torch.Tensor, keep: torch.Tensor, init: Init, phi: float, alpha: float) -> torch.Tensor:
    """Scores before training. `hard` (Eq. 1): 0 where pruned, alpha * phi where kept. `soft` (Eq. 2): the magnitude."""
    if init == "soft":
        return weight.detach().abs().float()
    return keep.float() * (alpha * phi)
