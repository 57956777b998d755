"""Movement pruning (Sanh et al. 2020): weights and scores train together; weights that move away from zero stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from srnet.pruners.base import OfUnits, Ramped, register
from srnet.pruners.scored import Budgeted
from srnet.training.method import Method


@register
@dataclass(frozen=True)
class Movement(Ramped, OfUnits):
    """Movement pruning: every matrix keeps the weights with the highest scores. All weights train."""

    name: ClassVar[str] = "movement"
    has_scores: ClassVar[bool] = True
    rate: ClassVar[float] = 3e-5
    score_rate: ClassVar[float] = 1e-2
    score_travel: ClassVar[float] = 30.0
    counts_units: ClassVar[bool] = True

    def method(self, *, fine_tuned: bool, eval_every: int) -> Method:
        return _Movement(self, eval_every)


class _Movement(Budgeted):
    trains_weights = True
