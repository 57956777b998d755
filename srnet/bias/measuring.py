"""How well one shortcut predicts the labels: fitted on all training rows, and early, on few of them.

A shortcut is what is learned first from little data (Utama et al. 2020). Therefore kinds are compared after a few
training rows, where a kind with thousands of features cannot win by memorising, and by the log-likelihood of the labels
of dev, which counts probabilities and not only the most likely label.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from srnet.bias.candidates import Candidate
from srnet.bias.carriers import Binary, Carrier, find_carriers
from srnet.bias.model import features_of, fit_linear
from srnet.bias.shortcuts.base import PLAIN, FeatureMatrix, Features
from srnet.evaluation import BIASED_BY
from srnet.evaluation.metrics import score_split
from srnet.evaluation.significance import Interval, Term, contrast
from srnet.tasks.base import Task
from srnet.tasks.leaks import TextKeys

LEVEL = 0.01
"""The probability that any kind is called a shortcut on labels that have nothing to do with the rows."""
EXPLAINS = 5.0
"""Percent of the uncertainty about the labels from which on a kind matters, where one label is so frequent that
accuracy hardly rises above it."""
CARRIERS = 50
"""Carriers of a kind that are reported."""
EARLY_ROWS = 2_000
"""Training rows of an early fit."""
DRAWS = 5
"""Early fits, on different rows; their mean counts."""
_EARLY_C = 0.5
"""Inverse penalty of an early fit. On SNLI, MNLI, QQP and FEVER this separates the kinds best: the first by at least
three standard deviations between draws."""
_FEWEST = 200
"""Rows of train that must be left to leave out those that dev has, too."""
_LEAST = float(np.log(1e-6))
"""The smallest log-probability, for labels that a fit has never seen."""
_SMALL = 500
"""Rows of dev up to which the permutation test is simulated."""
_PERMUTATIONS = 9_999
_UNCERTAIN = 0.1
"""A normal p-value above this is never certain, so that nothing is simulated."""


@dataclass(frozen=True)
class Rows:
    """The rows of train and dev that measurements use, chosen once for all shortcuts."""

    draws: tuple[np.ndarray, ...]
    """Training rows of each early fit."""
    train: np.ndarray
    """Training rows, equal texts once."""
    dev: np.ndarray
    """Rows of dev, equal texts once."""

    @classmethod
    def of(cls, task: Task) -> Rows:
        train, dev = TextKeys.of(task.train), TextKeys.of(task.dev)
        free = np.setdiff1d(np.arange(len(task.train)), train.leaked([dev]))
        free = free if len(free) >= _FEWEST else np.arange(len(task.train))
        draws = (np.sort(np.random.default_rng(draw).permutation(free)[:EARLY_ROWS]) for draw in range(DRAWS))
        different = draws if len(free) > EARLY_ROWS else (free,)
        once = (np.unique(keys.rows, return_index=True)[1] for keys in (train, dev))
        return cls(tuple(different), *(np.sort(rows) for rows in once))


@dataclass(frozen=True)
class Measured:
    """A kind of shortcut, and how well it predicts."""

    shortcut: str
    """As it is given to --shortcut."""
    about: str
    """What it reads, in words."""
    features: int
    scores: Mapping[str, float]
    """The task's metric on dev and the test sets, in percent."""
    gain: Interval
    """The metric on dev above the majority class, in points."""
    points: float
    """Accuracy on dev above the majority class, in points."""
    explained: float
    """Percent of the uncertainty about the labels of dev that is removed by a fit on a few training rows."""
    p: float
    """Of "unrelated to the labels of dev", corrected by Holm's method for all kinds that were measured."""
    misleads: tuple[str, ...]
    """Test sets on which it is certainly worse than the majority class."""
    carriers: tuple[Carrier, ...]
    obstacle: str = ""
    """Why --shortcut would refuse it."""

    @property
    def is_shortcut(self) -> bool:
        """Whether it is certain that it predicts the label, and by enough to matter."""
        return self.p < LEVEL and (self.points >= BIASED_BY or self.explained >= EXPLAINS)

    def to_json(self) -> dict[str, Any]:
        gain = {"points": self.gain.difference, "low": self.gain.low, "high": self.gain.high}
        return {**asdict(self), "gain": gain, "is_shortcut": self.is_shortcut}


@dataclass(frozen=True)
class Fit:
    """A fitted shortcut."""

    candidate: Candidate
    features: Features
    binary: Binary
    """The features as carriers."""
    carriers: tuple[Carrier, ...]
    answers: Mapping[str, np.ndarray]
    """Log-probabilities by scored split, of the model that is fitted on all training rows."""
    measured: Measured
    """With a p-value that is not yet corrected."""


