"""Soft movement pruning (Sanh et al. 2020): a weight stays while the sigmoid of its score is above a threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from srnet.config.fields import option
from srnet.config.values import Fraction, Range
from srnet.core.lazy import no_grad, torch
from srnet.masks.parametrization import raw_weights
from srnet.masks.selection import kth_each
from srnet.pruners.base import register
from srnet.pruners.penalised import Penalised, PenalisedMethod
from srnet.training.method import Method


@register
@dataclass(frozen=True)
class SoftMovement(Penalised):
    """Soft movement pruning: weights with scores above a threshold; a penalty sets the sparsity. All weights train."""

    name: ClassVar[str] = "soft-movement"
    score_rate: ClassVar[float] = 1e-2
    score_travel: ClassVar[float] = 30.0
    threshold: Annotated[float, Range(above=0.0, below=0.5)] = 0.1
    """Tau: a weight is kept while the sigmoid of its score, at first 0.5, is above it."""
    floor: Fraction = option(0.0, expert=True)
    """Share of every matrix that is always kept; 0.005 in the published code."""

    def method(self, *, fine_tuned: bool, eval_every: int) -> Method:
        return _SoftMovement(self, eval_every)


class _SoftMovement(PenalisedMethod):
    pruner: SoftMovement

    def first_masks(self) -> dict[str, Any]:
        from srnet.masks.modules import ScoreMask  # not at the top: it imports torch

        weights = raw_weights(self.layers)
        return {name: ScoreMask(torch.zeros_like(weight), _above(self.cut())) for name, weight in weights.items()}

    def after_step(self, step: int) -> dict[str, float]:
        if self.pruner.floor:
            self._keep_floor()
        return super().after_step(step)

    @no_grad
    def _keep_floor(self) -> None:
        """Lower the threshold of a matrix in which fewer scores than the floor lie above tau; restore it later."""
        for mask in self.masks().values():
            flat = mask.scores.detach().reshape(-1)
            least = int(self.pruner.floor * flat.numel()) + 1
            (kth,) = kth_each([flat], [max(0, flat.numel() - least - 1)])
            enough = (flat > self.cut()).sum() >= least  # on its device: as a condition it would wait for a GPU
            mask.phi.copy_(
                torch.where(enough, _above(self.cut()), torch.nextafter(kth, torch.full_like(kth, torch.inf)))
            )

    def cut(self) -> float:
        return math.log(self.pruner.threshold / (1.0 - self.pruner.threshold))


def _above(cut: float) -> float:
    """The next float above `cut`: scores strictly above the cut are kept."""
    return float(torch.nextafter(torch.tensor(cut), torch.tensor(math.inf)))
