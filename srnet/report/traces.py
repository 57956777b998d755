"""How searches went: the scores of a training over its steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from srnet.experiment import Node, Prune, Store
from srnet.files import read_json
from srnet.recipes.points import Point
from srnet.tasks.base import Task


@dataclass(frozen=True)
class Trace:
    """Scores on the way of one training: step -> score by split, mean over seeds."""

    name: str
    steps: list[int]
    scores: dict[str, list[float]]
    seeds: int


def traces_of(groups: list[list[Point]], store: Store, task: Task) -> list[Trace]:
    traces = []
    for points in groups:
        nodes = [point.node for point in points]
        if all(node.trains for node in nodes) and isinstance(nodes[0], Prune):
            logs = [_evaluations(store, node, task) for node in nodes]
            traces.append(_trace(points[0], logs, task))
    return [trace for trace in traces if trace.steps]


def _evaluations(store: Store, node: Node, task: Task) -> dict[int, dict[str, float]]:
    """step -> score by split, for the evaluations of one training that also looked out of distribution."""
    log = read_json(store.path(node.key) / "training.json")["log"]
    names = {"eval_score": task.dev.name, **{f"trace/{split}": split for split in task.ood}}
    return {
        int(entry["step"]): {split: entry[name] for name, split in names.items()}
        for entry in log
        if all(name in entry for name in names)
    }


def _trace(point: Point, logs: list[dict[int, dict[str, float]]], task: Task) -> Trace:
    steps = sorted(set.intersection(*(set(log) for log in logs)))
    traced = (task.dev.name, *task.ood)
    scores = {split: [float(np.mean([log[step][split] for log in logs])) for step in steps] for split in traced}
    start = (
        "early stopping" if point.place.start == "auto" else f"{100 * (point.place.start or 0.0):g} % of fine-tuning"
    )
    return Trace(f"from {start}", steps, scores, len(logs))
