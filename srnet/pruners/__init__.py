"""How a mask is found: one file per method, each registered once."""

from srnet.pruners.base import PRUNERS, Method, Pruner, get_pruner
from srnet.pruners.imp import IMP, RewoundIMP
from srnet.pruners.magnitude import Magnitude
from srnet.pruners.mask_training import MaskTraining

__all__ = ["IMP", "PRUNERS", "Magnitude", "MaskTraining", "Method", "Pruner", "RewoundIMP", "get_pruner"]
