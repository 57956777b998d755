"""The whole audit of one model, or of two, on the splits of a task."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from srnet.audit.measures import (
    Calibration,
    Loyalty,
    SplitScores,
    SubCase,
    calibrations,
    loyalty,
    split_scores,
    sub_cases,
)
from srnet.audit.outcomes import RuleOutcome
from srnet.audit.rows import Judged, judge_split
from srnet.audit.shortcut import Dependence, ShortcutSides, dependences, shortcut_sides
from srnet.evaluation.significance import Interval
from srnet.models.model import Matched
from srnet.tasks.base import Task

T = TypeVar("T")
_FORMAT = 1
_EXAMPLES_ONLY = "intervals cover the error of the examples alone: one model each says nothing about other seeds"


@dataclass(frozen=True)
class Audit:
    """The results of an audit. `splits` holds the rows; everything else is computed from them."""

    task: str
    fingerprint: str
    models: tuple[str, ...]
    """The names of A, or of A and B."""
    splits: tuple[Judged, ...] = field(repr=False)
    scores: tuple[SplitScores, ...]
    sub_cases: tuple[SubCase, ...]
    dependence: tuple[Dependence, ...]
    sides: tuple[ShortcutSides, ...]
    loyalty: tuple[Loyalty, ...]
    calibration: tuple[Calibration, ...]
    contrast: tuple[RuleOutcome, ...] = ()
    notes: tuple[str, ...] = ()

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

    def to_json(self) -> dict[str, Any]:
        """Everything but the rows, which are in the csv."""
        values = {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self) if f.name != "splits"}
        return {"format": _FORMAT, **values, "disagreements": self.disagreements}


def make_audit(
    task: Task,
    models: Sequence[Matched],
    logits: Mapping[str, Sequence[np.ndarray]],
    bias: Mapping[str, np.ndarray] | None = None,
    contrast: Sequence[RuleOutcome] = (),
    notes: Sequence[str] = (),
) -> Audit:
    """Compare models by their logits, and by the bias model's log-probabilities, both by split."""
    splits = tuple(
        judge_split(task, task.splits[name], each, None if bias is None else bias[name])
        for name, each in logits.items()
    )

    def by_split(measure: Callable[[Judged], Iterable[T]]) -> tuple[T, ...]:
        return tuple(found for each in splits for found in measure(each))

    return Audit(
        task.name,
        task.fingerprint,
        tuple(each.name for each in models),
        splits,
        tuple(split_scores(each, task.metric) for each in splits),
        by_split(sub_cases),
        by_split(dependences),
        by_split(shortcut_sides),
        by_split(loyalty),
        by_split(calibrations),
        tuple(contrast),
        (*task.notes, *(each.note for each in models if each.note), _EXAMPLES_ONLY, *notes),
    )


def _plain(value: Any) -> Any:
    """The value for JSON: an interval as its bounds, a dataclass as its fields."""
    if isinstance(value, Interval):
        return {"value": value.difference, "low": value.low, "high": value.high, "level": value.level}
    if dataclasses.is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value
