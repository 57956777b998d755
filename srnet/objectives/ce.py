"""Standard cross-entropy."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from srnet.objectives.base import objective


@objective("ce")
def cross_entropy(
    logits: torch.Tensor, labels: torch.Tensor, bias: torch.Tensor | None = None, teacher: torch.Tensor | None = None
) -> torch.Tensor:
    """- y log p_m"""
    return F.cross_entropy(logits, labels)
