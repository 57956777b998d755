"""Spread over seeds, and confidence intervals from seeds and a paired bootstrap of the examples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from srnet.tasks.answers.base import METRICS
from srnet.tasks.base import Metric

SAMPLES = 1000
LEVEL = 0.95
_SMALLEST_P = 1e-100
"""The smallest p-value: below it quantiles are inaccurate, and no decision depends on them."""
_EXAMPLES_ONLY = " (one seed: examples only)"
_CHUNK = 2_000_000
"""Entries of the table of resamples that are in memory at once."""


@dataclass(frozen=True)
class Spread:
    mean: float
    sd: float
    """Sample standard deviation; 0 for a single seed, where it is undefined."""
    seeds: int

    def __str__(self) -> str:
        return self.rounded(1)

    def rounded(self, decimals: int) -> str:
        mean, sd = f"{self.mean:.{decimals}f}", f"{self.sd:.{decimals}f}"
        return f"{mean} ± {sd}" if self.seeds > 1 else mean


def spread(values: Sequence[float]) -> Spread:
    array = np.asarray(values, dtype=np.float64)
    return Spread(float(array.mean()), float(array.std(ddof=1)) if len(array) > 1 else 0.0, len(array))


@dataclass(frozen=True)
class Interval:
    """A difference in points with its confidence interval, from two sources of error: seeds and test examples.

    Half its width is sqrt((t * seed_error)^2 + (z * example_error)^2), with the quantile t of seeds - 1 degrees of
    freedom and z of the normal distribution. In simulations this covers 95 % or more for any ratio of the two errors;
    Welch-Satterthwaite degrees of freedom cover 92 % with three seeds, the larger of the two parts 91 % with five.
    """

    difference: float
    seed_error: float
    """Standard error of the mean over seeds; 0 for one seed, where it is unknown."""
    example_error: float
    """Standard deviation of the mean over seeds when the test examples are resampled."""
    seeds: int
    level: float = LEVEL

    def to_json(self) -> dict[str, float]:
        return {"value": self.difference, "low": self.low, "high": self.high, "level": self.level}

    @property
    def low(self) -> float:
        return self.difference - self._reach

    @property
    def high(self) -> float:
        return self.difference + self._reach

    def p_above(self, bar: float = 0.0) -> float:
        """One-sided p-value for "above `bar`": below (1 - level) / 2 exactly if the interval lies above it."""
        return self._p(self.difference - bar)

    def p_below(self, bar: float = 0.0) -> float:
        """One-sided p-value for "below `bar`"."""
        return self._p(bar - self.difference)

    def with_seeds(self, seeds: int) -> Interval:
        """The expected interval with more seeds of the same spread and mean: only the seed part shrinks."""
        return replace(self, seeds=seeds, seed_error=self.seed_error * math.sqrt(self.seeds / seeds))

    def __str__(self) -> str:
        return points(self) + _EXAMPLES_ONLY * (self.seeds == 1)

    @property
    def _reach(self) -> float:
        return self._half_width((1.0 - self.level) / 2.0)

    def _half_width(self, tail: float) -> float:
        """Half the width of the interval if each tail has this probability."""
        z = -ndtri(tail) * self.example_error
        return math.hypot(stdtrit(self.seeds - 1, tail) * self.seed_error, z) if self.seed_error else float(z)

    def _p(self, distance: float) -> float:
        """The tail at which the half width is `distance`."""
        if distance < 0.0:
            return 1.0 - self._p(-distance)
        if not self._error:
            return 0.0 if distance else 1.0
        # the normal distribution has the lighter tail: the result lies between those of the two distributions
        ratio = distance / self._error
        lightest = max(float(ndtr(-ratio)), _SMALLEST_P)
        heaviest = float(stdtr(self.seeds - 1, -ratio)) if self.seed_error else lightest
        if self._half_width(lightest) <= distance:
            return lightest
        if self._half_width(heaviest) >= distance:
            return heaviest
        return float(brentq(lambda tail: self._half_width(tail) - distance, lightest, heaviest, xtol=1e-15))

    @property
    def _error(self) -> float:
        return math.hypot(self.seed_error, self.example_error)


@dataclass(frozen=True)
class AsymmetricInterval:
    """A score or a difference in points, with a confidence interval whose ends may be at unequal distances."""

    difference: float
    low: float
    high: float
    seeds: int
    level: float = LEVEL

    def minus(self, other: AsymmetricInterval) -> AsymmetricInterval:
        """The difference of two figures, by MOVER (Zou & Donner 2008).

        It takes them as independent: if they are positively correlated, as on the same examples, it is too wide.
        """
        difference = self.difference - other.difference
        below = math.hypot(self.difference - self.low, other.high - other.difference)
        above = math.hypot(self.high - self.difference, other.difference - other.low)
        return AsymmetricInterval(difference, difference - below, difference + above, self.seeds, self.level)

    def to_json(self) -> dict[str, float]:
        return {"value": self.difference, "low": self.low, "high": self.high, "level": self.level}

    def __str__(self) -> str:
        return points(self) + _EXAMPLES_ONLY * (self.seeds == 1)


def points(difference: Interval | AsymmetricInterval) -> str:
    """A difference in points with its interval."""
    return f"{difference.difference:+.1f} [{difference.low:+.1f}, {difference.high:+.1f}]"


def score_text(score: Interval | AsymmetricInterval) -> str:
    """A score with its interval."""
    low, high = max(score.low, 0.0), min(score.high, 100.0)  # on few rows the normal approximation leaves the range
    return f"{score.difference:.1f} [{low:.1f}, {high:.1f}]"


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values: comparing each with a level keeps the probability of any error below it."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


@dataclass(frozen=True)
class Term:
    """One term of a contrast: `weight` times a model's score on `split`, one array of predictions per seed."""

    weight: float
    split: str
    predictions: Sequence[np.ndarray]


