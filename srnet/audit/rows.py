"""What models answer on the rows of a split: computed a part at a time, only logits are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from srnet.bias.features import overlap_features
from srnet.core.arrays import finite_logits
from srnet.core.errors import UserError
from srnet.models.model import Classifier
from srnet.tasks.answers.classes import CLASSES
from srnet.tasks.base import Task
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
    """The logits of all rows. At any time a classifier has at most `ROWS_AT_ONCE` of them."""
    kept = np.empty((len(text_a), len(classifier.labels)), dtype=np.float32)
    for rows in _parts(len(text_a)):
        kept[rows] = _checked(classifier, text_a[rows], text_b[rows])
        if advance is not None:
            advance(min(rows.stop, len(text_a)), len(text_a))
    return kept


def _parts(size: int) -> Iterator[slice]:
    return (slice(start, start + ROWS_AT_ONCE) for start in range(0, size, ROWS_AT_ONCE))


def _checked(classifier: Classifier, text_a: Sequence[str], text_b: Sequence[str]) -> np.ndarray:
    logits = np.asarray(classifier.logits(text_a, text_b))
    wanted = (len(text_a), len(classifier.labels))
    if logits.shape != wanted:
        raise UserError(f"{classifier.name} gives logits of shape {logits.shape}, not {wanted}", "one row a pair")
    return finite_logits(logits, classifier.name)


@dataclass(frozen=True)
class Predictions:
    """A model's answers on one split, in the classes that the split tells apart."""

    answers: np.ndarray
    probabilities: np.ndarray
    """One row an example, one column a class of the split."""

    @property
    def confidence(self) -> np.ndarray:
        """The probability of each answer."""
        return np.asarray(self.probabilities[np.arange(len(self.answers)), self.answers])

    def take(self, rows: np.ndarray) -> Predictions:
        return Predictions(self.answers[rows], self.probabilities[rows])


def predictions_of(split: Split, logits: np.ndarray) -> Predictions:
    """Decided as everywhere: where a split has fewer classes than the task, its own decision says how."""
    probabilities = softmax(logits.astype(np.float64), axis=1)
    if split.coarse is not None:
        probabilities = probabilities @ np.eye(len(split.coarse.classes))[np.array(split.coarse.of)]
    return Predictions(CLASSES.decode(split, logits), probabilities)


@dataclass(frozen=True)
class Judged:
    """One split, what each model answered there, and what the shortcut says."""

    split: Split
    classes: tuple[str, ...]
    models: tuple[Predictions, ...]
    """Of A, or of A and B."""
    overlap: np.ndarray | None = None
    """Share of the second text's words that occur in the first; None without second texts."""
    bias: Predictions | None = None
    """The bias model's answers."""

    @property
    def labels(self) -> np.ndarray:
        return self.split.labels

    def right(self, model: int) -> np.ndarray:
        return np.asarray(self.models[model].answers == self.labels)


def judge_split(
    task: Task, split: Split, logits: Sequence[np.ndarray], bias_log_probs: np.ndarray | None = None
) -> Judged:
    return Judged(
        split,
        task.classes_of(split),
        tuple(predictions_of(split, each) for each in logits),
        word_overlap(split.text_a, split.text_b) if any(split.text_b) else None,
        None if bias_log_probs is None else predictions_of(split, bias_log_probs),
    )


def word_overlap(text_a: Sequence[str], text_b: Sequence[str]) -> np.ndarray:
    """For each pair, the share of the second text's words that occur in the first; 0 if either has no words."""
    return np.asarray(overlap_features(text_a, text_b, None)[:, _SHARE])


# --- the rows worth reading: those on which the models disagree, worst first ---


@dataclass(frozen=True)
class Found:
    """A row of a split. `blame`: the highest probability that a wrong model gave its answer; 0 if all are right."""

    judged: Judged
    place: int
    """The number of the split."""
    row: int
    blame: float
    disagree: bool

    @property
    def wrong(self) -> tuple[bool, ...]:
        label = self.judged.labels[self.row]
        return tuple(bool(each.answers[self.row] != label) for each in self.judged.models)


def blame(judged: Judged) -> np.ndarray:
    """For each row, how confidently one of the models is wrong."""
    wrong = [np.where(judged.right(number), 0.0, each.confidence) for number, each in enumerate(judged.models)]
    return np.asarray(np.max(wrong, axis=0))


def disagree(judged: Judged) -> np.ndarray:
    """Whether the models give different answers. A single model is held against the labels."""
    if len(judged.models) < 2:
        return ~judged.right(0)
    a, b = judged.models
    return np.asarray(a.answers != b.answers)


def disagreements(splits: Sequence[Judged]) -> Iterator[Found]:
    """All rows on which the models disagree, those first on which one is most confidently wrong."""
    return (each for each in worst_first(splits) if each.disagree)


def worst_first(splits: Sequence[Judged]) -> Iterator[Found]:
    """All rows: disagreements, then what is wrong all the same, then the rest. Made one at a time."""
    of, rows = (np.concatenate(parts) for parts in zip(*map(_places, range(len(splits)), splits), strict=True))
    blames, differ = (np.concatenate([measure(each) for each in splits]) for measure in (blame, disagree))
    for place in np.lexsort((-blames, ~differ)):
        yield Found(splits[of[place]], int(of[place]), int(rows[place]), float(blames[place]), bool(differ[place]))


def _places(number: int, judged: Judged) -> tuple[np.ndarray, np.ndarray]:
    size = len(judged.split)
    return np.full(size, number), np.arange(size)
