"""The loss of the task itself: cross-entropy for classes, or its equivalent for other kinds of answers."""

from __future__ import annotations

from srnet.core.lazy import torch
from srnet.objectives.base import objective
from srnet.tasks.answers.base import AnswerKind
from srnet.tasks.answers.classes import CLASSES


@objective("ce", any_answer=True, by_rows=True)
def cross_entropy(logits: torch.Tensor, labels: torch.Tensor, answer: AnswerKind = CLASSES) -> torch.Tensor:
    """The loss of the task itself: cross-entropy for classes, - y log p_m."""
    return answer.losses(logits, labels)
