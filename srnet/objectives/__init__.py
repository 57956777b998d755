"""Losses: pure functions of (logits, labels, bias, teacher), all in log space."""

from srnet.objectives.base import OBJECTIVES, RegisteredLoss, get_objective
from srnet.objectives.ce import cross_entropy
from srnet.objectives.confreg import confidence_regularisation
from srnet.objectives.distillation import distilled
from srnet.objectives.poe import product_of_experts
from srnet.objectives.reweight import example_reweighting

__all__ = [
    "OBJECTIVES",
    "RegisteredLoss",
    "confidence_regularisation",
    "cross_entropy",
    "distilled",
    "example_reweighting",
    "get_objective",
    "product_of_experts",
]