def contrast(
    terms: Sequence[Term],
    labels: Mapping[str, np.ndarray],
    metric: Metric,
    samples: int = SAMPLES,
    level: float = LEVEL,
) -> Interval:
    """Interval of a weighted sum of scores, in percent points.

    Examples of each split are resampled with replacement. All terms of a split and all seeds use the same resamples, so
    that common variation cancels out.
    """
    counts = {len(term.predictions) for term in terms}
    if len(counts) != 1:
        raise ValueError("all sides need the same seeds")
    seeds = counts.pop()
    by_seed, draws = np.zeros(seeds), np.zeros(samples)
    for stream, split in enumerate(dict.fromkeys(term.split for term in terms), start=1):
        here = [term for term in terms if term.split == split]
        for original, resampled, term in zip(*_scores(here, labels[split], metric, samples, stream), here, strict=True):
            by_seed += term.weight * original
            draws += term.weight * resampled.mean(axis=1)
    by_seed, draws = METRICS[metric].scale * by_seed, METRICS[metric].scale * draws
    seed_error = float(by_seed.std(ddof=1) / np.sqrt(seeds)) if seeds > 1 else 0.0
    return Interval(float(by_seed.mean()), _exact(seed_error), _exact(float(draws.std(ddof=1))), seeds, level)


def _exact(error: float) -> float:
    """Rounding errors as 0: seeds or resamples that all agree have no spread."""
    return error if error > 1e-9 else 0.0


def _scores(
    terms: Sequence[Term], labels: np.ndarray, metric: Metric, samples: int, stream: int
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """For each term: its scores by seed, and its scores by resample and seed."""
    judge = METRICS[metric].judge([seed for term in terms for seed in term.predictions], labels)
    measured = [judge(np.ones((1, len(labels)), dtype=np.float32))]
    step = max(1, _CHUNK // len(labels))
    for start in range(0, samples, step):
        measured.append(judge(_resamples(min(step, samples - start), len(labels), stream, start)))
    scores = np.concatenate(measured)  # (1 + samples, models)
    ends = np.cumsum([len(term.predictions) for term in terms])
    parts = np.split(scores, ends[:-1], axis=1)
    return [part[0] for part in parts], [part[1:] for part in parts]


@lru_cache(maxsize=8)
def _resamples(rows: int, examples: int, stream: int, start: int) -> np.ndarray:
    """How often each example is drawn, one row per resample. Every contrast uses the same resamples."""
    rng = np.random.default_rng((stream, start))
    drawn = rng.integers(0, examples, (rows, examples)) + examples * np.arange(rows)[:, None]
    counts: np.ndarray = np.bincount(drawn.ravel(), minlength=rows * examples).reshape(rows, examples)
    return counts.astype(np.float32)


def paired_bootstrap(
    ours: Sequence[np.ndarray],
    theirs: Sequence[np.ndarray],
    labels: np.ndarray,
    metric: Metric,
    samples: int = SAMPLES,
    level: float = LEVEL,
) -> Interval:
    """Interval of "ours minus theirs". Each element is one seed's predictions on the same examples."""
    terms = (Term(1.0, "split", ours), Term(-1.0, "split", theirs))
    return contrast(terms, {"split": labels}, metric, samples, level)
