"""Distillation (Hinton et al. 2015): a loss shared between the labels and a teacher's answers."""

from __future__ import annotations

from typing import Annotated

from srnet.config.values import Range, Share
from srnet.core.lazy import torch
from srnet.objectives.base import Loss
from srnet.tasks.answers.base import AnswerKind
from srnet.tasks.answers.classes import CLASSES

Temperature = Annotated[float, Range(above=0, most=1000)]
"""The temperature of a distillation. Above the highest one the answers of any teacher are practically uniform."""


def distilled(
    loss: Loss,
    weight: Share = 0.5,
    temperature: Temperature = 2.0,
    needs: tuple[str, ...] = (),
    answer: AnswerKind = CLASSES,
) -> Loss:
    """(1 - weight) loss + weight * imitation of the teacher; `needs` are the inputs of `loss`."""

    def both(logits: torch.Tensor, labels: torch.Tensor, **given: torch.Tensor) -> torch.Tensor:
        own = loss(logits, labels, **{need: given[need] for need in needs})
        return (1.0 - weight) * own + weight * answer.imitation(logits, given["teacher"], temperature, labels)

    return both
