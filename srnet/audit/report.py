"""The whole audit: scores, sub-cases, loyalty, calibration and dependence on the shortcut, of one model or of two."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from scipy.special import rel_entr

from srnet.audit.conclusion import conclude
from srnet.audit.groups import ModelGroups, model_groups
from srnet.audit.outcomes import RuleOutcome
from srnet.audit.rows import Judged, SplitScores, b_minus_a, judge_split, split_scores
from srnet.core.tables import Shown, plain
from srnet.evaluation.groups import FEWEST
from srnet.evaluation.metrics import rows_by_case
from srnet.evaluation.significance import Interval
from srnet.models.model import Matched
from srnet.tasks.base import Task

_BINS = 10


@dataclass(frozen=True)
class _SubCase:
    """Right answers on the rows of one sub-case, as counts: they compare with other tools to the last digit."""

    split: str
    name: str
    """The name of the sub-case, with all levels above it."""
    rows: int
    right: tuple[int, ...]
    """Rows that A, or A and B, answered correctly."""
    difference: Interval | None
    """Accuracy of B minus that of A, in points; None for fewer than `FEWEST` rows."""
    accuracy: tuple[float, ...]


def sub_cases(judged: Judged) -> list[_SubCase]:
    """Every sub-case and every level of them, each before those below it."""
    return [_sub_case(judged, name, rows) for name, rows in rows_by_case(judged.split.groups).items()]


def _sub_case(judged: Judged, name: str, rows: np.ndarray) -> _SubCase:
    right = tuple(int(each[rows].sum()) for each in judged.right)
    answers = [each.answers[rows] for each in judged.models]
    difference = None if len(rows) < FEWEST else b_minus_a(answers, judged.labels[rows], "accuracy")
    return _SubCase(judged.split.name, name, len(rows), right, difference, tuple(count / len(rows) for count in right))


@dataclass(frozen=True)
class _Loyalty:
    """Loyalty of B to A (Xu et al. 2021, "Beyond Preserved Accuracy"), in the classes of the split."""

    split: str
    label: float
    """Share of equal answers."""
    probability: float
    """Mean of 1 - sqrt(D_JS), with the Jensen-Shannon divergence to base e, as the authors compute it: 0.167 to 1."""


def loyalty(judged: Judged) -> Iterator[_Loyalty]:
    """Loyalty on the split; nothing for one model."""
    if len(judged.models) > 1:
        a, b = judged.models
        divergence = _js_divergence(a.probabilities, b.probabilities)
        label, probability = (a.answers == b.answers).mean(), (1.0 - np.sqrt(divergence)).mean()
        yield _Loyalty(judged.split.name, float(label), float(probability))


def _js_divergence(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """D_JS = (D_KL(p || m) + D_KL(q || m)) / 2 with m = (p + q) / 2, to base e: from 0 to ln 2."""
    middle = (p + q) / 2.0
    nats = (rel_entr(p, middle).sum(axis=1) + rel_entr(q, middle).sum(axis=1)) / 2.0
    return np.asarray(np.clip(nats, 0.0, np.log(2.0)))  # rounding may go beyond


@dataclass(frozen=True)
class _Reliability:
    """Answers whose probability is above `low`, up to `high`."""

    low: float
    high: float
    rows: int
    confidence: float
    """Mean probability of the answers."""
    accuracy: float


@dataclass(frozen=True)
class _Calibration:
    """How far a model's probabilities are from its accuracy."""

    split: str
    model: int
    """0 for A, 1 for B."""
    error: float
    """The expected calibration error: the mean over all rows of |accuracy - confidence| of their bin."""
    bins: tuple[_Reliability, ...]
    """Those with rows."""


def _calibrations(judged: Judged) -> Iterator[_Calibration]:
    """The calibration of each model."""
    for number, (each, right) in enumerate(zip(judged.models, judged.right, strict=True)):
        bins = tuple(_reliability(each.confidence, right))
        error = sum(bin.rows * abs(bin.accuracy - bin.confidence) for bin in bins) / len(judged.split)
        yield _Calibration(judged.split.name, number, error, bins)


