"""Scores of one set of predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from srnet.tasks.base import LEVELS, METRICS_OF, Metric, answer_of

# Every metric but one is a function of sums over the examples, so that a bootstrap can judge thousands of resamples at
# once: of confusion counts for classes, of moments for Pearson's correlation, of plain sums for spans. For Spearman's,
# the ranks of a resample follow from how often each example was drawn.


# --- classes: the last two axes of a count array are (true class, predicted class) ---------------------------------


def confusion(predictions: np.ndarray, labels: np.ndarray, classes: int | None = None) -> np.ndarray:
    size = classes or max(2, int(max(predictions.max(), labels.max())) + 1)
    return np.bincount(labels * size + predictions, minlength=size * size).reshape(size, size)


def accuracy_of(counts: np.ndarray) -> np.ndarray:
    return np.asarray(np.trace(counts, axis1=-2, axis2=-1) / counts.sum(axis=(-2, -1)))


def weighted_f1_of(counts: np.ndarray) -> np.ndarray:
    """The F1 of each class, weighted by how many examples it has. A class never true nor predicted counts as 0."""
    true = counts.sum(axis=-1)
    return np.asarray((_f1_by_class(counts) * true).sum(axis=-1) / true.sum(axis=-1))


def positive_f1_of(counts: np.ndarray) -> np.ndarray:
    """The F1 of class 1, which GLUE reports for two classes; 0 where it is neither true nor predicted."""
    return np.asarray(_f1_by_class(counts)[..., 1])


def _f1_by_class(counts: np.ndarray) -> np.ndarray:
    right = np.diagonal(counts, axis1=-2, axis2=-1)
    true, predicted = counts.sum(axis=-1), counts.sum(axis=-2)
    return np.asarray(2.0 * right / np.maximum(true + predicted, 1e-12))


def matthews_of(counts: np.ndarray) -> np.ndarray:
    """Matthews' correlation of true and predicted class, for any number of them; 0 where one of them is constant."""
    counts = counts.astype(np.float64)
    total, right = counts.sum(axis=(-2, -1)), np.trace(counts, axis1=-2, axis2=-1)
    true, predicted = counts.sum(axis=-1), counts.sum(axis=-2)
    spread_true, spread_predicted = (total**2 - (side**2).sum(axis=-1) for side in (true, predicted))
    return _quotient(right * total - (true * predicted).sum(axis=-1), np.sqrt(spread_true * spread_predicted))


OF_COUNTS: dict[Metric, Callable[[np.ndarray], np.ndarray]] = {
    "accuracy": accuracy_of,
    "f1": weighted_f1_of,
    "matthews": matthews_of,
    "positive_f1": positive_f1_of,
}


# --- scores: the last axis of a moment array is (1, x, y, xx, yy, xy), summed over the examples --------------------


_NEARLY_CONSTANT = 1e-12
"""A variance below this share of the mean square is a rounding error."""


