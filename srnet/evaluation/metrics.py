"""Scores of one set of predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.metrics import f1_score

from srnet.tasks.base import Metric


def accuracy(predictions: np.ndarray, labels: np.ndarray) -> float:
    return float((predictions == labels).mean())


def weighted_f1(predictions: np.ndarray, labels: np.ndarray) -> float:
    """The F1 of each class, weighted by how many examples it has."""
    return float(f1_score(labels, predictions, average="weighted", zero_division=0.0))


METRICS: dict[Metric, Callable[[np.ndarray, np.ndarray], float]] = {"accuracy": accuracy, "f1": weighted_f1}


@dataclass(frozen=True)
class Scores:
    """Everything reported about one model on one split, in percent."""

    metrics: dict[str, float]
    groups: dict[str, float]
    """Accuracy per sub-case."""
    recall: dict[str, float]
    """Accuracy per true class."""
    majority: dict[str, float]
    """What always answering the most frequent class scores: the floor any model should beat."""
    examples: int


def score(logits: np.ndarray, labels: np.ndarray, groups: tuple[str, ...], label_names: tuple[str, ...]) -> Scores:
    predictions = logits.argmax(axis=1)
    constant = np.full_like(labels, np.bincount(labels).argmax())
    group_names, group_of = np.unique(np.array(groups), return_inverse=True)
    by_group = {
        str(name): _percent(accuracy(predictions[group_of == i], labels[group_of == i]))
        for i, name in enumerate(group_names)
        if name
    }
    present = [index for index in range(len(label_names)) if (labels == index).any()]
    return Scores(
        metrics={name: _percent(metric(predictions, labels)) for name, metric in METRICS.items()},
        groups=by_group,
        recall={label_names[i]: _percent(accuracy(predictions[labels == i], labels[labels == i])) for i in present},
        majority={name: _percent(metric(constant, labels)) for name, metric in METRICS.items()},
        examples=len(labels),
    )


def _percent(share: float) -> float:
    return round(100.0 * share, 4)
