"""Every pruner, in the setting the matrices of tests use: a new one is one more line here. And the objectives."""

from __future__ import annotations

from srnet.objectives.base import OBJECTIVES
from srnet.pruners.base import Pruner
from srnet.pruners.imp import IMP, RewoundIMP
from srnet.pruners.l0 import L0
from srnet.pruners.magnitude import GradualMagnitude, OneShot
from srnet.pruners.mask_training import MaskTraining
from srnet.pruners.movement import Movement
from srnet.pruners.soft_movement import SoftMovement
from srnet.pruners.static import StaticLocal, StaticShared
from srnet.pruners.wanda import Wanda

METHODS: dict[str, Pruner] = {
    pruner.name: pruner
    for pruner in (
        IMP(0.5),
        RewoundIMP(0.5),
        L0(0.5),
        GradualMagnitude(0.5, refresh_every=3),
        MaskTraining(0.5, refresh_every=3),
        Movement(0.5),
        OneShot(0.5),
        StaticLocal(0.5),
        StaticShared(0.5),
        SoftMovement(0.5),
        Wanda(0.5),
    )
}
TRAINING = {name: pruner for name, pruner in METHODS.items() if pruner.trains}
STEERED = ("l0", "soft-movement")
"""Those whose sparsity is whatever a penalty makes of it; all others meet theirs to the weight."""
FROZEN = ("mask", "smp-l", "smp-s")
"""Those that leave every weight of the backbone as it was."""
OF_CLASSES = [name for name, each in OBJECTIVES.items() if "text" not in each.needs]
"""Objectives of one row of logits for each example; those of language models read the logits of tokens."""
