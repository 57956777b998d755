"""How a model's answers depend on a shortcut: over the bias model's confidence, and over word overlap."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from srnet.audit.rows import Judged

DECILES = np.arange(1, 10) / 10
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
    split: str
    over: str
    """"bias confidence" or "word overlap"."""
    classes: tuple[str, ...]
    bins: tuple[Bin, ...]


def over_bias_confidence(judged: Judged) -> Dependence | None:
    """Ten parts of about equal size by how sure the bias model is; equal values are never torn apart."""
    if judged.bias is None:
        return None
    confidence = judged.bias.confidence
    return Dependence(
        judged.split.name, "bias confidence", judged.classes, _bins(judged, confidence, deciles(confidence))
    )


def over_word_overlap(judged: Judged) -> Dependence | None:
    if judged.overlap is None:
        return None
    ranges = np.searchsorted(_OVERLAP_EDGES, judged.overlap, side="right")
    return Dependence(
        judged.split.name, "word overlap", judged.classes, _bins(replace(judged, bias=None), judged.overlap, ranges)
    )


def deciles(values: np.ndarray) -> np.ndarray:
    """The number of each value's tenth, from 0. Equal values share one, so there may be fewer than ten."""
    if not len(values):
        return np.empty(0, dtype=np.int64)
    edges = np.unique(np.quantile(values, DECILES, method="inverted_cdf"))
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
    """Accuracy where the bias model is right, and where it is wrong. A model that follows it falls from one to the
    other."""

    split: str
    rows_right: int
    rows_wrong: int
    where_right: tuple[float | None, ...]
    where_wrong: tuple[float | None, ...]


def shortcut_sides(judged: Judged) -> ShortcutSides | None:
    if judged.bias is None:
        return None
    led = judged.bias.answers == judged.labels

    def accuracy(rows: np.ndarray) -> tuple[float | None, ...]:
        return tuple(
            float(judged.right(model)[rows].mean()) if rows.any() else None for model in range(len(judged.models))
        )

    return ShortcutSides(judged.split.name, int(led.sum()), int((~led).sum()), accuracy(led), accuracy(~led))
