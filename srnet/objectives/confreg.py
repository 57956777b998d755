"""Confidence regularisation (Eq. 4): imitation of a teacher, smoothed where the example is biased."""

from __future__ import annotations

from srnet.core.lazy import F, torch
from srnet.objectives.base import bias_degree, objective
from srnet.objectives.poe import LOG_FLOOR


@objective("confreg", needs=("bias", "teacher"), debiases=True, by_rows=True)
def confidence_regularisation(
    logits: torch.Tensor, labels: torch.Tensor, bias: torch.Tensor, teacher: torch.Tensor
) -> torch.Tensor:
    """Imitation of a teacher, smoothed on biased examples: - S(p_t, beta) log p_m."""
    # S(p_t, beta) = p_t^(1-beta) / sum_k p_t,k^(1-beta), as a softmax of (1-beta) log p_t
    beta = bias_degree(bias, labels)
    target = F.softmax((1.0 - beta)[:, None] * teacher.clamp_min(LOG_FLOOR), dim=-1)
    return -(target * F.log_softmax(logits, dim=-1)).sum(-1)
