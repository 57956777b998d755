"""A survey of the shortcuts of a task: which cheap features predict the label, before any model is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from srnet.bias.candidates import LeftOut, candidates_of
from srnet.bias.measuring import Fit, Measured, Rows, fit_candidate, scores_of
from srnet.bias.shown_rows import ShownRow, rows_of
from srnet.core.errors import UserError
from srnet.core.tables import Shown, plain
from srnet.evaluation.significance import holm
from srnet.tasks.base import Task
from srnet.tasks.files import with_metadata

_CLOSE = 0.9
"""Kinds that explain at least this share of what the strongest explains are as good; the simplest of them is first."""
MOST_ROWS = 50_000
"""Training rows that are used. On SNLI the scores are within two points of those of 70,000; the ranking needs 2,000."""


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
        examples = rows_of(first)
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
