"""Sparsity over time."""

from __future__ import annotations

from dataclasses import dataclass

from srnet.errors import UserError
from srnet.masks.budget import check_sparsity


@dataclass(frozen=True)
class Schedule:
    """Cubic from `initial` to `final`, reached at the share `ramp` of the run and then held.

    s(t) = s_f + (s_i - s_f) (1 - t/T)^3, with T = ramp * t_max. Equal ends make it a fixed sparsity.
    """

    initial: float
    final: float
    ramp: float = 0.7

    def __post_init__(self) -> None:
        check_sparsity(self.initial)
        check_sparsity(self.final)
        if self.initial > self.final:
            raise UserError(f"initial sparsity {self.initial:g} exceeds the final {self.final:g}", "swap them")
        if not 0.0 < self.ramp <= 1.0:
            raise UserError(f"ramp {self.ramp:g} is out of range", "give a share of the run: 0 < ramp <= 1")

    @classmethod
    def fixed(cls, sparsity: float) -> Schedule:
        return cls(sparsity, sparsity)

    def at(self, progress: float) -> float:
        """The sparsity at `progress` = t / t_max; exactly `final` from the end of the ramp on."""
        if progress >= self.ramp:
            return self.final
        return self.final + (self.initial - self.final) * (1.0 - progress / self.ramp) ** 3

    def reached(self, progress: float) -> bool:
        return self.at(progress) == self.final
