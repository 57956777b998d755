"""L0 regularisation (Louizos et al. 2018): a random gate on every weight, and a penalty on open gates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

from srnet.config.fields import option
from srnet.config.values import Range
from srnet.core.lazy import no_grad, torch
from srnet.masks.mask import Mask
from srnet.masks.parametrization import raw_weights
from srnet.masks.scores import BETA, HIGH, LOW
from srnet.pruners.base import register
from srnet.pruners.penalised import Penalised, PenalisedMethod
from srnet.training.method import Method

if TYPE_CHECKING:
    from srnet.masks.modules import GateMask

CLOSED = -LOW / (HIGH - LOW)
"""At this sigmoid of its score a gate closes in evaluation: sigmoid(S) (r - l) + l = 0."""


@register
@dataclass(frozen=True)
class L0(Penalised):
    """L0 regularisation: a random gate for every weight; a penalty sets the sparsity. All weights train."""

    name: ClassVar[str] = "l0"
    score_rate: ClassVar[float] = 1e-1
    open_at_first: Annotated[float, Range(above=CLOSED, below=1.0)] = option(0.9, expert=True)
    """Sigmoid of the initial scores: how far the gates are open before training."""

    def method(self, *, fine_tuned: bool, eval_every: int) -> Method:
        return _Gates(self, eval_every)


class _Gates(PenalisedMethod):
    pruner: L0
    # P(gate > 0) = sigmoid(S - beta log(-l / r)): what the penalty counts
    shift = -BETA * math.log(-LOW / HIGH)

    def first_masks(self) -> dict[str, Any]:
        from srnet.masks.modules import GateMask  # not at the top: it imports torch

        start = math.log(self.pruner.open_at_first / (1.0 - self.pruner.open_at_first))
        return {name: GateMask(torch.full_like(weight, start)) for name, weight in raw_weights(self.layers).items()}

    def cut(self) -> float:
        return math.log(CLOSED / (1.0 - CLOSED))

    @no_grad
    def result(self) -> tuple[dict[str, torch.Tensor], Mask | None]:
        """Weights are multiplied by their gates: the saved model is the evaluated one."""
        weights, gates = raw_weights(self.layers), cast("dict[str, GateMask]", self.masks())
        gated = {name: weights[name] * gate.without_noise().to(weights[name].dtype) for name, gate in gates.items()}
        return {**self.state(), **gated}, self.current_mask()
