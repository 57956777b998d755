"""Losses, with the inputs that each needs besides logits and labels. One file each, registered on import."""

from importlib import import_module
from pkgutil import iter_modules

from srnet.objectives.base import (
    OBJECTIVES,
    RegisteredLoss,
    StatefulLoss,
    get_objective,
    objective,
    parse_objective,
)
from srnet.objectives.ce import cross_entropy
from srnet.objectives.confreg import confidence_regularisation
from srnet.objectives.distillation import distilled
from srnet.objectives.poe import ProductOfExperts
from srnet.objectives.reweight import example_reweighting

for _module in iter_modules(__path__):  # a new file in this folder needs no line here
    import_module(f"{__name__}.{_module.name}")

__all__ = [
    "OBJECTIVES", "ProductOfExperts", "RegisteredLoss", "StatefulLoss", "confidence_regularisation", "cross_entropy",
    "distilled", "example_reweighting", "get_objective", "objective", "parse_objective",
]  # fmt: skip
