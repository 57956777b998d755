"""A number, given by the model's only output."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from srnet.core.arrays import finite_logits
from srnet.tasks.answers.base import AnswerKind, Judge, Measure, judge_sums, quotient, register
from srnet.tasks.splits import Split

if TYPE_CHECKING:
    import torch

# --- metrics: the last axis of a moment array is (1, x, y, xx, yy, xy), summed over the examples -------------------

_NEARLY_CONSTANT = 1e-12
"""A variance below this share of the mean square is a rounding error."""


def _moments(predictions: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """One row per example. Correlations are invariant to location and scale, so both sides are standardised."""
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
    return finite_logits(np.asarray(values, dtype=np.float64))


def _pearson_of(sums: np.ndarray) -> np.ndarray:
    """The correlation, from the moments; 0 where one side is constant."""
    means = np.asarray(sums, dtype=np.float64) / sums[..., :1]
    x, y, xx, yy, xy = np.moveaxis(means[..., 1:], -1, 0)
    together = xy - x * y
    correlation = quotient(together, np.sqrt(_variance(x, xx)) * np.sqrt(_variance(y, yy)))
    return np.asarray(np.clip(correlation, -1.0, 1.0))


def _variance(mean: np.ndarray, square: np.ndarray) -> np.ndarray:
    variance = square - mean**2
    return np.where(variance > _NEARLY_CONSTANT * square, variance, 0.0)


def _spearman_of(predictions: np.ndarray, labels: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """The correlation of the ranks, with the mean rank for ties, one per resample.

    `drawn`: how often each example was drawn, one row per resample.
    """
    drawn = np.asarray(drawn, dtype=np.float64)
    middle = (drawn.sum(axis=1, keepdims=True) + 1.0) / 2.0
    x, y = (_ranks(_numbers(values), drawn) / middle - 1.0 for values in (predictions, labels))
    return _pearson_of(np.einsum("re,rem->rm", drawn, _products(x, y)))


def _ranks(values: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """The mean rank of each example in each resample: the draws below it, and half of those equal to it."""
    place = np.unique(values, return_inverse=True)[1]
    order = np.argsort(place, kind="stable")
    first = np.flatnonzero(np.diff(place[order], prepend=-1))
    equal = np.add.reduceat(drawn[:, order], first, axis=1)
    below = np.cumsum(equal, axis=1) - equal
    return np.asarray((below + (equal + 1.0) / 2.0)[:, place])


def _pearson(answers: np.ndarray, labels: np.ndarray) -> float:
    return float(_pearson_of(_moments(answers, labels).sum(axis=0)))


def _judge_pearson(models: Sequence[np.ndarray], labels: np.ndarray) -> Judge:
    return judge_sums([_moments(model, labels) for model in models], _pearson_of)


def _spearman(answers: np.ndarray, labels: np.ndarray) -> float:
    return float(_spearman_of(answers, labels, np.ones((1, len(labels))))[0])


def _judge_spearman(models: Sequence[np.ndarray], labels: np.ndarray) -> Judge:
    """Ranks are not sums, but those of a resample follow from how often each example was drawn."""
    return lambda drawn: np.stack([_spearman_of(model, labels, drawn) for model in models], axis=1)


# --- the kind ------------------------------------------------------------------------------------------------------


class _Numbers(AnswerKind):
    name, plural = "score", "scores"
    metrics: ClassVar = {"pearson": Measure(_pearson, _judge_pearson), "spearman": Measure(_spearman, _judge_spearman)}
    outputs = ("score",)
    dtype = np.float64

    def parse(self, cell: str, labels: Mapping[str, int]) -> float | None:
        """A finite number. Python also accepts 1_000, inf and nan, which are mistakes in a file."""
        try:
            value = float(cell)
        except ValueError:
            return None
        return value if math.isfinite(value) and "_" not in cell else None

    def unreadable(self, cell: str, column: str, labels: Sequence[str]) -> str:
        return f"'{cell}' under '{column}' is not a number"

    def problem(self, labels: np.ndarray, names: Sequence[str]) -> str | None:
        if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.floating):
            return f"does not hold {self.plural}"
        return None if np.isfinite(labels).all() else "holds a non-finite score"

    def statistics(self, labels: np.ndarray) -> dict[str, float]:
        found = {"mean": labels.mean(), "sd": labels.std(), "min": labels.min(), "max": labels.max()}
        return {name: round(float(value), 4) for name, value in found.items()}

    def losses(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return (logits[:, 0] - labels.to(logits.dtype)).square()

    def decode(self, split: Split, logits: np.ndarray) -> np.ndarray:
        return np.asarray(logits[:, 0])


NUMBERS = register(_Numbers())
