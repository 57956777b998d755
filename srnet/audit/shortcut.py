"""How a model's answers depend on a shortcut: over the bias model's confidence, and over word overlap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from srnet.audit.rows import Judged

_DECILES = np.arange(1, 10) / 10
_OVERLAP_EDGES = np.arange(1, 11) / 10
"""Ten ranges of equal width, and one for pairs whose second text has no word of its own."""


@dataclass(frozen=True)
class Bin:
    """The rows of one range, and what each model does there. Shares, not percent."""

    low: float
    high: float
    """The smallest and the largest value in the range."""
    rows: int
    gold: tuple[float, ...]
    """Share of each label."""
    accuracy: tuple[float, ...]
    """Of A, or of A and B."""
    answers: tuple[tuple[float, ...], ...]
    """By model, the share of each answer."""
    follows: tuple[float, ...] = ()
    """By model, the share of answers that are the bias model's."""
    bias_accuracy: float | None = None


@dataclass(frozen=True)
class Dependence:
    """What the models do over ranges of a measure of the shortcut."""

    split: str
    over: str
    """"bias confidence" or "word overlap"."""
    classes: tuple[str, ...]
    bins: tuple[Bin, ...]


def dependences(judged: Judged) -> Iterator[Dependence]:
    """Over tenths of the bias model's confidence and over ranges of word overlap, where there are such."""
    name, classes = judged.split.name, judged.classes
    if judged.bias is not None:
        confidence = judged.bias.confidence
        yield Dependence(name, "bias confidence", classes, _bins(judged, confidence, deciles(confidence)))
    if judged.overlap is not None:
        ranges = np.searchsorted(_OVERLAP_EDGES, judged.overlap, side="right")
        yield Dependence(name, "word overlap", classes, _bins(replace(judged, bias=None), judged.overlap, ranges))


def deciles(values: np.ndarray) -> np.ndarray:
    """The tenth that each value is in, from 0. Equal values are in the same tenth, so there may be fewer than ten."""
    if not len(values):
        return np.empty(0, dtype=np.int64)
    edges = np.unique(np.quantile(values, _DECILES, method="inverted_cdf"))
    return np.searchsorted(edges, values, side="left")


def _bins(judged: Judged, values: np.ndarray, numbers: np.ndarray) -> tuple[Bin, ...]:
    return tuple(_bin(judged, values, np.flatnonzero(numbers == number)) for number in np.unique(numbers))


def _bin(judged: Judged, values: np.ndarray, rows: np.ndarray) -> Bin:
    classes, labels, bias = len(judged.classes), judged.labels[rows], judged.bias
    answers = [each.answers[rows] for each in judged.models]
    return Bin(
        low=float(values[rows].min()),
        high=float(values[rows].max()),
        rows=len(rows),
        gold=_shares(labels, classes),
        accuracy=tuple(float((each == labels).mean()) for each in answers),
        answers=tuple(_shares(each, classes) for each in answers),
        follows=() if bias is None else tuple(float((each == bias.answers[rows]).mean()) for each in answers),
        bias_accuracy=None if bias is None else float((bias.answers[rows] == labels).mean()),
    )


def _shares(answers: np.ndarray, classes: int) -> tuple[float, ...]:
    return tuple((np.bincount(answers, minlength=classes) / len(answers)).tolist())


@dataclass(frozen=True)
class ShortcutSides:
    """Accuracy where the bias model is right, and where it is wrong: the difference shows who follows the shortcut."""

    split: str
    rows_right: int
    rows_wrong: int
    where_right: tuple[float | None, ...]
    where_wrong: tuple[float | None, ...]


def shortcut_sides(judged: Judged) -> Iterator[ShortcutSides]:
    """Accuracy on both sides; nothing without a bias model."""
    if judged.bias is not None:
        led = judged.bias.answers == judged.labels
        counts = int(led.sum()), int((~led).sum())
        yield ShortcutSides(judged.split.name, *counts, _accuracy(judged, led), _accuracy(judged, ~led))


def _accuracy(judged: Judged, rows: np.ndarray) -> tuple[float | None, ...]:
    return tuple(float(right[rows].mean()) if rows.any() else None for right in judged.right)
