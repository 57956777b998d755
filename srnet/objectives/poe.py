"""Product of experts: the model need not learn what the bias model already knows."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from srnet.objectives.base import objective

# A bias model that is certain (log 0 = -inf) would make the loss of an example it gets wrong infinite. This floor is
# exp(-30), about 1e-13: far below any probability a fitted model gives, and finite in float32.
LOG_FLOOR = -30.0


@objective("poe", needs=("bias",), debiases=True)
def product_of_experts(logits: torch.Tensor, labels: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Product of experts with the bias model: - y log softmax(log p_m + log p_b)."""
    log_bias = bias.clamp_min(LOG_FLOOR)
    return F.cross_entropy(F.log_softmax(logits, dim=-1) + log_bias, labels)
