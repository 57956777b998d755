"""Metadata: a column beside the texts, with categories or numbers. No model that is trained sees it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from srnet.bias.numbers import Numbers
from srnet.bias.shortcuts.base import FeatureOptions, Features, ShortcutKind, register
from srnet.core.errors import UserError, shortened
from srnet.tasks.base import Task
from srnet.tasks.reading import Nested
from srnet.tasks.splits import Split

_RARE = 5
"""A value in fewer training rows than this says little; such values are one category."""
_MISSING = "(empty)"
_POOLED = "(rare)"


@register
class Columns(ShortcutKind):
    """A column of numbers, if all its training cells are numbers; otherwise of categories."""

    name = "columns"
    about = "a column beside the texts"
    sentence = "The suspected shortcut is in metadata, a column beside the texts."
    noun = "the column {}"
    argument = "COLUMN"
    of_texts = False

    def columns(self, argument: str) -> tuple[str, ...]:
        return (argument,)

    def problem(self, task: Task, argument: str) -> str | None:
        for split in task.splits.values():
            if argument not in split.columns:
                return f"column '{argument}' is missing in {split.name}"
            if any(type(cell) is Nested for cell in split.columns[argument]):
                return f"column '{argument}' of {split.name} holds lists or objects; give one value per row"
        return _fitted(task, argument).problem(task)

    def notes(self, task: Task, argument: str) -> tuple[str, ...]:
        return _fitted(task, argument).notes(task)

    def fit(self, task: Task, argument: str, options: FeatureOptions) -> Features:
        fitted = _fitted(task, argument)
        return Features(fitted.names, lambda split: fitted.matrix(split))

    def identity(self, task: Task, argument: str) -> str:
        return f"{self.name}:{argument}@{column_hash(task, argument)}"

    def described(self, argument: str, vectors: str | None, extended: bool) -> str:
        return f"column '{argument}'"


def column_hash(task: Task, column: str) -> str:
    """A hash of a column of every split."""
    digest = hashlib.sha256()
    for name, split in task.splits.items():
        digest.update("\0".join((name, *split.columns.get(column, ()))).encode())
    return digest.hexdigest()[:16]


# --- the two kinds of columns --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Categories:
    """Each value is a feature; rare ones, and then also those of OOD sets that train lacks, are one."""

    column: str
    values: tuple[str, ...]
    pools: bool

    @classmethod
    def of(cls, column: str, cells: Sequence[str]) -> _Categories:
        counts = Counter(cells)
        common = tuple(sorted(value for value, count in counts.items() if count >= _RARE))
        return cls(column, common, len(common) < len(counts))

    @property
    def names(self) -> tuple[str, ...]:
        values = [value or _MISSING for value in self.values] + [_POOLED] * self.pools
        return tuple(f"{self.column}={value}" for value in values)

    def matrix(self, split: Split) -> Any:
        from scipy.sparse import csr_matrix

        place = {value: n for n, value in enumerate(self.values)}
        other = len(self.values) if self.pools else -1
        found = np.array([place.get(cell, other) for cell in split.columns[self.column]], np.int32)
        ends = np.concatenate([[0], np.cumsum(found >= 0)])
        found = found[found >= 0]
        return csr_matrix((np.ones(len(found)), found, ends), (len(split), len(self.names)))

    def problem(self, task: Task) -> str | None:
        if not self.values:
            return f"column '{self.column}' says nothing: no value is in {_RARE} rows of {task.train.name}"
        if len(self.names) < 2:
            return f"column '{self.column}' says nothing: it has the same value in all rows of {task.train.name}"
        if unseen := self._unseen(task, task.dev):
            has = f"has '{shortened(unseen[0], 80) or _MISSING}' in {task.dev.name}, and never in {task.train.name}"
            if 2 * len(self.values) < len(set(task.train.columns[self.column])):
                return f"column '{self.column}' looks like an identifier: most values are rare, and it {has}"
            return (
                f"column '{self.column}' {has}: add training rows with it, or write the value as one that "
                f"{task.train.name} has"
            )
        return None

    def notes(self, task: Task) -> tuple[str, ...]:
        others = [(split.name, self._unseen(task, split)) for split in task.splits.values()]
        return tuple(
            f"{name}: column '{self.column}' has {len(unseen):,} values that {task.train.name} lacks, such as "
            f"'{shortened(unseen[0], 80) or _MISSING}'; they {'count as rare' if self.pools else 'say nothing'}"
            for name, unseen in others
            if unseen
        )

    def _unseen(self, task: Task, split: Split) -> list[str]:
        return sorted(set(split.columns[self.column]) - set(task.train.columns[self.column]))


@dataclass(frozen=True)
class _NumberColumn:
    """A number, which may be missing."""

    column: str
    numbers: Numbers

    @property
    def names(self) -> tuple[str, ...]:
        return self.numbers.names

    def matrix(self, split: Split) -> Any:
        return self.numbers.matrix(self._values(split))

    def problem(self, task: Task) -> str | None:
        if self.numbers.limits[0] == self.numbers.limits[1]:
            return f"column '{self.column}' says nothing: it has the same number in all rows of {task.train.name}"
        missing = {split.name: bool(np.isnan(self._values(split)).any()) for split in task.splits.values()}
        if missing[task.dev.name] and not missing[task.train.name]:
            return (
                f"column '{self.column}' has empty cells in {task.dev.name}, and none in {task.train.name}: fill them"
            )
        return None

    def notes(self, task: Task) -> tuple[str, ...]:
        return ()

    def _values(self, split: Split) -> np.ndarray:
        numbers = [_number(cell) for cell in split.columns[self.column]]
        wrong = next((n for n, each in enumerate(numbers) if each is None), None)
        if wrong is not None:
            cell = shortened(split.columns[self.column][wrong], 80)
            raise UserError(
                f"column '{self.column}' of {split.name}, example '{split.ids[wrong]}': '{cell}' is not a number, as "
                "all of the training data are",
                "correct it",
            )
        return np.array(numbers, np.float64)


def _fitted(task: Task, column: str) -> _Categories | _NumberColumn:
    cells = task.train.columns[column]
    numbers = [_number(cell) for cell in cells]
    known = [each for each in numbers if each is not None]
    if len(known) < len(cells) or np.isnan(known).all():
        return _Categories.of(column, cells)
    return _NumberColumn(column, Numbers.of(column, np.array(known)))


def _number(cell: str) -> float | None:
    """The number in a cell; NaN if it is empty, None if it holds anything else."""
    try:
        value = float(cell or "nan")
    except ValueError:
        return None
    return None if np.isinf(value) else value
