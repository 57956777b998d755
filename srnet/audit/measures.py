"""Measures of models on a split: scores, sub-cases, loyalty of one model to the other, calibration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import rel_entr

from srnet.audit.rows import Judged
from srnet.evaluation.metrics import score
from srnet.evaluation.significance import Interval, Term, contrast, paired_bootstrap
from srnet.tasks.base import Metric
from srnet.tasks.splits import LEVELS

_FEWEST = 10
"""Rows of a sub-case from which on its difference has an interval: resamples of fewer say too little."""
_BINS = 10


def b_minus_a(answers: Sequence[np.ndarray], labels: np.ndarray, metric: Metric) -> Interval | None:
    """The score of the second model minus that of the first, in points; None for one model or no rows."""
    if len(answers) < 2 or not len(labels):
        return None
    return paired_bootstrap([answers[1]], [answers[0]], labels, metric)


@dataclass(frozen=True)
class SplitScores:
    """Scores of the models on one split, in percent. Intervals cover the error of the examples, not of seeds."""

    split: str
    kind: str
    rows: int
    metric: str
    scores: tuple[Interval, ...]
    """Of A, or of A and B, in the task's metric."""
    difference: Interval | None
    """B minus A, on the same resamples of the examples."""
    majority: float
    """The score of a constant answer."""
    metrics: tuple[dict[str, float], ...]
    """All metrics of each model."""


def split_scores(judged: Judged, metric: Metric) -> SplitScores:
    split, answers = judged.split, [each.answers for each in judged.models]
    full = [score(each, split.labels, ("",) * len(split), judged.classes) for each in answers]
    return SplitScores(
        split.name,
        split.kind,
        len(split),
        metric,
        tuple(contrast([Term(1.0, "split", [each])], {"split": split.labels}, metric) for each in answers),
        b_minus_a(answers, split.labels, metric),
        full[0].majority[metric],
        tuple(each.metrics for each in full),
    )


@dataclass(frozen=True)
class SubCase:
    """Right answers on the rows of one sub-case, as counts: they compare with other tools to the last digit."""

    split: str
    name: str
    """Of the sub-case, with all levels above it."""
    rows: int
    right: tuple[int, ...]
    """Rows that A, or A and B, answered correctly."""
    difference: Interval | None
    """Accuracy of B minus that of A, in points; None for fewer than `_FEWEST` rows."""
    accuracy: tuple[float, ...]


def sub_cases(judged: Judged) -> list[SubCase]:
    """Every sub-case and every level of them, each before those below it."""
    rows: dict[str, list[int]] = {}
    for row, group in enumerate(judged.split.groups):
        parts = group.split(LEVELS) if group else []
        for depth in range(1, len(parts) + 1):
            rows.setdefault(LEVELS.join(parts[:depth]), []).append(row)
    return [_sub_case(judged, name, np.array(rows[name])) for name in sorted(rows)]


def _sub_case(judged: Judged, name: str, rows: np.ndarray) -> SubCase:
    right = tuple(int(each[rows].sum()) for each in judged.right)
    answers = [each.answers[rows] for each in judged.models]
    difference = None if len(rows) < _FEWEST else b_minus_a(answers, judged.labels[rows], "accuracy")
    return SubCase(judged.split.name, name, len(rows), right, difference, tuple(count / len(rows) for count in right))


@dataclass(frozen=True)
class Loyalty:
    """Loyalty of B to A (Xu et al. 2021, "Beyond Preserved Accuracy"), in the classes of the split."""

    split: str
    label: float
    """Share of equal answers."""
    probability: float
    """Mean of 1 - sqrt(D_JS), with the Jensen-Shannon divergence to base e, as the authors compute it: 0.167 to 1."""


def loyalty(judged: Judged) -> Iterator[Loyalty]:
    """Loyalty on the split; nothing for one model."""
    if len(judged.models) > 1:
        a, b = judged.models
        divergence = _js_divergence(a.probabilities, b.probabilities)
        label, probability = (a.answers == b.answers).mean(), (1.0 - np.sqrt(divergence)).mean()
        yield Loyalty(judged.split.name, float(label), float(probability))


def _js_divergence(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """D_JS = (D_KL(p || m) + D_KL(q || m)) / 2 with m = (p + q) / 2, to base e: from 0 to ln 2."""
    middle = (p + q) / 2.0
    nats = (rel_entr(p, middle).sum(axis=1) + rel_entr(q, middle).sum(axis=1)) / 2.0
    return np.asarray(np.clip(nats, 0.0, np.log(2.0)))  # rounding may go beyond


@dataclass(frozen=True)
class Reliability:
    """Answers whose probability is above `low`, up to `high`."""

    low: float
    high: float
    rows: int
    confidence: float
    """Mean probability of the answers."""
    accuracy: float


@dataclass(frozen=True)
class Calibration:
    """How far a model's probabilities are from its accuracy."""

    split: str
    model: int
    """0 for A, 1 for B."""
    error: float
    """The expected calibration error: the mean over all rows of |accuracy - confidence| of their bin."""
    bins: tuple[Reliability, ...]
    """Those with rows."""


def calibrations(judged: Judged) -> Iterator[Calibration]:
    """The calibration of each model."""
    for number, (each, right) in enumerate(zip(judged.models, judged.right, strict=True)):
        bins = tuple(_reliability(each.confidence, right))
        error = sum(bin.rows * abs(bin.accuracy - bin.confidence) for bin in bins) / len(judged.split)
        yield Calibration(judged.split.name, number, error, bins)


def _reliability(confidence: np.ndarray, right: np.ndarray) -> Iterator[Reliability]:
    """Ten bins of equal width; a value on an edge belongs to the bin below it."""
    numbers = np.searchsorted(np.arange(1, _BINS) / _BINS, confidence, side="left")
    for number in np.unique(numbers).tolist():
        rows = numbers == number
        means = float(confidence[rows].mean()), float(right[rows].mean())
        yield Reliability(number / _BINS, (number + 1) / _BINS, int(rows.sum()), *means)
