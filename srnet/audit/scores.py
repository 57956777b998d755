"""Scores of the models on one split, with intervals."""

from __future__ import annotations

from dataclasses import dataclass

from srnet.audit.rows import Judged, b_minus_a
from srnet.evaluation.metrics import score
from srnet.evaluation.significance import Interval, Term, contrast
from srnet.tasks.base import Metric


@dataclass(frozen=True)
class SplitScores:
    """Scores of the models on one split, in percent. Intervals cover the error of the examples, not of seeds."""

    split: str
    kind: str
    rows: int
    metric: str
    scores: tuple[Interval, ...]
    """The scores of A, or of A and B, in the task's metric."""
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


def points(difference: Interval) -> str:
    """A difference in points with its interval."""
    return f"{difference.difference:+.1f} [{difference.low:+.1f}, {difference.high:+.1f}]"


def score_text(score: Interval) -> str:
    """A score with its interval."""
    low, high = max(score.low, 0.0), min(score.high, 100.0)  # on few rows the normal approximation leaves the range
    return f"{score.difference:.1f} [{low:.1f}, {high:.1f}]"