def _reliability(confidence: np.ndarray, right: np.ndarray) -> Iterator[_Reliability]:
    """Ten bins of equal width; a value on an edge belongs to the bin below it."""
    numbers = np.searchsorted(np.arange(1, _BINS) / _BINS, confidence, side="left")
    for number in np.unique(numbers).tolist():
        rows = numbers == number
        means = float(confidence[rows].mean()), float(right[rows].mean())
        yield _Reliability(number / _BINS, (number + 1) / _BINS, int(rows.sum()), *means)


# --- how a model's answers depend on a shortcut ---

SUPPORT, CONFIDENCE, OVERLAP = "shortcut's support", "bias confidence", "word overlap"
_DECILES = np.arange(1, 10) / 10
_EDGES = np.arange(1, 11) / 10
"""Ten ranges of equal width, and one for a value of 1, such as the overlap of a text without a word of its own."""


@dataclass(frozen=True)
class Bin:
    """The rows of one range, and what each model does there. Shares, not percent."""

    low: float
    high: float
    """The smallest and the largest value in the range."""
    rows: int
    gold: tuple[float, ...]
    """Share of each label."""
    accuracy: tuple[float, ...]
    """The accuracy of A, or of A and B."""
    answers: tuple[tuple[float, ...], ...]
    """By model, the share of each answer."""
    follows: tuple[float, ...] = ()
    """By model, the share of answers that are the bias model's."""
    bias_accuracy: float | None = None


@dataclass(frozen=True)
class Dependence:
    """What the models do over ranges of a measure of the shortcut."""

    split: str
    over: str
    """One of `SUPPORT`, `CONFIDENCE` and `OVERLAP`."""
    classes: tuple[str, ...]
    bins: tuple[Bin, ...]


def _dependences(judged: Judged) -> Iterator[Dependence]:
    """Over what the bias model gives to the true label, over its confidence, and over word overlap, if there is one."""
    name, classes = judged.split.name, judged.classes
    if judged.bias is not None:
        support = judged.bias.probabilities[np.arange(len(judged.labels)), judged.labels]
        yield Dependence(name, SUPPORT, classes, _bins(judged, support, _tenths(support)))
        confidence = judged.bias.confidence
        yield Dependence(name, CONFIDENCE, classes, _bins(judged, confidence, _deciles(confidence)))
    if judged.overlap is not None:
        overlap = judged.overlap
        yield Dependence(name, OVERLAP, classes, _bins(replace(judged, bias=None), overlap, _tenths(overlap)))


def _tenths(shares: np.ndarray) -> np.ndarray:
    """The range of equal width that each share is in, from 0."""
    return np.searchsorted(_EDGES, shares, side="right")


def _deciles(values: np.ndarray) -> np.ndarray:
    """The tenth that each value is in, from 0. Equal values are in the same tenth, so there may be fewer than ten."""
    if not len(values):
        return np.empty(0, dtype=np.int64)
    edges = np.unique(np.quantile(values, _DECILES, method="inverted_cdf"))
    return np.searchsorted(edges, values, side="left")


def _bins(judged: Judged, values: np.ndarray, numbers: np.ndarray) -> tuple[Bin, ...]:
    return tuple(_bin(judged, values, np.flatnonzero(numbers == number)) for number in np.unique(numbers))


def _bin(judged: Judged, values: np.ndarray, rows: np.ndarray) -> Bin:
    classes, labels, bias = len(judged.classes), judged.labels[rows], judged.bias
    answers = [each.answers[rows] for each in judged.models]
    return Bin(
        low=float(values[rows].min()),
        high=float(values[rows].max()),
        rows=len(rows),
        gold=_shares(labels, classes),
        accuracy=tuple(float((each == labels).mean()) for each in answers),
        answers=tuple(_shares(each, classes) for each in answers),
        follows=() if bias is None else tuple(float((each == bias.answers[rows]).mean()) for each in answers),
        bias_accuracy=None if bias is None else float((bias.answers[rows] == labels).mean()),
    )


def _shares(answers: np.ndarray, classes: int) -> tuple[float, ...]:
    return tuple((np.bincount(answers, minlength=classes) / len(answers)).tolist())


@dataclass(frozen=True)
class _ShortcutSides:
    """Accuracy where the bias model is right, and where it is wrong: the difference shows who follows the shortcut."""

    split: str
    rows_right: int
    rows_wrong: int
    where_right: tuple[float | None, ...]
    where_wrong: tuple[float | None, ...]


