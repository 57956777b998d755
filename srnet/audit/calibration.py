"""Whether a model is right as often as it says: expected calibration error and the table behind it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from srnet.audit.rows import Judged

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
