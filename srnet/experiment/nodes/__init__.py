"""An experiment is an expression. Nothing runs when it is built; `execute` runs what the store does not have yet.

pt     = Pretrained("srnet-tiny", SyntheticTask("inference"), seed=0)
ft     = FineTune(pt, CE())                                   # A_std(f(pt))
subnet = Prune(ft, MaskTraining(sparsity=0.7), PoE(bias))     # P_poe^mask(f(ft))
ticket = FineTune(Rewind(subnet, pt), CE())                   # A_std(f(M(.) * pt))
scores = Evaluate(subnet)                                     # E_ID, E_OOD
"""

from srnet.experiment.nodes.base import (
    NODES,
    Node,
    TaskSpec,
    answer_of_spec,
    every_node,
    load_task,
    shortcut_of_spec,
)
from srnet.experiment.nodes.bias import Bias, BiasModel, WeakModel
from srnet.experiment.nodes.models import Evaluate, ModelNode, Pretrained, Rewind, answers_of
from srnet.experiment.nodes.objectives import CE, NEEDS, ConfReg, Distilled, Need, Objective, PoE, Reweight
from srnet.experiment.nodes.training import FineTune, Moment, Prune, PruneRun, Training, Trajectory

__all__ = [
    "CE", "NEEDS", "NODES", "Bias", "BiasModel", "ConfReg", "Distilled", "Evaluate", "FineTune", "ModelNode", "Moment",
    "Need", "Node", "Objective", "PoE", "Pretrained", "Prune", "PruneRun", "Reweight", "Rewind", "TaskSpec", "Training",
    "Trajectory", "WeakModel", "answer_of_spec", "answers_of", "every_node", "load_task", "shortcut_of_spec",
]  # fmt: skip
