"""What a loss may look at, and the one place where losses are registered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

from srnet.errors import choose


class Loss(Protocol):
    def __call__(
        self,
        logits: torch.Tensor,
        labels: torch.Tensor,
        bias: torch.Tensor | None = None,
        teacher: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Mean loss of a batch. `bias` and `teacher` are log-probabilities, shaped as `logits`.

        Labels are classes; or floating numbers, beside one logit; or the two ends of spans, beside logits for every
        token (batch, tokens, 2). There the teacher's are plain logits.
        """
        ...


@dataclass(frozen=True)
class RegisteredLoss:
    name: str
    loss: Loss
    needs_bias: bool
    needs_teacher: bool


OBJECTIVES: dict[str, RegisteredLoss] = {}


def is_score(labels: torch.Tensor) -> bool:
    return labels.is_floating_point()


def is_span(logits: torch.Tensor) -> bool:
    return logits.dim() == 3


def objective(name: str, *, bias: bool = False, teacher: bool = False) -> Callable[[Loss], Loss]:
    """Register a loss under the name users type."""

    def register(loss: Loss) -> Loss:
        OBJECTIVES[name] = RegisteredLoss(name, loss, bias, teacher)
        return loss

    return register


def get_objective(name: str) -> RegisteredLoss:
    return OBJECTIVES[choose("objective", name, OBJECTIVES)]


def bias_degree(bias: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """beta: the probability the bias model gives to the true class."""
    return bias.gather(1, labels[:, None]).squeeze(1).exp()


def need(tensor: torch.Tensor | None, what: str) -> torch.Tensor:
    if tensor is None:
        raise ValueError(f"this objective needs {what} log-probabilities")
    return tensor
