"""What a loss may look at, and the one place where losses are registered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch

from srnet.errors import choose
from srnet.tasks.answers import AnswerKind


class Loss(Protocol):
    def __call__(
        self,
        logits: torch.Tensor,
        labels: torch.Tensor,
        bias: torch.Tensor | None = None,
        teacher: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Mean loss of a batch. `bias` and `teacher` are log-probabilities, shaped as `logits`.

        What labels and logits are depends on the kind of answer, and so does what a teacher gives.
        """
        ...


@dataclass(frozen=True)
class RegisteredLoss:
    name: str
    loss: Loss
    needs_bias: bool
    needs_teacher: bool
    needs_answer: bool = False
    """Whether it is for every kind of answer, which it is given as `answer`; other losses are for classes."""

    def of(self, answer: AnswerKind) -> Loss:
        return partial(self.loss, answer=answer) if self.needs_answer else self.loss  # type: ignore[call-arg]


OBJECTIVES: dict[str, RegisteredLoss] = {}


def objective(name: str, *, bias: bool = False, teacher: bool = False, answer: bool = False) -> Callable[[Loss], Loss]:
    """Register a loss under the name users type."""

    def register(loss: Loss) -> Loss:
        OBJECTIVES[name] = RegisteredLoss(name, loss, bias, teacher, answer)
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
