"""Scores of each model and their paired differences, on whole splits and by sub-case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from srnet.audit.rows import Judged
from srnet.evaluation import Interval, Term, contrast, paired_bootstrap, score
from srnet.tasks.splits import LEVELS

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
