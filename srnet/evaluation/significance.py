"""How sure we are: spread over seeds, and a paired bootstrap over examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Spread:
    mean: float
    sd: float
    """Sample standard deviation; 0 for a single seed, which says nothing about the spread."""
    seeds: int

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.sd:.1f}" if self.seeds > 1 else f"{self.mean:.1f}"


def spread(values: Sequence[float]) -> Spread:
    array = np.asarray(values, dtype=np.float64)
    return Spread(float(array.mean()), float(array.std(ddof=1)) if len(array) > 1 else 0.0, len(array))


@dataclass(frozen=True)
class Interval:
    difference: float
    low: float
    high: float
    level: float = 0.95

    @property
    def above_zero(self) -> bool:
        return self.low > 0.0

    def __str__(self) -> str:
        return f"{self.difference:+.1f} [{self.low:+.1f}, {self.high:+.1f}]"


def paired_bootstrap(
    ours: Sequence[np.ndarray],
    theirs: Sequence[np.ndarray],
    labels: np.ndarray,
    metric: Callable[[np.ndarray, np.ndarray], float],
    samples: int = 1000,
    level: float = 0.95,
) -> Interval:
    """Interval of "ours minus theirs" in percent points.

    Each element is one seed's predictions on the same examples. A resample draws seeds, and examples, with replacement,
    and scores both models on the very same draw.
    """
    if len(ours) != len(theirs):
        raise ValueError("both sides need the same seeds")
    rng, count = np.random.default_rng(0), len(labels)

    def difference(seeds: np.ndarray, rows: np.ndarray) -> float:
        gaps = [metric(ours[s][rows], labels[rows]) - metric(theirs[s][rows], labels[rows]) for s in seeds]
        return 100.0 * float(np.mean(gaps))

    everything = difference(np.arange(len(ours)), np.arange(count))
    draws = [difference(rng.integers(0, len(ours), len(ours)), rng.integers(0, count, count)) for _ in range(samples)]
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Interval(everything, float(low), float(high), level)