def _shortcut_sides(judged: Judged) -> Iterator[_ShortcutSides]:
    """Accuracy on both sides; nothing without a bias model."""
    if judged.bias is not None:
        led = judged.bias.answers == judged.labels
        counts = int(led.sum()), int((~led).sum())
        yield _ShortcutSides(judged.split.name, *counts, _accuracy(judged, led), _accuracy(judged, ~led))


def _accuracy(judged: Judged, rows: np.ndarray) -> tuple[float | None, ...]:
    return tuple(float(right[rows].mean()) if rows.any() else None for right in judged.right)


# --- the whole audit of one model, or of two, on the splits of a task. ---

T = TypeVar("T")
_FORMAT = 1
_EXAMPLES_ONLY = "intervals cover the error of the examples alone: one model each says nothing about other seeds"


@dataclass(frozen=True, repr=False)
class Audit(Shown, says="conclusion"):
    """The results of an audit. `splits` holds the rows; everything else is computed from them."""

    task: str
    fingerprint: str
    models: tuple[str, ...]
    """The names of A, or of A and B."""
    splits: tuple[Judged, ...]
    scores: tuple[SplitScores, ...]
    sub_cases: tuple[_SubCase, ...]
    dependence: tuple[Dependence, ...]
    sides: tuple[_ShortcutSides, ...]
    loyalty: tuple[_Loyalty, ...]
    calibration: tuple[_Calibration, ...]
    contrast: tuple[RuleOutcome, ...] = ()
    groups: tuple[ModelGroups, ...] = ()
    """Worst-group and pair accuracy."""
    left_out: str = ""
    """A sentence that names groups which are too small for it."""
    notes: tuple[str, ...] = ()
    label_notes: tuple[str, ...] = ()
    """Those of the notes that say what was assumed about the labels of a model: if it is wrong, everything is."""
    conclusion: tuple[str, ...] = ()
    """Which model is better where, and how much each follows the shortcut, in sentences."""
    lead: tuple[str, ...] = ()
    """Sentences that stand before the conclusion, with commands in backticks."""

    @property
    def letters(self) -> tuple[str, ...]:
        return ("A", "B")[: len(self.models)]

    @property
    def rows(self) -> int:
        return sum(len(each.split) for each in self.splits)

    @property
    def disagreements(self) -> dict[str, int]:
        """The number of rows of each split on which the models disagree; of one model, its errors."""
        return {each.split.name: int(each.disagree.sum()) for each in self.splits}

    def _rows(self) -> list[Any]:
        """The scores of each split, A and B in columns of their own."""
        return [vars(each) | dict(zip(self.letters, each.scores, strict=True)) for each in self.scores]

    def to_json(self) -> dict[str, Any]:
        """Everything but the rows, which are in the csv."""
        values = {f.name: plain(getattr(self, f.name)) for f in dataclasses.fields(self) if f.name != "splits"}
        return {"format": _FORMAT, **values, "disagreements": self.disagreements}


def make_audit(
    task: Task,
    models: Sequence[Matched],
    logits: Mapping[str, Sequence[np.ndarray]],
    bias: Mapping[str, np.ndarray] | None = None,
    contrast: Sequence[RuleOutcome] = (),
    notes: Sequence[str] = (),
    lead: Sequence[str] = (),
) -> Audit:
    """Compare models by their logits, and by the bias model's log-probabilities, both by split."""
    splits = tuple(judge_split(task, task.splits[name], each, (bias or {}).get(name)) for name, each in logits.items())

    def by_split(measure: Callable[[Judged], Iterable[T]]) -> tuple[T, ...]:
        return tuple(found for each in splits for found in measure(each))

    scores = tuple(split_scores(each, task.metric) for each in splits)
    label_notes = tuple(each.note for each in models if each.note)
    return Audit(
        task.name,
        task.fingerprint,
        tuple(each.name for each in models),
        splits,
        scores,
        by_split(sub_cases),
        by_split(_dependences),
        by_split(_shortcut_sides),
        by_split(loyalty),
        by_split(_calibrations),
        tuple(contrast),
        *model_groups(task, splits),
        (*label_notes, *task.notes, _EXAMPLES_ONLY, *notes),
        label_notes,
        conclude(scores, splits),
        tuple(lead),
    )
