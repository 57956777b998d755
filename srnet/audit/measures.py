"""Whether a model is right as often as it says: expected calibration error and the table behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import rel_entr

from srnet.audit.rows import Judged
from srnet.evaluation.metrics import score
from srnet.evaluation.significance import Interval, Term, contrast, paired_bootstrap
from srnet.tasks.splits import LEVELS

BINS = 10


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
    split: str
    model: int
    """0 for A, 1 for B."""
    error: float
    """The expected calibration error: the mean over all rows of |accuracy - confidence| of their bin."""
    bins: tuple[Reliability, ...]
    """Those with rows."""


def calibrations(judged: Judged) -> list[Calibration]:
    return [
        Calibration(judged.split.name, number, calibration_error(table), table)
        for number, each in enumerate(judged.models)
        for table in (reliability(each.confidence, judged.right(number)),)
    ]


def reliability(confidence: np.ndarray, right: np.ndarray) -> tuple[Reliability, ...]:
    """Ten bins of equal width; a value on an edge belongs to the bin below it."""
    edges = np.arange(1, BINS) / BINS
    numbers = np.searchsorted(edges, confidence, side="left")
    bins = []
    for number in np.unique(numbers).tolist():
        rows = numbers == number
        means = float(confidence[rows].mean()), float(right[rows].mean())
        bins.append(Reliability(number / BINS, (number + 1) / BINS, int(rows.sum()), *means))
    return tuple(bins)


def calibration_error(bins: tuple[Reliability, ...]) -> float:
    total = sum(each.rows for each in bins)
    return sum(each.rows * abs(each.accuracy - each.confidence) for each in bins) / total if total else 0.0


# --- how far one model answers like another (Xu et al. 2021, "Beyond Preserved Accuracy") ---


@dataclass(frozen=True)
class Loyalty:
    """Of B to A, in the classes of the split; 1 is the same behaviour."""

    split: str
    label: float
    """Share of equal answers."""
    probability: float
    """Mean of 1 - sqrt(D_JS), with the Jensen-Shannon divergence to base e, as the authors compute it: 0.167 to 1."""


def loyalty(judged: Judged) -> Loyalty | None:
    if len(judged.models) < 2:
        return None
    a, b = judged.models
    return Loyalty(
        judged.split.name,
        label_loyalty(a.answers, b.answers),
        probability_loyalty(a.probabilities, b.probabilities),
    )


def label_loyalty(a: np.ndarray, b: np.ndarray) -> float:
    return float((a == b).mean())


def probability_loyalty(p: np.ndarray, q: np.ndarray) -> float:
    """L_p = 1 - sqrt(D_JS(p || q)), the mean over examples."""
    return float((1.0 - np.sqrt(js_divergence(p, q))).mean())


def js_divergence(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """D_JS = (D_KL(p || m) + D_KL(q || m)) / 2 with m = (p + q) / 2, to base e: from 0 to ln 2."""
    middle = (p + q) / 2.0
    nats = (rel_entr(p, middle).sum(axis=1) + rel_entr(q, middle).sum(axis=1)) / 2.0
    return np.asarray(np.clip(nats, 0.0, np.log(2.0)))  # rounding may go beyond


# --- scores of each model and their paired differences, on whole splits and by sub-case ---

FEWEST = 10
"""Rows of a sub-case from which on its difference has an interval: resamples of fewer say too little."""


@dataclass(frozen=True)
class SplitScores:
    """Scores of the models on one split, in percent. Intervals know the error of the examples alone: one model each."""

    split: str
    kind: str
    rows: int
    metric: str
    scores: tuple[Interval, ...]
    """Of A, or of A and B, in the task's metric."""
    difference: Interval | None
    """B minus A, on the same resamples of the examples."""
    majority: float
    """What a constant answer scores."""
    metrics: tuple[dict[str, float], ...]
    """All metrics of each model."""


def split_scores(judged: Judged, metric: str) -> SplitScores:
    split, answers = judged.split, [each.answers for each in judged.models]
    full = [score(each, split.labels, ("",) * len(split), judged.classes) for each in answers]
    return SplitScores(
        split.name,
        split.kind,
        len(split),
        metric,
        tuple(_interval(each, split.labels, metric) for each in answers),
        _difference(answers, split.labels, metric),
        full[0].majority[metric],
        tuple(each.metrics for each in full),
    )


def _interval(answers: np.ndarray, labels: np.ndarray, metric: str) -> Interval:
    return contrast([Term(1.0, "split", [answers])], {"split": labels}, metric)


def _difference(answers: Sequence[np.ndarray], labels: np.ndarray, metric: str) -> Interval | None:
    """Of the second model minus the first."""
    return None if len(answers) < 2 else paired_bootstrap([answers[1]], [answers[0]], labels, metric)


@dataclass(frozen=True)
class SubCase:
    """Accuracy on the rows of one sub-case, as counts: they compare with other tools to the last digit."""

    split: str
    name: str
    """Of the sub-case, with all levels above it."""
    rows: int
    right: tuple[int, ...]
    """Rows that A, or A and B, answered correctly."""
    difference: Interval | None
    """Accuracy of B minus that of A, in points; None for fewer than `FEWEST` rows."""

    @property
    def accuracy(self) -> tuple[float, ...]:
        return tuple(each / self.rows for each in self.right)


def sub_cases(judged: Judged) -> list[SubCase]:
    """Every sub-case and every level of them, each before those below it."""
    rows: dict[str, list[int]] = {}
    for row, group in enumerate(judged.split.groups):
        parts = group.split(LEVELS) if group else []
        for depth in range(1, len(parts) + 1):
            rows.setdefault(LEVELS.join(parts[:depth]), []).append(row)
    return [_sub_case(judged, name, np.array(rows[name])) for name in sorted(rows)]


def _sub_case(judged: Judged, name: str, rows: np.ndarray) -> SubCase:
    right = tuple(int(judged.right(model)[rows].sum()) for model in range(len(judged.models)))
    answers = [each.answers[rows] for each in judged.models]
    difference = None if len(rows) < FEWEST else _difference(answers, judged.labels[rows], "accuracy")
    return SubCase(judged.split.name, name, len(rows), right, difference)
