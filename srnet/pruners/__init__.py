"""How a mask is found: one file per method, each registered once."""

from srnet.pruners.base import PRUNERS, Method, Pruner, get_pruner
from srnet.pruners.imp import IMP, RewoundIMP
from srnet.pruners.l0 import L0
from srnet.pruners.magnitude import GradualMagnitude, OneShot
from srnet.pruners.mask_training import MaskTraining
from srnet.pruners.movement import Movement
from srnet.pruners.soft_movement import SoftMovement
from srnet.pruners.static import StaticLocal, StaticShared

__all__ = [
    "IMP",
    "L0",
    "PRUNERS",
    "GradualMagnitude",
    "MaskTraining",
    "Method",
    "Movement",
    "OneShot",
    "Pruner",
    "RewoundIMP",
    "SoftMovement",
    "StaticLocal",
    "StaticShared",
    "get_pruner",
]
