"""A negative control: product of experts with probabilities that belong to other examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from srnet.core.lazy import torch
from srnet.objectives.base import objective
from srnet.objectives.poe import ProductOfExperts


@objective("poe-permuted", needs=("permuted_bias",), debiases=True, by_rows=True)
@dataclass
class PermutedExperts(ProductOfExperts):
    """Product of experts in which each example has the bias probabilities of a random other one.

    They say nothing about the example, so nothing may be gained out of distribution: a control for the effect of the
    loss itself, such as less confident answers.
    """

    def __call__(self, logits: torch.Tensor, labels: torch.Tensor, **needs: Any) -> torch.Tensor:
        return self.reduced("mean", logits, labels, bias=needs["permuted_bias"])
