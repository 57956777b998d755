"""How a mask is found: one file per method, registered when it is imported."""

from importlib import import_module
from pkgutil import iter_modules

from srnet.pruners.base import PRUNERS, Pruner, get_pruner
from srnet.pruners.imp import IMP, RewoundIMP
from srnet.pruners.l0 import L0
from srnet.pruners.magnitude import GradualMagnitude, OneShot
from srnet.pruners.mask_training import MaskTraining
from srnet.pruners.movement import Movement
from srnet.pruners.soft_movement import SoftMovement
from srnet.pruners.static import StaticLocal, StaticShared
from srnet.pruners.wanda import Wanda

for _module in iter_modules(__path__):  # a new file in this folder needs no line here
    import_module(f"{__name__}.{_module.name}")

__all__ = [
    "IMP", "L0", "PRUNERS", "GradualMagnitude", "MaskTraining", "Movement", "OneShot", "Pruner", "RewoundIMP",
    "SoftMovement", "StaticLocal", "StaticShared", "Wanda", "get_pruner",
]  # fmt: skip
