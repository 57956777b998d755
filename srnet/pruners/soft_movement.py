"""Soft movement pruning (Sanh et al. 2020): a weight stays while the sigmoid of its score is above a threshold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from srnet.errors import UserError
from srnet.masks.parametrization import ScoreMask
from srnet.pruners.base import Method, register
from srnet.pruners.penalised import Penalised, PenalisedMethod


@register
@dataclass(frozen=True)
class SoftMovement(Penalised):
    """`soft-movement`: kept where sigmoid(S) > tau; the penalty picks the sparsity. All weights train."""

    name: ClassVar[str] = "soft-movement"
    threshold: float = 0.1
    """tau"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.threshold < 0.5:
            raise UserError(f"threshold {self.threshold:g} is out of range", "scores start at sigmoid 0.5, so below it")

    def method(self, *, fine_tuned: bool, eval_every: int) -> Method:
        return _SoftMovement(self, eval_every)


class _SoftMovement(PenalisedMethod):
    pruner: SoftMovement

    def first_masks(self, weights: Mapping[str, torch.Tensor]) -> Mapping[str, nn.Module]:
        above = float(torch.nextafter(torch.tensor(self.cut()), torch.tensor(math.inf)))  # strictly above tau
        return {name: ScoreMask(torch.zeros_like(weight), above) for name, weight in weights.items()}

    def cut(self) -> float:
        return math.log(self.pruner.threshold / (1.0 - self.pruner.threshold))
