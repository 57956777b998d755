"""How sure we are: spread over seeds, and a paired bootstrap over seeds and examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.stats import t

from srnet.evaluation.metrics import OF_COUNTS, SPAN_COLUMN, moments, pearson_of, spearman_of
from srnet.tasks.base import Metric

SAMPLES = 1000
_CHUNK = 2_000_000
"""Cells of the table of resamples that are in memory at once."""


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

    @property
    def below_zero(self) -> bool:
        return self.high < 0.0

    def __str__(self) -> str:
        return f"{self.difference:+.1f} [{self.low:+.1f}, {self.high:+.1f}]"


@dataclass(frozen=True)
class Term:
    """One model's part in a contrast: `weight` times its score on `split`, one array of predictions a seed."""

    weight: float
    split: str
    predictions: Sequence[np.ndarray]


def contrast(
    terms: Sequence[Term],
    labels: Mapping[str, np.ndarray],
    metric: Metric,
    samples: int = SAMPLES,
    level: float = 0.95,
    few_seeds: bool = False,
) -> Interval:
    """Interval of a weighted sum of scores, in percent points.

    `few_seeds` widens it to the t-interval over the seeds, where that is wider: a bootstrap of three seeds never goes
    beyond the worst of them, whatever the level.

    A resample draws seeds, and examples of each split, with replacement. All terms of one split see the very same
    examples, and all terms the very same seeds, so that what they share cancels out.
    """
    seeds = {len(term.predictions) for term in terms}
    if len(seeds) != 1:
        raise ValueError("all sides need the same seeds")
    count = seeds.pop()
    drawn_seeds = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), size=samples) / count
    by_seed, draws = np.zeros(count), np.zeros(samples)
    for stream, split in enumerate(dict.fromkeys(term.split for term in terms), start=1):
        here = [term for term in terms if term.split == split]
        for whole, resampled, term in zip(*_scores(here, labels[split], metric, samples, stream), here, strict=True):
            by_seed += term.weight * whole
            draws += term.weight * (resampled * drawn_seeds).sum(axis=1)
    low, high = 100.0 * np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    mean = 100.0 * float(by_seed.mean())
    if few_seeds and count > 1:
        reach = 100.0 * float(t.ppf((1 + level) / 2, count - 1) * by_seed.std(ddof=1) / np.sqrt(count))
        low, high = min(low, mean - reach), max(high, mean + reach)
    return Interval(mean, float(low), float(high), level)


def _scores(
    terms: Sequence[Term], labels: np.ndarray, metric: Metric, samples: int, stream: int
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """For each term: its scores by seed, and its scores by resample and seed."""
    judge = _judge_of(metric, [seed for term in terms for seed in term.predictions], labels)
    measured = [judge(np.ones((1, len(labels)), dtype=np.float32))]
    step = max(1, _CHUNK // len(labels))
    for start in range(0, samples, step):
        measured.append(judge(_resamples(min(step, samples - start), len(labels), stream, start)))
    scores = np.concatenate(measured)  # (1 + samples, models)
    ends = np.cumsum([len(term.predictions) for term in terms])
    parts = np.split(scores, ends[:-1], axis=1)
    return [part[0] for part in parts], [part[1:] for part in parts]


Judge = Callable[[np.ndarray], np.ndarray]
"""How often each example is drawn, one row a resample -> scores by resample and model."""


def _judge_of(metric: Metric, models: Sequence[np.ndarray], labels: np.ndarray) -> Judge:
    if metric == "spearman":
        return lambda drawn: np.stack([spearman_of(model, labels, drawn) for model in models], axis=1)
    if metric == "pearson":
        return _of_sums([moments(model, labels) for model in models], pearson_of)
    if metric in SPAN_COLUMN:
        column = SPAN_COLUMN[metric]
        found = np.stack([model[:, column] for model in models], axis=1).astype(np.float64)
        return lambda drawn: np.asarray(drawn @ found / drawn.sum(axis=1, keepdims=True))
    classes = max(2, 1 + int(max(labels.max(), *(model.max() for model in models))))
    return _of_sums([_cells(labels, model, classes) for model in models], OF_COUNTS[metric])


def _of_sums(rows: Sequence[np.ndarray], value: Callable[[np.ndarray], np.ndarray]) -> Judge:
    """A metric of sums over examples: one product judges all models on all resamples."""
    shape = rows[0].shape[1:]
    table = np.concatenate([each.reshape(len(each), -1) for each in rows], axis=1)
    return lambda drawn: value((drawn @ table).reshape(len(drawn), -1, *shape).astype(np.float64))


@lru_cache(maxsize=8)
def _resamples(rows: int, examples: int, stream: int, start: int) -> np.ndarray:
    """How often each example is drawn, one row a resample. The same draws serve every contrast."""
    rng = np.random.default_rng((stream, start))
    drawn = rng.integers(0, examples, (rows, examples)) + examples * np.arange(rows)[:, None]
    counts: np.ndarray = np.bincount(drawn.ravel(), minlength=rows * examples).reshape(rows, examples)
    return counts.astype(np.float32)


def _cells(labels: np.ndarray, predictions: np.ndarray, classes: int) -> np.ndarray:
    """One table an example: a 1 in the cell of the confusion table that it falls into."""
    cells: np.ndarray = np.eye(classes * classes, dtype=np.float32)[labels * classes + predictions]
    return cells.reshape(len(labels), classes, classes)


def paired_bootstrap(
    ours: Sequence[np.ndarray],
    theirs: Sequence[np.ndarray],
    labels: np.ndarray,
    metric: Metric,
    samples: int = SAMPLES,
    level: float = 0.95,
) -> Interval:
    """Interval of "ours minus theirs". Each element is one seed's predictions on the same examples."""
    terms = (Term(1.0, "split", ours), Term(-1.0, "split", theirs))
    return contrast(terms, {"split": labels}, metric, samples, level)