def fit_candidate(candidate: Candidate, rows: Rows) -> Fit:
    task = candidate.task
    y, classes = task.train.labels, len(task.labels)
    features = features_of(task, candidate.parts, PLAIN)
    x = features.of(task.train)
    of_scored = {name: features.of(task.splits[name]) for name in task.scored}
    whole = fit_linear(x, y, classes)
    answers = {name: np.maximum(whole(each), _LEAST) for name, each in of_scored.items()}
    dev = of_scored[task.dev.name]
    explained = [_explained(fit_early(x[draw], y[draw], classes)(dev), task.dev.labels, y[draw]) for draw in rows.draws]
    # with metadata a row is an observation; texts that are repeated are one
    of_texts = all(part.kind.of_texts for part in candidate.parts)
    tested, counted = (rows.dev, rows.train) if of_texts else (np.arange(len(task.dev)), np.arange(len(task.train)))
    binary = Binary(features.names, x)
    differences = {name: _difference(task, name, answers[name]) for name in task.scored}
    carriers = find_carriers(binary.names, binary.of(x[counted]), y[counted], task.labels)
    measured = Measured(
        shortcut=candidate.shortcut,
        about=candidate.about,
        features=len(features.names),
        scores={name: scores_of(task, name, answers[name])[0] for name in task.scored},
        gain=differences[task.dev.name],
        points=_points(answers[task.dev.name].argmax(axis=1), task.dev.labels),
        explained=float(np.mean(explained)),
        p=permutation_p(answers[task.dev.name][tested], task.dev.labels[tested]),
        misleads=tuple(name for name in task.scored if differences[name].high < 0 and name != task.dev.name),
        carriers=carriers[:CARRIERS],
        obstacle=candidate.obstacle,
    )
    return Fit(candidate, features, binary, carriers, answers, measured)


def fit_early(x: FeatureMatrix, y: np.ndarray, classes: int) -> Callable[[FeatureMatrix], np.ndarray]:
    """A fit on few rows: features -> log-probabilities."""
    if len(np.unique(y)) < 2:  # a draw from a task with a very rare label
        return lambda features: np.full((features.shape[0], classes), -np.inf)
    return fit_linear(x, y, classes, _EARLY_C)


def _explained(log_probs: np.ndarray, labels: np.ndarray, drawn: np.ndarray) -> float:
    """1 - (log-likelihood of the labels) / (that by the shares of the labels in training), in percent."""
    classes = log_probs.shape[1]
    prior = np.log((np.bincount(drawn, minlength=classes) + 1) / (len(drawn) + classes))
    log_probs = np.where(np.isfinite(log_probs), log_probs, prior)  # a label that the draw lacks
    uncertainty = -float(prior[labels].mean())
    likelihood = float(np.maximum(log_probs, _LEAST)[np.arange(len(labels)), labels].mean())
    return 100.0 * (1.0 + likelihood / uncertainty)


def permutation_p(log_probs: np.ndarray, labels: np.ndarray, seed: int = 0) -> float:
    """How often permuted labels are at least as likely as the true ones.

    The sum over rows has a known mean and variance under permutation (Hoeffding 1951), and is close to normal in large
    samples; in small ones the p-value is the larger of the normal and the simulated one.
    """
    n, counts = len(labels), np.bincount(labels, minlength=log_probs.shape[1])
    if n < 2 or counts.max() == n:
        return 1.0
    # the deviations from what the row and the label alone explain
    by_row, by_label = log_probs @ counts / n, log_probs.mean(axis=0)
    deviations = log_probs - by_row[:, None] - by_label + by_row.mean()
    variance = float((deviations**2 @ counts).sum()) / (n - 1)
    if variance < 1e-12:
        return 1.0
    found = float(deviations[np.arange(n), labels].sum())
    p = float(ndtr(-found / np.sqrt(variance)))
    if n > _SMALL or p > _UNCERTAIN:
        return p
    permuted = np.random.default_rng(seed).permuted(np.tile(labels, (_PERMUTATIONS, 1)), axis=1)
    sums = deviations[np.arange(n), permuted].sum(axis=1)
    return max(p, (1 + int((sums >= found - 1e-9).sum())) / (1 + _PERMUTATIONS))


def _points(answers: np.ndarray, labels: np.ndarray) -> float:
    return 100.0 * float((answers == labels).mean() - np.bincount(labels).max() / len(labels))


def _difference(task: Task, name: str, log_probs: np.ndarray) -> Interval:
    """The interval of the task's metric minus that of the most frequent label."""
    split, kind = task.splits[name], task.answer_kind
    answers, constant = kind.decode(split, log_probs), kind.constant(split.labels)
    assert constant is not None, "classes have a constant answer"
    terms = [Term(1.0, name, [answers]), Term(-1.0, name, [constant])]
    return contrast(terms, {name: split.labels}, task.metric)


def scores_of(task: Task, name: str, log_probs: np.ndarray) -> tuple[float, float]:
    """The task's metric on a split, and that of the most frequent label, in percent."""
    found = score_split(task, task.splits[name], log_probs)
    return found["metrics"][task.metric], found["majority"][task.metric]
