"""Distillation (Hinton et al. 2015): a loss shared between the labels and a teacher's answers."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from srnet.objectives.base import Loss, is_score, is_span


def distilled(loss: Loss, weight: float = 0.5, temperature: float = 2.0, needs: tuple[str, ...] = ()) -> Loss:
    """(1 - weight) loss + weight * imitation of the teacher, whatever the loss; `needs` are its own."""

    def both(logits: torch.Tensor, labels: torch.Tensor, **given: torch.Tensor) -> torch.Tensor:
        own = loss(logits, labels, **{need: given[need] for need in needs})
        return (1.0 - weight) * own + weight * imitation(logits, labels, given["teacher"], temperature)

    return both


def imitation(
    logits: torch.Tensor, labels: torch.Tensor, teacher: torch.Tensor, temperature: float = 2.0
) -> torch.Tensor:
    """T^2 KL(p_t^(1/T) || p_m^(1/T)); for a span the mean over its two ends; for a score the squared difference.

    A softmax over one logit is 1 whatever the logit, so that a divergence would teach nothing about a score.
    """
    if is_score(labels):
        return F.mse_loss(logits[:, 0], teacher[:, 0])
    if is_span(logits):
        start, end = (_divergence(logits[..., n], teacher[..., n], temperature) for n in (0, 1))
        return (start + end) / 2
    return _divergence(logits, teacher, temperature)


def _divergence(logits: torch.Tensor, teacher: torch.Tensor, temperature: float) -> torch.Tensor:
    ours, theirs = (F.log_softmax(each / temperature, dim=-1) for each in (logits, teacher))
    return temperature**2 * F.kl_div(ours, theirs, reduction="batchmean", log_target=True)
