"""The base classes of losses, and their registry."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from srnet.config.fields import Described
from srnet.config.values import located
from srnet.core.errors import UserError, choose
from srnet.core.lazy import torch
from srnet.tasks.answers.base import AnswerKind
from srnet.tasks.answers.classes import CLASSES


class Loss(Protocol):
    def __call__(self, logits: torch.Tensor, labels: torch.Tensor, **needs: torch.Tensor) -> torch.Tensor:
        """Mean loss of a batch, or the loss of each row. `needs` are the inputs that it declares, one row per example.

        `bias`, `teacher` and `early` are log-probabilities of the same shape as `logits`; `group` are group indices.
        The meaning of labels, logits and teacher depends on the kind of answer.
        """
        ...


class StatefulLoss(Described, ABC):
    """A loss with options or with a state. Each training has its own object.

    Options are dataclass fields, each with a number or a text as its default.
    """

    def prepare(self, labels: torch.Tensor, **needs: torch.Tensor) -> None:
        """Called once before the training, with labels and needs of all training data."""

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The tensors for checkpoints, so that a resumed training gives the same result."""
        return {}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """The inverse of `state_dict`, called after `prepare`."""

    @abstractmethod
    def __call__(self, logits: torch.Tensor, labels: torch.Tensor, **needs: torch.Tensor) -> torch.Tensor:
        """As a `Loss`."""


@dataclass(frozen=True)
class RegisteredLoss:
    """A loss with its name and properties."""

    name: str
    loss: Any
    """A function, or a subclass of `StatefulLoss`."""
    needs: tuple[str, ...] = ()
    """Its inputs besides logits and labels."""
    debiases: bool = False
    """Whether it counteracts a shortcut. Then early checkpoints, which are still biased, are not selected."""
    any_answer: bool = False
    """Whether it supports every kind of answer, and is called with `answer`. Other losses are for classes."""
    by_rows: bool = False
    """Whether it is the mean of a loss of each row, so that a batch may be computed in parts. The parts of others need
    one more forward pass."""

    @property
    def options(self) -> type | None:
        """The dataclass of its options, if it has any."""
        return self.loss if isinstance(self.loss, type) else None

    def make(self, options: Mapping[str, Any], answer: AnswerKind = CLASSES) -> Loss:
        """The loss of one training."""
        if not isinstance(self.loss, type):
            loss: Loss = partial(self.loss, answer=answer) if self.any_answer else self.loss
            return lambda logits, labels, **needs: loss(logits, labels, **needs).mean()
        made: Loss = self.loss(**self.changed(options))
        return made

    def changed(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options that differ from the defaults, each as its field's type."""
        fields = dataclasses.fields(self.loss) if isinstance(self.loss, type) else ()
        known: dict[str, Any] = {f.name: f.default for f in fields}
        unknown = [name for name in options if name not in known]
        if unknown:
            has = f"it has: {', '.join(known)}" if known else "it has none"
            raise UserError(f"objective '{self.name}' has no option '{unknown[0]}'", has)
        try:
            given = {name: type(known[name])(options[name]) for name in sorted(options)}
        except ValueError as error:
            raise UserError(f"objective '{self.name}': {error}") from None
        with located(f"objective '{self.name}'"):
            if given:
                self.loss(**given)  # its constructor refuses invalid values
        return {name: value for name, value in given.items() if value != known[name]}

    def text(self, options: Mapping[str, Any]) -> str:
        """The inverse of `parse_objective`."""
        given = ",".join(f"{name}={value}" for name, value in options.items())
        return f"{self.name}:{given}" if given else self.name


OBJECTIVES: dict[str, RegisteredLoss] = {}
L = TypeVar("L", bound=Callable[..., Any])


def objective(
    name: str,
    *,
    needs: tuple[str, ...] = (),
    debiases: bool = False,
    any_answer: bool = False,
    by_rows: bool = False,
) -> Callable[[L], L]:
    """A decorator that registers a loss under its name on the command line."""

    def register(loss: L) -> L:
        OBJECTIVES[name] = RegisteredLoss(name, loss, needs, debiases, any_answer, by_rows)
        return loss

    return register


def parse_objective(text: str) -> tuple[RegisteredLoss, dict[str, Any]]:
    """A loss and its options from `name` or `name:option=value,option=value`."""
    name, _, rest = text.partition(":")
    pairs = [each.partition("=") for each in rest.split(",")] if rest else []
    loss = OBJECTIVES[choose("objective", name, OBJECTIVES)]
    return loss, loss.changed({option.strip(): value.strip() for option, _, value in pairs})


def bias_degree(bias: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """beta: the bias model's probability of the true class; an ignored label, -100, counts as class 0."""
    return bias.gather(1, labels[:, None].clamp_min(0)).squeeze(1).exp()