def moments(predictions: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """One row an example. A correlation knows neither place nor scale, so both sides are standardised first."""
    return _products(_standardised(predictions), _standardised(labels))


def _products(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=-1)


def _standardised(values: np.ndarray) -> np.ndarray:
    """With mean 0 and variance 1; 0 where all are equal."""
    values = _numbers(values)
    if not np.ptp(values):
        return np.zeros_like(values)
    small = values / np.abs(values).max()  # squares must not overflow
    centred = small - small.mean()
    return np.asarray(centred / np.sqrt((centred**2).mean()))


def _numbers(values: np.ndarray) -> np.ndarray:
    """A model that has gone astray answers with what is no number: nobody can tell its answers apart."""
    values = np.asarray(values, dtype=np.float64)
    return values if np.isfinite(values).all() else np.zeros_like(values)


def pearson_of(sums: np.ndarray) -> np.ndarray:
    """The correlation, from the moments; 0 where one side is constant."""
    means = np.asarray(sums, dtype=np.float64) / sums[..., :1]
    x, y, xx, yy, xy = np.moveaxis(means[..., 1:], -1, 0)
    together = xy - x * y
    correlation = _quotient(together, np.sqrt(_variance(x, xx)) * np.sqrt(_variance(y, yy)))
    return np.asarray(np.clip(correlation, -1.0, 1.0))


def _variance(mean: np.ndarray, square: np.ndarray) -> np.ndarray:
    variance = square - mean**2
    return np.where(variance > _NEARLY_CONSTANT * square, variance, 0.0)


def spearman_of(predictions: np.ndarray, labels: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """The correlation of the ranks, ties sharing their mean, one a resample.

    `drawn` says how often each example was drawn, one row a resample.
    """
    drawn = np.asarray(drawn, dtype=np.float64)
    middle = (drawn.sum(axis=1, keepdims=True) + 1.0) / 2.0
    x, y = (_ranks(_numbers(values), drawn) / middle - 1.0 for values in (predictions, labels))
    return pearson_of(np.einsum("re,rem->rm", drawn, _products(x, y)))


def _ranks(values: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """The rank of each example in each resample: all that is drawn below it, and half of what equals it."""
    place = rankdata(values, method="dense") - 1
    order = np.argsort(place, kind="stable")
    first = np.flatnonzero(np.diff(place[order], prepend=-1))
    equal = np.add.reduceat(drawn[:, order], first, axis=1)
    below = np.cumsum(equal, axis=1) - equal
    return np.asarray((below + (equal + 1.0) / 2.0)[:, place])


def _quotient(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """0 where nothing can be said."""
    return np.asarray(np.where(below > 0.0, above / np.where(below > 0.0, below, 1.0), 0.0))


# --- spans: the answers of a split are exact match and F1 of each example ------------------------------------------


SPAN_COLUMN: dict[Metric, int] = {"exact_match": 0, "span_f1": 1}


def measure(metric: Metric, predictions: np.ndarray, labels: np.ndarray) -> float:
    """`predictions` are the answers of a split, `labels` its labels."""
    if metric in SPAN_COLUMN:
        return float(predictions[:, SPAN_COLUMN[metric]].mean())
    if metric == "pearson":
        return float(pearson_of(moments(predictions, labels).sum(axis=0)))
    if metric == "spearman":
        return float(spearman_of(predictions, labels, np.ones((1, len(labels))))[0])
    return float(OF_COUNTS[metric](confusion(predictions, labels)))


def accuracy(predictions: np.ndarray, labels: np.ndarray) -> float:
    return float((predictions == labels).mean())


def weighted_f1(predictions: np.ndarray, labels: np.ndarray) -> float:
    return measure("f1", predictions, labels)


@dataclass(frozen=True)
class Scores:
    """Everything reported about one model on one split, in percent."""

    metrics: dict[str, float]
    """Every metric that there is for this kind of answer."""
    groups: dict[str, float]
    """Accuracy per sub-case, of classes."""
    recall: dict[str, float]
    """Accuracy per true class."""
    majority: dict[str, float]
    """What always answering the same, the most frequent class, scores: the floor any model should beat."""
    examples: int


def score(predictions: np.ndarray, labels: np.ndarray, groups: tuple[str, ...], label_names: tuple[str, ...]) -> Scores:
    if answer_of(labels) == "class":
        return _score_classes(predictions, labels, groups, label_names)
    names = METRICS_OF[answer_of(labels)]
    return Scores(
        metrics={name: _percent(measure(name, predictions, labels)) for name in names},
        groups={},
        recall={},
        majority=dict.fromkeys(names, 0.0),
        examples=len(labels),
    )


def _score_classes(
    predictions: np.ndarray, labels: np.ndarray, groups: tuple[str, ...], label_names: tuple[str, ...]
) -> Scores:
    names = [name for name in METRICS_OF["class"] if name != "positive_f1" or len(label_names) == 2]
    constant = np.full_like(labels, np.bincount(labels).argmax())
    present = [index for index in range(len(label_names)) if (labels == index).any()]
    return Scores(
        metrics={name: _percent(measure(name, predictions, labels)) for name in names},
        groups=_by_group(predictions == labels, groups),
        recall={label_names[i]: _percent(accuracy(predictions[labels == i], labels[labels == i])) for i in present},
        majority={name: _percent(measure(name, constant, labels)) for name in names},
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
