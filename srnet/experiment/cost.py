"""What a model cost: the optimisation steps behind it, as the store remembers them."""

from __future__ import annotations

from srnet.experiment.nodes import FineTune, ModelNode, Moment, Pretrained, Prune, Rewind
from srnet.experiment.store import Store
from srnet.files import read_json


def training_steps(node: ModelNode, store: Store) -> int:
    """Steps from the raw backbone to this model. A run that yields several models counts in full for each."""
    if isinstance(node, Pretrained):
        return 0
    if isinstance(node, Moment):
        return node.step + training_steps(node.trajectory.parent, store)
    if isinstance(node, Rewind):
        return training_steps(node.subnetwork, store)
    if isinstance(node, Prune):
        own = 0 if not node.pruner.trains else _steps(node.levels or node, store)
        return own + training_steps(node.parent, store)
    if isinstance(node, FineTune):
        return _steps(node, store) + training_steps(node.parent, store)
    raise TypeError(f"{type(node).__name__} is a run, not a model")


def _steps(node: ModelNode, store: Store) -> int:
    return int(read_json(store.path(node.key) / "training.json")["steps"])
