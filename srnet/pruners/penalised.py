"""Common parts of soft movement pruning and L0: a penalty, not a budget, determines how many weights stay."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, cast

from srnet.config.values import NotNegative
from srnet.core.lazy import nn, torch
from srnet.masks.scores import sampled
from srnet.pruners.base import Ramped
from srnet.pruners.scored import Scored, mean_sigmoid

FIRST_STEERED, GAIN, LIMIT = 10.0, 0.1, 1e4
"""Where a steered penalty starts, how fast it follows, and where it ends."""


@dataclass(frozen=True)
class Penalised(Ramped):
    """A pruner whose final sparsity is close to `sparsity`, not equal; the reported one is counted on the mask.

    The penalty reaches its full strength at the end of the ramp.
    """

    has_scores: ClassVar[bool] = True
    penalty: NotNegative | None = None
    """Final lambda of the penalty, which grows on the cubic curve. It then determines the sparsity. Default: lambda is
    adjusted during training so that the sparsity follows the schedule."""

    @property
    def aim(self) -> str:
        return super().aim if self.penalty is None else f"lambda {self.penalty:g}"


class PenalisedMethod(Scored):
    """Subclasses define the mask and the probability that a weight stays."""

    shift: float = 0.0
    """The penalty is on sigmoid(S + shift)."""

    def __init__(self, pruner: Penalised, eval_every: int) -> None:
        super().__init__(pruner.targets, pruner.schedule(), eval_every)
        self.pruner = pruner
        self._measured: tuple[int, float] = (-1, 0.0)

    def prepare(self, model: nn.Module, total_steps: int) -> None:
        super().prepare(model, total_steps)
        # a buffer, so that a checkpoint has it
        self._first_mask.register_buffer("steered", torch.tensor(FIRST_STEERED))

    @property
    def _first_mask(self) -> nn.Module:
        return next(iter(self.masks().values()))

    @property
    def _steered(self) -> torch.Tensor:
        # not cached: moving a model to another device replaces its tensors
        return cast(torch.Tensor, self._first_mask.steered)

    def freeze(self, model: nn.Module) -> None:
        """Nothing is frozen."""

    @abstractmethod
    def cut(self) -> float:
        """The score above which a weight stays."""

    def kept_share(self, step: int) -> float:
        """The share of weights that stay after `step`, by a sample of each matrix; cached, as it is used repeatedly."""
        if self._measured[0] != step:
            scores = [mask.scores for mask in self.masks().values()]
            shares = torch.stack([(sampled(each, step) > self.cut()).float().mean() for each in scores])
            sizes = torch.tensor([each.numel() for each in scores], dtype=shares.dtype, device=shares.device)
            self._measured = step, float((shares * sizes).sum() / sizes.sum())
        return self._measured[1]

    def strength(self, step: int) -> float:
        if self.pruner.penalty is not None:
            return self.pruner.penalty * self.schedule.growth(self.progress(step))
        return float(self._steered) if self._excess(step) > 0.0 else 0.0

    def penalty(self, done: int) -> torch.Tensor | None:
        strength = self.strength(done)
        if strength == 0.0:
            return None
        return strength * mean_sigmoid([mask.scores for mask in self.masks().values()], self.shift)

    def after_step(self, step: int) -> dict[str, float]:
        if self.pruner.penalty is None:
            steered = float(self._steered) * math.exp(GAIN * self._excess(step))
            self._steered.fill_(min(LIMIT, max(1.0 / LIMIT, steered)))
        figures = {"mask/penalty": self.strength(step)}
        return figures | ({"mask/sparsity": self.current_mask().sparsity} if self.is_due(step) else {})

    def _excess(self, step: int) -> float:
        """log(kept / target): above 0 while too many weights stay. Then the penalty acts, and grows."""
        if self.schedule.ramp_progress(self.progress(step)) == 0.0:
            return 0.0
        target = 1.0 - self.schedule.at(self.progress(step))
        return max(-3.0, min(3.0, math.log(max(self.kept_share(step), 1e-4) / target)))
