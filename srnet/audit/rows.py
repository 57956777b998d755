"""Answers of models on the rows of a split, the rows in order (disagreements first, worst first), and scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import softmax

from srnet.bias.shortcuts.overlap import overlap_features
from srnet.core.arrays import finite_logits
from srnet.core.errors import UserError
from srnet.evaluation.metrics import score
from srnet.evaluation.significance import Interval, Term, contrast, paired_bootstrap
from srnet.models.model import Classifier
from srnet.tasks.answers.classes import CLASSES
from srnet.tasks.base import Metric, Task
from srnet.tasks.splits import Split

ROWS_AT_ONCE = 2048
"""Rows that a classifier is given at a time: enough to group them by length, whatever the size of the split."""
_SHARE = 2
"""The column of `overlap_features` that holds the share of the second text's words which the first one has."""

Advance = Callable[[int, int], None]
"""(rows done, rows in all)"""


def collect_logits(
    classifier: Classifier, text_a: Sequence[str], text_b: Sequence[str], advance: Advance | None = None
) -> np.ndarray:
    """The logits of all rows. A classifier is given at most `ROWS_AT_ONCE` of them at a time."""
    total = len(text_a)
    kept = np.empty((total, len(classifier.labels)), dtype=np.float32)
    for start in range(0, total, ROWS_AT_ONCE):
        rows = slice(start, min(start + ROWS_AT_ONCE, total))
        kept[rows] = _checked_logits(classifier, text_a[rows], text_b[rows])
        if advance is not None:
            advance(rows.stop, total)
    return kept


def _checked_logits(classifier: Classifier, text_a: Sequence[str], text_b: Sequence[str]) -> np.ndarray:
    logits = np.asarray(classifier.logits(text_a, text_b))
    wanted = (len(text_a), len(classifier.labels))
    if logits.shape != wanted:
        raise UserError(f"{classifier.name} gives logits of shape {logits.shape}, not {wanted}", "one row a pair")
    return finite_logits(logits, classifier.name)


def word_overlap(text_a: Sequence[str], text_b: Sequence[str]) -> np.ndarray:
    """For each pair, the share of the second text's words that occur in the first; 0 if either has no words."""
    return np.asarray(overlap_features(text_a, text_b, None)[:, _SHARE])


@dataclass(frozen=True)
class _Predictions:
    """A model's answers on one split, as classes of the split."""

    answers: np.ndarray
    probabilities: np.ndarray
    """One row an example, one column a class of the split."""

    @cached_property
    def confidence(self) -> np.ndarray:
        """The probability of each answer."""
        return np.asarray(self.probabilities[np.arange(len(self.answers)), self.answers])


def _predictions_of(split: Split, logits: np.ndarray) -> _Predictions:
    """Predictions from logits. Where a split has fewer classes than the task, its own decision applies."""
    probabilities = softmax(logits.astype(np.float64), axis=1)
    if split.coarse is not None:
        probabilities = probabilities @ np.eye(len(split.coarse.classes))[np.array(split.coarse.of)]
    return _Predictions(CLASSES.decode(split, logits), probabilities)


@dataclass(frozen=True)
class Judged:
    """One split with the answers of each model and of the bias model."""

    split: Split
    classes: tuple[str, ...]
    models: tuple[_Predictions, ...]
    """Of A, or of A and B."""
    overlap: np.ndarray | None = None
    """Share of the second text's words that occur in the first; None without second texts."""
    bias: _Predictions | None = None
    """The bias model's answers."""

    @property
    def labels(self) -> np.ndarray:
        return self.split.labels

    @property
    def right(self) -> list[np.ndarray]:
        """For each model, whether each of its answers is the label."""
        return [each.answers == self.labels for each in self.models]

    @property
    def disagree(self) -> np.ndarray:
        """For each row, whether the models give different answers. A single model is compared with the labels."""
        other = self.models[1].answers if len(self.models) > 1 else self.labels
        return np.asarray(self.models[0].answers != other)

    @property
    def blame(self) -> np.ndarray:
        """For each row, the highest probability that a model gave to a wrong answer; 0 if all models are right."""
        wrong = [np.where(right, 0.0, each.confidence) for right, each in zip(self.right, self.models, strict=True)]
        return np.asarray(np.max(wrong, axis=0))


def judge_split(
    task: Task, split: Split, logits: Sequence[np.ndarray], bias_log_probs: np.ndarray | None = None
) -> Judged:
    return Judged(
        split,
        task.classes_of(split),
        tuple(_predictions_of(split, each) for each in logits),
        word_overlap(split.text_a, split.text_b) if any(split.text_b) else None,
        None if bias_log_probs is None else _predictions_of(split, bias_log_probs),
    )


@dataclass(frozen=True)
class RankedRow:
    """A row of one of several splits."""

    judged: Judged
    place: int
    """The number of the split."""
    row: int
    blame: float
    disagree: bool


def worst_first(splits: Sequence[Judged]) -> Iterator[RankedRow]:
    """All rows, made one at a time: disagreements, then the others; both by how confidently a model is wrong."""
    sizes = [len(each.split) for each in splits]
    places = np.repeat(range(len(splits)), sizes)
    rows = np.concatenate([np.arange(size) for size in sizes])
    blame = np.concatenate([each.blame for each in splits])
    disagree = np.concatenate([each.disagree for each in splits])
    for at in np.lexsort((-blame, ~disagree)):
        place = int(places[at])
        yield RankedRow(splits[place], place, int(rows[at]), float(blame[at]), bool(disagree[at]))


def disagreements(splits: Sequence[Judged]) -> Iterator[RankedRow]:
    """The rows on which the models disagree; first those on which one is most confidently wrong."""
    return (each for each in worst_first(splits) if each.disagree)


def b_minus_a(answers: Sequence[np.ndarray], labels: np.ndarray, metric: Metric) -> Interval | None:
    """The score of the second model minus that of the first, in points; None for one model or no rows."""
    if len(answers) < 2 or not len(labels):
        return None
    return paired_bootstrap([answers[1]], [answers[0]], labels, metric)


# --- scores of the models on one split, with intervals ---------------------------------------------------------------


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
