"""What a model costs: the optimisation steps behind it, as planned or as the store recorded them."""

from __future__ import annotations

from collections.abc import Callable

from srnet.experiment.nodes import (
    FineTune,
    ModelNode,
    Moment,
    Pretrained,
    Prune,
    PruneRun,
    Rewind,
    Trajectory,
    load_task,
)
from srnet.experiment.store import Store
from srnet.files import read_json

Training = FineTune | Trajectory | Prune | PruneRun


def training_steps(node: ModelNode, store: Store) -> int:
    """Steps from the raw backbone to this model. A run that yields several models counts in full for each."""
    return _sum_of_steps(node, lambda run: int(read_json(store.path(run.key) / "training.json")["steps"]))


def planned_steps(node: ModelNode) -> int:
    """The same before anything was trained: at most, where a training may stop early."""
    return _sum_of_steps(node, training_length)


def training_length(node: Training) -> int:
    """Steps of a training that was not run yet: at most, where it may stop early."""
    if isinstance(node, Trajectory):
        return max(node.steps)
    if node.training.steps is not None:
        return node.training.steps
    examples = sum(len(split) for split in load_task(node.task_spec).training_data(node.data))
    return node.training.total_steps(examples)


def _sum_of_steps(node: ModelNode, steps_of: Callable[[Training], int]) -> int:
    if isinstance(node, Pretrained):
        return 0
    if isinstance(node, Moment):
        return node.step + _sum_of_steps(node.trajectory.parent, steps_of)
    if isinstance(node, Rewind):
        return _sum_of_steps(node.subnetwork, steps_of)
    if isinstance(node, Prune):
        own = 0 if not node.pruner.trains else steps_of(node.levels or node)
        return own + _sum_of_steps(node.parent, steps_of)
    if isinstance(node, FineTune):
        return steps_of(node) + _sum_of_steps(node.parent, steps_of)
    raise TypeError(f"{type(node).__name__} is a run, not a model")
