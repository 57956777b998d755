"""Common parts of soft movement pruning and L0: a penalty, not a budget, determines how many weights are kept."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, cast

from srnet.config.values import NotNegative
from srnet.core.lazy import nn, torch
from srnet.masks.granularity import Groups, groups_of
from srnet.masks.mask import share_pruned
from srnet.pruners.base import Ramped
from srnet.pruners.scored import Scored

FIRST_STEERED, GAIN, LIMIT = 10.0, 0.1, 1e4
"""The first value of a steered penalty, its gain, and its largest value."""


@dataclass(frozen=True)
class Penalised(Ramped):
    """A pruner whose final sparsity is close to `sparsity`, not equal; the reported one is counted on the mask.

    The penalty reaches its full strength at the end of the ramp.
    """

    has_scores: ClassVar[bool] = True
    rate: ClassVar[float] = 3e-5
    penalty: NotNegative | None = None
    """Final lambda of the penalty, which grows on the cubic curve. It then determines the sparsity. Default: lambda is
    adjusted during training so that the sparsity follows the schedule."""

    @property
    def aim(self) -> str:
        return super().aim if self.penalty is None else f"lambda {self.penalty:g}"

    def groups(self, model: nn.Module) -> Groups:
        return groups_of(model, self.targets.find(model))


class PenalisedMethod(Scored):
    """Training of weights and scores under a penalty. Subclasses define the masks and the cut."""

    pruner: Penalised
    trains_weights = True
    _measured: tuple[int, float] = (-1, 0.0)
    _read: tuple[torch.Tensor | None, int, float] = (None, 0, 0.0)

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

    @abstractmethod
    def cut(self) -> float:
        """The score above which a weight is kept."""

    def kept_share(self, step: int) -> float:
        """The share of weights that are kept after `step`, by a sample of each matrix; cached, as it is used often."""
        if self._measured[0] != step:
            masks = self.masks().values()
            shares = torch.stack([(mask.sample(step) > self.cut()).float().mean() for mask in masks]).cpu()
            sizes = torch.tensor([mask.scores.numel() for mask in masks], dtype=shares.dtype)
            self._measured = step, float((shares * sizes).sum() / sizes.sum())
        return self._measured[1]

    def strength(self, step: int) -> float:
        if self.pruner.penalty is not None:
            return self.pruner.penalty * self.schedule.growth(self.progress(step))
        return self._steered_strength() if self._excess(step) > 0.0 else 0.0

    def _steered_strength(self) -> float:
        """The steered lambda, read only if another than this method has changed it: reading waits for a GPU."""
        steered, version, value = self._read
        if steered is not self._steered or version != self._steered._version:
            value = float(self._steered)
            self._read = (self._steered, self._steered._version, value)
        return value

    def _steer(self, value: float) -> None:
        self._steered.fill_(value)
        self._read = (self._steered, self._steered._version, float(torch.tensor(value, dtype=self._steered.dtype)))

    def after_step(self, step: int) -> dict[str, float]:
        if self.pruner.penalty is None:
            steered = self._steered_strength() * math.exp(GAIN * self._excess(step))
            self._steer(min(LIMIT, max(1.0 / LIMIT, steered)))
        figures = {"mask/penalty": self.strength(step)}
        if not self.is_due(step):
            return figures
        return figures | {"mask/sparsity": share_pruned(int(self.kept()), self.groups.weights)}

    def _excess(self, step: int) -> float:
        """log(kept / target): above 0 while too many weights are kept. Then the penalty acts, and grows."""
        if self.schedule.ramp_progress(self.progress(step)) == 0.0:
            return 0.0
        target = 1.0 - self.schedule.at(self.progress(step))
        return max(-3.0, min(3.0, math.log(max(self.kept_share(step), 1e-4) / target)))
