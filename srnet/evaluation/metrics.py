"""Scores of one set of predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from srnet.tasks.base import LEVELS, Metric

# Every metric is a function of the confusion counts, so that a bootstrap can judge thousands of resamples at once.
# The last two axes of a count array are (true class, predicted class).


def confusion(predictions: np.ndarray, labels: np.ndarray, classes: int | None = None) -> np.ndarray:
    size = classes or int(max(predictions.max(), labels.max())) + 1
    return np.bincount(labels * size + predictions, minlength=size * size).reshape(size, size)


def accuracy_of(counts: np.ndarray) -> np.ndarray:
    return np.asarray(np.trace(counts, axis1=-2, axis2=-1) / counts.sum(axis=(-2, -1)))


def weighted_f1_of(counts: np.ndarray) -> np.ndarray:
    """The F1 of each class, weighted by how many examples it has. A class never true nor predicted counts as 0."""
    right = np.diagonal(counts, axis1=-2, axis2=-1)
    true, predicted = counts.sum(axis=-1), counts.sum(axis=-2)
    f1 = 2.0 * right / np.maximum(true + predicted, 1e-12)
    return np.asarray((f1 * true).sum(axis=-1) / true.sum(axis=-1))


METRICS: dict[Metric, Callable[[np.ndarray], np.ndarray]] = {"accuracy": accuracy_of, "f1": weighted_f1_of}


def measure(metric: Metric, predictions: np.ndarray, labels: np.ndarray) -> float:
    return float(METRICS[metric](confusion(predictions, labels)))


def accuracy(predictions: np.ndarray, labels: np.ndarray) -> float:
    return float((predictions == labels).mean())


def weighted_f1(predictions: np.ndarray, labels: np.ndarray) -> float:
    return measure("f1", predictions, labels)


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


def score(predictions: np.ndarray, labels: np.ndarray, groups: tuple[str, ...], label_names: tuple[str, ...]) -> Scores:
    constant = np.full_like(labels, np.bincount(labels).argmax())
    present = [index for index in range(len(label_names)) if (labels == index).any()]
    return Scores(
        metrics={name: _percent(measure(name, predictions, labels)) for name in METRICS},
        groups=_by_group(predictions == labels, groups),
        recall={label_names[i]: _percent(accuracy(predictions[labels == i], labels[labels == i])) for i in present},
        majority={name: _percent(measure(name, constant, labels)) for name in METRICS},
        examples=len(labels),
    )


def _by_group(right: np.ndarray, groups: tuple[str, ...]) -> dict[str, float]:
    """Accuracy per sub-case; where sub-cases have levels (`a > b`), of every level."""
    names, group_of = np.unique(np.array(groups), return_inverse=True)
    counts, hits = np.bincount(group_of), np.bincount(group_of, weights=right)
    levels: dict[str, tuple[float, int]] = {}
    for name, count, hit in zip(names.tolist(), counts.tolist(), hits.tolist(), strict=True):
        parts = name.split(LEVELS) if name else []
        for depth in range(1, len(parts) + 1):
            level = LEVELS.join(parts[:depth])
            before = levels.get(level, (0.0, 0))
            levels[level] = (before[0] + hit, before[1] + count)
    return {level: _percent(hit / count) for level, (hit, count) in sorted(levels.items())}


def _percent(share: float) -> float:
    return round(100.0 * share, 4)
