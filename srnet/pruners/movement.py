"""Movement pruning (Sanh et al. 2020): weights and scores learn together; what moves away from zero stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from srnet.masks import LAYERS, Schedule, Targets
from srnet.pruners.base import Method, Pruner, register
from srnet.pruners.scored import Budgeted


@register
@dataclass(frozen=True)
class Movement(Pruner):
    """`movement`: every matrix keeps the highest of its scores while all weights train."""

    name: ClassVar[str] = "movement"
    sparsity: float = 0.9
    begin: float = 0.1
    """The share of the run before which nothing is pruned."""
    ramp: float = 0.8
    """The share of the run after which the final sparsity is reached and held; only checkpoints after it count."""
    targets: Targets = LAYERS

    def __post_init__(self) -> None:
        super().__post_init__()
        self.schedule()

    def schedule(self) -> Schedule:
        return Schedule(0.0, self.sparsity, self.ramp, self.begin)

    def method(self, *, fine_tuned: bool, eval_every: int) -> Method:
        return _Movement(self.targets, self.schedule(), eval_every)


class _Movement(Budgeted):
    def freeze(self, model: nn.Module) -> None:
        """Everything learns."""
