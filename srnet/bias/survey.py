"""A survey of the shortcuts of a task: which cheap features predict the label, before any model is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from srnet.bias.candidates import LeftOut, candidates_of
from srnet.bias.measuring import EARLY_ROWS, Fit, Measured, Rows, fit_candidate, fit_early, scores_of
from srnet.core.errors import UserError
from srnet.core.tables import Shown, plain
from srnet.evaluation.significance import holm
from srnet.tasks.base import Task
from srnet.tasks.files import with_metadata
from srnet.tasks.splits import Split

_CLOSE = 0.9
"""Kinds that explain at least this share of what the strongest explains are as good; the simplest of them is first."""
MOST_ROWS = 50_000
"""Training rows that are used. On SNLI the scores are within two points of those of 70,000; the ranking needs 2,000."""
_EACH = 3
"""Rows of a split that are shown."""
_REASONS = 4
"""Features of a row that are named."""


@dataclass(frozen=True)
class ShownRow:
    """A row, and the answer of the shortcut alone."""

    split: str
    id: str
    text_a: str
    text_b: str
    label: str
    answer: str
    probability: float
    """Of the answer, in percent."""
    because: tuple[str, ...]
    """Features of the row that go with the answer, the strongest first."""
    is_right: bool


@dataclass(frozen=True, repr=False)
class Survey(Shown, says="sentence", table="kinds"):
    """The kinds of shortcuts of a task, the strongest first, and what carries the first."""

    task: str
    metric: str
    labels: tuple[str, ...]
    label_shares: tuple[float, ...]
    """In the training data, in percent."""
    rows: Mapping[str, int]
    """By split: train, dev, and the test sets."""
    majority: Mapping[str, float]
    """The metric of the most frequent label, by scored split."""
    kinds: tuple[Measured, ...]
    left_out: tuple[LeftOut, ...]
    examples: tuple[ShownRow, ...] = ()
    """Rows that show the first kind, if it is a shortcut."""
    notes: tuple[str, ...] = ()
    train: str = "train"
    """The name of the training split."""
    dev: str = "dev"

    @property
    def found(self) -> tuple[Measured, ...]:
        """The kinds that are shortcuts, the strongest first."""
        return tuple(each for each in self.kinds if each.is_shortcut)

    @property
    def best(self) -> str | None:
        """The strongest shortcut as --shortcut takes it, or None."""
        return next((each.shortcut for each in self.found if not each.obstacle), None)

    @property
    def sentence(self) -> str:
        """What was found, in one sentence."""
        from srnet.bias.survey_tables import sentence_of

        return sentence_of(self)

    def to_json(self) -> dict[str, Any]:
        return {"sentence": self.sentence, "best": self.best, **plain(vars(self))}


def survey(task: Any) -> Survey:
    """Measure every kind of shortcut on a task, or on a description of one. Dev decides; OOD sets are only scored."""
    data: Task = task if isinstance(task, Task) else with_metadata(task).load()
    data.need_classes("a survey of shortcuts")
    notes = [*data.notes]
    if len(data.train) > MOST_ROWS:
        notes.append(f"{data.train.name}: fitted on {MOST_ROWS:,} of {len(data.train):,} rows")
    used = replace(data, train=data.train.sample(MOST_ROWS), ood_train=None, ideal={})
    fits, left_out = _fit_all(used)
    kinds = _ranked(fits)
    examples: tuple[ShownRow, ...] = ()
    if kinds and kinds[0].is_shortcut:
        first = next(fit for fit in fits if fit.candidate.shortcut == kinds[0].shortcut)
        examples = _rows_that_show(first)
    counts = np.bincount(used.train.labels, minlength=len(data.labels))
    if (counts > 0).sum() < 2:
        notes.append(f"{data.train.name} has one label only, so nothing can predict it")
    constant = np.zeros((1, len(data.labels)))
    return Survey(
        task=data.name,
        metric=data.metric,
        labels=data.labels,
        label_shares=tuple((100.0 * counts / counts.sum()).tolist()),
        rows={name: len(data.splits[name]) for name in (data.train.name, *data.scored)},
        majority={name: scores_of(data, name, constant.repeat(len(data.splits[name]), 0))[1] for name in data.scored},
        kinds=kinds,
        left_out=left_out,
        examples=examples,
        notes=tuple(notes),
        train=data.train.name,
        dev=data.dev.name,
    )


def _fit_all(task: Task) -> tuple[list[Fit], tuple[LeftOut, ...]]:
    if len(np.unique(task.train.labels)) < 2:
        return [], ()
    candidates, left_out = candidates_of(task)
    rows, fits = Rows.of(task), []
    for candidate in candidates:
        try:
            fits.append(fit_candidate(candidate, rows))
        except UserError as error:  # such as: no word occurs twice
            left_out.append(LeftOut(candidate.shortcut, str(error)))
    return fits, tuple(left_out)


def _ranked(fits: Sequence[Fit]) -> tuple[Measured, ...]:
    """Shortcuts before other kinds, and by what they explain; of those about as good, the simplest is the first."""
    corrected = holm([fit.measured.p for fit in fits])
    kinds = [replace(fit.measured, p=p) for fit, p in zip(fits, corrected, strict=True)]
    kinds.sort(key=lambda each: (each.is_shortcut, each.explained), reverse=True)
    close = [each for each in kinds if each.is_shortcut and each.explained >= _CLOSE * kinds[0].explained]
    first = min(close, key=lambda each: each.features, default=None)
    return tuple([first, *(each for each in kinds if each is not first)] if first else kinds)


# --- rows that show a shortcut: where it is right, and where it misleads ---


def _rows_that_show(fit: Fit) -> tuple[ShownRow, ...]:
    """Training rows where the shortcut is right; then rows where it misleads: of dev, and of its worst OOD set."""
    task = fit.candidate.task
    worst = min(task.ood, key=lambda name: fit.measured.scores[name], default=None)
    wrong = [(task.splits[name], fit.answers[name]) for name in (task.dev.name, worst) if name is not None]
    misled = [row for split, answers in wrong for row in _shown(fit, split, answers, right=False)]
    return (*_shown(fit, *_unseen(fit), right=True), *misled)


def _unseen(fit: Fit) -> tuple[Split, np.ndarray]:
    """Some training rows, and the answers of a fit on others."""
    task = fit.candidate.task
    train = task.train.take(np.random.default_rng(0).permutation(len(task.train))[: 2 * EARLY_ROWS])
    half = len(train) // 2
    x = fit.features.of(train)
    return train.take(np.arange(half, len(train))), fit_early(x[:half], train.labels[:half], len(task.labels))(x[half:])


def _shown(fit: Fit, split: Split, log_probs: np.ndarray, right: bool) -> tuple[ShownRow, ...]:
    task = fit.candidate.task
    classes = task.classes_of(split)
    answers = task.answer_kind.decode(split, log_probs)
    certainty = np.exp(log_probs.max(axis=1))
    matching = np.flatnonzero((answers == split.labels) == right)
    rows = _spread(matching[np.argsort(-certainty[matching], kind="stable")], split)
    reasons = _reasons(fit, split.take(rows), log_probs[rows].argmax(axis=1))
    return tuple(
        ShownRow(
            split=split.name,
            id=split.ids[row],
            text_a=split.text_a[row],
            text_b=split.text_b[row],
            label=classes[split.labels[row]],
            answer=classes[answers[row]],
            probability=100.0 * float(certainty[row]),
            because=because,
            is_right=right,
        )
        for row, because in zip(rows, reasons, strict=True)
    )


def _spread(rows: np.ndarray, split: Split) -> np.ndarray:
    """The first row of every label, then the next ones; equal texts once."""
    seen: set[tuple[str, str]] = set()
    ranked: dict[int, int] = {}
    keyed: list[tuple[int, int, int]] = []
    for row in rows[: 200 * _EACH].tolist():
        texts = (split.text_a[row], split.text_b[row])
        if texts not in seen:
            seen.add(texts)
            label = int(split.labels[row])
            ranked[label] = ranked.get(label, 0) + 1
            keyed.append((ranked[label], len(keyed), row))
    return np.array([row for _, _, row in sorted(keyed)[:_EACH]], np.int64)


def _reasons(fit: Fit, split: Split, answers: np.ndarray) -> list[tuple[str, ...]]:
    """For each row, those of its features that go with the answer."""
    if not len(split):
        return []
    strength = {(each.feature, each.label): place for place, each in enumerate(fit.carriers)}
    names, x = fit.binary.names, fit.binary.of(fit.features.of(split))
    labels = fit.candidate.task.labels
    found = []
    for row, answer in enumerate(answers):
        held = [(names[column], labels[answer]) for column in x[[row]].indices]
        known = sorted((strength[each], each[0]) for each in held if each in strength)
        found.append(tuple(name for _, name in known[:_REASONS]))
    return found
