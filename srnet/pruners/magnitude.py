"""Pruning by magnitude: at once without training, or gradually while the weights train."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from srnet.config.values import Count
from srnet.core.lazy import nn
from srnet.masks.budget import Scope, Sparsity
from srnet.masks.mask import Mask
from srnet.pruners.base import Batches, OfUnits, Ramped, register
from srnet.training.method import Method


@register
@dataclass(frozen=True)
class OneShot(OfUnits):
    """Magnitude pruning at once: the smallest weights are pruned, nothing is trained."""

    name: ClassVar[str] = "one-shot"
    trains: ClassVar[bool] = False
    sparsity: Sparsity = 0.5
    scope: Scope = "local"
    """local: every matrix has the sparsity; global: all of them together."""

    def mask(self, model: nn.Module, batches: Batches = ()) -> Mask:
        groups = self.groups(model)
        return groups.expand(groups.keep(groups.magnitudes(), self.share, self.scope))


@register
@dataclass(frozen=True)
class GradualMagnitude(Ramped, OfUnits):
    """Gradual magnitude pruning: the largest weights are kept, on the cubic schedule. All weights train."""

    name: ClassVar[str] = "magnitude"
    scope: Scope = "local"
    """local: every matrix has the sparsity; global: all of them together."""
    refresh_every: Count = 10
    """Steps between two updates of the mask. It is also updated before every evaluation."""

    def method(self, *, fine_tuned: bool, eval_every: int) -> Method:
        return _Gradual(self, eval_every)


class _Gradual(Method):
    """A pruned weight has no gradient, so it is kept again only if a kept weight becomes smaller than it."""

    def __init__(self, pruner: GradualMagnitude, eval_every: int) -> None:
        super().__init__()
        self.pruner, self.schedule, self.eval_every = pruner, pruner.schedule(), eval_every

    def prepare(self, model: nn.Module, total_steps: int) -> None:
        super().prepare(model, total_steps)
        self.groups = self.pruner.groups(model)
        self.attach_fixed(self.groups.layers)

    def after_step(self, step: int) -> dict[str, float]:
        if step % self.pruner.refresh_every and step % self.eval_every and step != self.total_steps:
            return {}
        self.settle(step)
        return {"mask/sparsity": self.fixed_sparsity()}

    def settle(self, step: int) -> None:
        sparsity = self.schedule.at(self.progress(step))
        keep = self.groups.keep(self.groups.magnitudes(), sparsity, self.pruner.scope)
        self.set_fixed(self.groups.over_weights(keep))

    def may_select(self, step: int) -> bool:
        return self.schedule.reached(self.progress(step))
