"""Expressions, their identity, the store and the engine that runs them."""

from srnet.experiment.engine import Engine
from srnet.experiment.nodes import (
    CE,
    BiasModel,
    ConfReg,
    Evaluate,
    FineTune,
    ModelNode,
    Moment,
    Node,
    Objective,
    PoE,
    Pretrained,
    Prune,
    Reweight,
    Rewind,
    Trajectory,
    default_bias,
    every_node,
    load_task,
)
from srnet.experiment.store import Store, default_store

__all__ = [
    "CE",
    "BiasModel",
    "ConfReg",
    "Engine",
    "Evaluate",
    "FineTune",
    "ModelNode",
    "Moment",
    "Node",
    "Objective",
    "PoE",
    "Pretrained",
    "Prune",
    "Reweight",
    "Rewind",
    "Store",
    "Trajectory",
    "default_bias",
    "default_store",
    "every_node",
    "load_task",
]
