"""Distillation (Hinton et al. 2015): a loss shared between the labels and a teacher's answers."""

from __future__ import annotations

import torch

from srnet.objectives.base import Loss, need
from srnet.tasks.answers import CLASSES, AnswerKind


def distilled(loss: Loss, weight: float = 0.5, temperature: float = 2.0, answer: AnswerKind = CLASSES) -> Loss:
    """(1 - weight) loss + weight * imitation of the teacher, whatever the loss."""

    def both(
        logits: torch.Tensor,
        labels: torch.Tensor,
        bias: torch.Tensor | None = None,
        teacher: torch.Tensor | None = None,
    ) -> torch.Tensor:
        own = loss(logits, labels, bias=bias, teacher=teacher)
        return (1.0 - weight) * own + weight * answer.imitation(logits, need(teacher, "teacher"), temperature)

    return both
