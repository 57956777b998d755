"""Numbers as features of a linear model: scaled, and in ranges, so that an effect need not be monotone."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np

_RANGES = 10
LARGEST = 1e15
"""The largest magnitude of a feature: sums of squares must not overflow, in float32 either."""


@dataclass(frozen=True)
class Numbers:
    """Ranges with about as many training rows each, or single values where there are few. NaN is a missing value."""

    name: str
    edges: np.ndarray
    """The largest value of each range but the last."""
    mean: float
    deviation: float
    limits: tuple[float, float]
    ranges: tuple[str, ...]
    """The names of the ranges; the last is of missing numbers, if the training split has such."""

    @classmethod
    def of(cls, name: str, values: np.ndarray) -> Self:
        """Fitted on the values of the training split, some of which are there."""
        known = values[np.isfinite(values)] + 0.0  # -0 is 0
        different = np.unique(known)
        if len(different) > _RANGES:
            at = np.arange(1, _RANGES) / _RANGES
            edges = np.unique(np.quantile(known, at, method="lower"))
            edges = edges[edges < different[-1]]
        else:
            edges = different[:-1]
        scaled = _log(known)
        limits = float(different[0]), float(different[-1])
        ranges = (*_ranges(edges, different), *(["missing"] if len(known) < len(values) else []))
        return cls(name, edges, float(scaled.mean()), float(scaled.std()) or 1.0, limits, ranges)

    @property
    def names(self) -> tuple[str, ...]:
        """The number itself, and every range."""
        return (self.name, *(f"{self.name} {each}" for each in self.ranges))

    def matrix(self, values: np.ndarray) -> Any:
        """The number on a logarithmic scale, and 1 for its range. What is beyond the training data is at its limit."""
        from scipy.sparse import csr_matrix

        missing = np.isnan(values)
        held = np.clip(np.where(missing, self.limits[0], values), *self.limits)
        scaled = np.where(missing, 0.0, (_log(held) - self.mean) / self.deviation)
        place = np.where(missing, len(self.ranges) - 1, np.searchsorted(self.edges, held))
        # what is missing where no training number is says nothing
        known = ~missing if "missing" not in self.ranges else np.ones(len(values))
        columns = np.stack([np.zeros(len(values), np.int32), 1 + place.astype(np.int32)], axis=1)
        data, ends = np.stack([scaled, known], axis=1), 2 * np.arange(len(values) + 1)
        return csr_matrix((data.ravel(), columns.ravel(), ends), (len(values), len(self.names)))


def beyond(rows: np.ndarray) -> np.ndarray:
    """Which rows have a number that no linear model can be fitted to."""
    return np.asarray(~(np.abs(rows) < LARGEST).all(axis=1))  # not: NaN is below nothing


def _log(values: np.ndarray) -> np.ndarray:
    """Lengths, prices and counts differ by factors; scores between -1 and 1 stay about as they are."""
    return np.asarray(np.sign(values) * np.log1p(np.abs(values)))


def _ranges(edges: np.ndarray, different: np.ndarray) -> tuple[str, ...]:
    """Each range in words, by the smallest and the largest training value in it."""
    last = np.searchsorted(different, edges, side="right")
    places = pairwise([0, *last.tolist(), len(different)])
    ends = [(different[start], different[end - 1]) for start, end in places]
    return tuple(f"= {low:g}" if low == high else f"{low:g} to {high:g}" for low, high in ends)
