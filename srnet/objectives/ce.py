"""The loss of the task itself: cross-entropy, or what takes its place where the answer is no class."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from srnet.objectives.base import is_score, objective


@objective("ce")
def cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """- y log p_m; for a score the squared error; for a span the mean over its two ends, among positions."""
    if is_score(labels):
        return F.mse_loss(logits[:, 0], labels.to(logits.dtype))
    # logits for every token (batch, tokens, 2) need nothing more: positions are the classes, for each end
    return F.cross_entropy(logits, labels)
