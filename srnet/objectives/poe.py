"""Product of experts: the model is trained on what the bias model does not explain."""

from __future__ import annotations

from srnet.lazy import F, torch
from srnet.objectives.base import objective

# A bias probability of 0 (log 0 = -inf) for the true class would make the loss infinite. This floor is exp(-30), about
# 1e-13: far below any probability of a fitted model, and finite in float32.
LOG_FLOOR = -30.0


@objective("poe", needs=("bias",), debiases=True)
def product_of_experts(logits: torch.Tensor, labels: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Product of experts with the bias model: - y log softmax(log p_m + log p_b)."""
    log_bias = bias.clamp_min(LOG_FLOOR)
    return F.cross_entropy(F.log_softmax(logits, dim=-1) + log_bias, labels)
