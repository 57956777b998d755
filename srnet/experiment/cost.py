"""The cost of a model: its optimisation steps, as planned or as recorded in the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from srnet.experiment.nodes import ModelNode
from srnet.experiment.store import Store
from srnet.files import read_json


def training_steps(node: ModelNode, store: Store) -> int:
    """Steps from the raw backbone to this model. A run that yields several models counts in full for each."""
    return _cost(node, lambda run: int(read_json(store.path(run.key) / "training.json")["steps"]))


def planned_steps(node: ModelNode) -> int:
    """The planned steps; the maximum where a training may stop early."""
    return _cost(node, lambda run: int(run.planned_steps))


def _cost(node: ModelNode, steps_of: Callable[[Any], int]) -> int:
    if node.holds_several_models:
        raise TypeError(f"{type(node).__name__} is a run, not a model")
    return node.cost(steps_of)
