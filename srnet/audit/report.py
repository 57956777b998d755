"""The whole audit: everything that is known of one model, or of two, on the splits of a task."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
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
from srnet.audit.rows import Judged, disagree, judge_split
from srnet.audit.shortcut import Dependence, ShortcutSides, over_bias_confidence, over_word_overlap, shortcut_sides
from srnet.evaluation.significance import Interval
from srnet.models.model import Matched
from srnet.tasks.base import Task

T = TypeVar("T")
FORMAT = 1
EXAMPLES_ONLY = "intervals know the error of the examples alone: one model each says nothing about other seeds"


@dataclass(frozen=True)
class Audit:
    """What was found. `splits` holds the rows; everything else is computed from them."""

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
        """How many rows of each split the models disagree on; of one model, its errors."""
        return {each.split.name: int(disagree(each).sum()) for each in self.splits}

    def to_json(self) -> dict[str, Any]:
        """Everything but the rows, which are in the csv."""
        values = {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self) if f.name != "splits"}
        return {"format": FORMAT, **values, "disagreements": self.disagreements}


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
    return Audit(
        task.name,
        task.fingerprint,
        tuple(each.name for each in models),
        splits,
        tuple(split_scores(each, task.metric) for each in splits),
        tuple(case for each in splits for case in sub_cases(each)),
        _those(over(each) for each in splits for over in (over_bias_confidence, over_word_overlap)),
        _those(map(shortcut_sides, splits)),
        _those(map(loyalty, splits)),
        tuple(table for each in splits for table in calibrations(each)),
        tuple(contrast),
        (*task.notes, *(each.note for each in models if each.note), EXAMPLES_ONLY, *notes),
    )


def _those(found: Iterable[T | None]) -> tuple[T, ...]:
    return tuple(each for each in found if each is not None)


def _plain(value: Any) -> Any:
    """For JSON; an interval says its bounds."""
    if isinstance(value, Interval):
        return {"value": value.difference, "low": value.low, "high": value.high, "level": value.level}
    if isinstance(value, SubCase):
        return _fields(value) | {"accuracy": list(value.accuracy)}
    if dataclasses.is_dataclass(value):
        return _fields(value)
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return {key: _plain(each) for key, each in value.items()} if isinstance(value, dict) else value


def _fields(value: Any) -> dict[str, Any]:
    return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
