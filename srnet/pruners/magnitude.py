"""One-shot magnitude pruning: the smallest weights go, nothing is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from srnet.errors import choose
from srnet.masks import Mask, Targets, magnitudes, meet_budget
from srnet.masks.budget import Scope
from srnet.masks.parametrization import raw_weights
from srnet.pruners.base import Pruner, register


@register
@dataclass(frozen=True)
class Magnitude(Pruner):
    name: ClassVar[str] = "magnitude"
    trains: ClassVar[bool] = False
    sparsity: float = 0.5
    scope: Scope = "local"
    targets: Targets = Targets()

    def __post_init__(self) -> None:
        super().__post_init__()
        choose("scope", self.scope, ("local", "global"))

    def mask(self, model: nn.Module) -> Mask:
        return meet_budget(magnitudes(raw_weights(self.targets.find(model))), self.sparsity, self.scope)
