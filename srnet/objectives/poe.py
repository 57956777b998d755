"""Product of experts: the model is trained on what the bias model does not explain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from srnet.config.values import Range
from srnet.core.lazy import F, torch
from srnet.objectives.base import StatefulLoss, objective

# A bias probability of 0 (log 0 = -inf) for the true class would make the loss infinite. This floor is exp(-30), about
# 1e-13: far below any probability of a fitted model, and finite in float32.
LOG_FLOOR = -30.0


@objective("poe", needs=("bias",), debiases=True, by_rows=True)
@dataclass
class ProductOfExperts(StatefulLoss):
    """Product of experts with the bias model: - y log softmax(log p_m + strength log p_b)."""

    strength: Annotated[float, Range(above=0, most=100)] = 1.0
    """Weight of the bias model. Near 0 the loss is cross-entropy; lower values keep more of the ID score."""

    def __call__(self, logits: torch.Tensor, labels: torch.Tensor, **needs: torch.Tensor) -> torch.Tensor:
        return self.reduced("mean", logits, labels, **needs)

    def reduced(self, reduction: str, logits: torch.Tensor, labels: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        log_bias = self.strength * bias.clamp_min(LOG_FLOOR)
        return F.cross_entropy(F.log_softmax(logits, dim=-1) + log_bias, labels, reduction=reduction)
