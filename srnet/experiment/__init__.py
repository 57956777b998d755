"""Expressions, their identity, the store and the engine that runs them."""

from srnet.experiment.bias import BiasSpec
from srnet.experiment.engine import Engine
from srnet.experiment.nodes import (
    CE,
    Bias,
    BiasModel,
    ConfReg,
    Distilled,
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
    WeakModel,
    every_node,
    load_task,
)
from srnet.experiment.objective import ObjectiveSources, make_objective
from srnet.experiment.store import Store, default_store

__all__ = [
    "CE", "Bias", "BiasModel", "BiasSpec", "ConfReg", "Distilled", "Engine", "Evaluate", "FineTune", "ModelNode",
    "Moment", "Node", "Objective", "ObjectiveSources", "PoE", "Pretrained", "Prune", "Reweight", "Rewind", "Store",
    "Trajectory", "WeakModel", "default_store", "every_node", "load_task", "make_objective",
]  # fmt: skip
