"""Results that were never trained: a key is all that ties a model to its answers, so any answers can be stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

import numpy as np

from srnet.core.files import write_json
from srnet.evaluation.metrics import score
from srnet.evaluation.significance import Interval
from srnet.experiment.identity import describe
from srnet.experiment.nodes.base import every_node, load_task
from srnet.experiment.nodes.bias import Bias
from srnet.experiment.nodes.models import Evaluate, ModelNode
from srnet.experiment.store import Store
from srnet.recipes.recipe import Recipe

Z = 1.959964
"""The 97.5 % quantile of the normal distribution."""


def interval(low: float, high: float, seeds: int = 3) -> Interval:
    """The 95 % interval from `low` to `high`."""
    return Interval((low + high) / 2, 0.0, (high - low) / 2 / Z, seeds)


def remember(store: Store, model: ModelNode, answers: Mapping[str, np.ndarray], sparsity: float = 0.5) -> None:
    """An evaluation of the model in which it gave these answers."""
    node, task = Evaluate(model), load_task(model.task_spec)
    if store.has(node.key):
        return
    logits = {name: np.eye(len(task.labels))[answers[name]] for name in node.names}
    report = {
        name: {"kind": split.kind, **asdict(score(answers[name], split.labels, split.groups, task.classes_of(split)))}
        for name, split in task.splits.items()
        if name in task.scored
    }
    with store.writing(node.key, "Evaluate", node.label, {}, "test") as folder:
        np.savez(folder / "logits.npz", **logits)  # type: ignore[arg-type]
        write_json(folder / "scores.json", {"sparsity": sparsity, "splits": report})


def remember_trainings(store: Store, recipe: Recipe, at_most: int | None = None) -> None:
    """A step of every training of the recipe, or of the first ones, at half a second."""
    trainings = [node for node in every_node(recipe.nodes()).values() if node.trains and not store.has(node.key)]
    for node in trainings[:at_most]:
        with store.writing(node.key, type(node).__name__, node.label, describe(node), "test") as folder:
            record = {"steps": 1, "log": [], "step_seconds": 0.5, "device": "cpu"}
            write_json(folder / "training.json", record)


def remember_bias(store: Store, node: Bias, answers: Mapping[str, np.ndarray]) -> None:
    """A bias model that gave these answers."""
    task, report = load_task(node.task), {}
    if store.has(node.key):
        return
    with store.writing(node.key, type(node).__name__, node.label, {}, "test") as folder:
        for name in task.scored:
            split = task.splits[name]
            log_probs = np.log(0.8 * np.eye(len(task.labels))[answers[name]] + 0.1)
            np.savez(folder / f"{name}.npz", ids=np.array(split.ids), log_probs=log_probs)
            report[name] = asdict(score(answers[name], split.labels, split.groups, task.classes_of(split)))
        write_json(folder / "scores.json", report)
