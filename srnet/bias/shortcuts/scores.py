"""Probabilities of the labels that the user brings: a column, a table or an .npz file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from srnet.bias.shortcuts.base import FeatureOptions, Features, ShortcutKind, register
from srnet.bias.shortcuts.columns import column_hash
from srnet.core.errors import UserError, reason, shortened
from srnet.core.files import require_readable, sha256
from srnet.tasks.base import Task
from srnet.tasks.reading import read_rows
from srnet.tasks.shortcut import is_file
from srnet.tasks.splits import Split

_TOLERANCE = 1e-3
"""How far the sum of a row may be from 1: scores are often written with three or four digits."""
_SMALLEST = 1e-6
"""The least probability: a logarithm of 0 would exclude a label whatever a model says."""
_SPLIT = "split"
_BETWEEN = re.compile(r"[\s,;\[\]()]+")


@register
class Scores(ShortcutKind):
    """Alone they are the bias model's answers as they are; beside other shortcuts their logarithms are features."""

    name: ClassVar[str] = "scores"
    about: ClassVar[str] = "probabilities of the user's own"
    sentence: ClassVar[str] = "The suspected shortcut is what a bias model of the user's own has learned."
    argument: ClassVar[str] = "COLUMN|FILE"
    of_texts: ClassVar[bool] = False
    gives_probabilities: ClassVar[bool] = True

    def columns(self, argument: str) -> tuple[str, ...]:
        return () if is_file(argument) else (argument,)

    def problem(self, task: Task, argument: str) -> str | None:
        found = _probabilities(task, argument)
        missing = [split.name for split in (task.train, task.dev) if split.name not in found]
        where = argument if is_file(argument) else f"column '{argument}'"
        return f"{where} has no scores for {missing[0]}" if missing else None

    def notes(self, task: Task, argument: str) -> tuple[str, ...]:
        found = _probabilities(task, argument)
        return tuple(f"{name}: no scores are given" for name in task.splits if name not in found)

    def fit(self, task: Task, argument: str, options: FeatureOptions) -> Features:
        found = self.log_probs(task, argument)

        def of(split: Split) -> np.ndarray:
            if split.name not in found:
                fix = "give them, or the scores alone"
                raise UserError(f"no scores are given for {split.name}, which other shortcuts are beside", fix)
            return found[split.name]

        return Features(tuple(f"log-probability of {label}" for label in task.labels), of)

    def log_probs(self, task: Task, argument: str) -> Mapping[str, np.ndarray]:
        found = {name: np.maximum(each, _SMALLEST) for name, each in _probabilities(task, argument).items()}
        return {name: np.log(each / each.sum(axis=1, keepdims=True)) for name, each in found.items()}

    def identity(self, task: Task, argument: str) -> str:
        if not is_file(argument):
            return f"{self.name}@{column_hash(task, argument)}"
        require_readable(Path(argument))
        if not Path(argument).is_file():
            raise UserError(f"scores {argument} do not exist", "check the path")
        return f"{self.name}@{sha256(Path(argument))[:16]}"

    def described(self, argument: str, vectors: str | None, extended: bool) -> str:
        return f"scores of {Path(argument).name}" if is_file(argument) else f"scores in column '{argument}'"


def _probabilities(task: Task, argument: str) -> dict[str, np.ndarray]:
    """Checked probabilities, by split."""
    read = _of_archive if argument.endswith(".npz") else _of_table if is_file(argument) else _of_column
    return {name: _checked(task, argument, task.splits[name], each) for name, each in read(task, argument).items()}


def _of_column(task: Task, column: str) -> dict[str, np.ndarray]:
    """A cell has one probability per label; of two labels, one number is the probability of the second."""
    splits = [split for split in task.splits.values() if column in split.columns]
    return {
        split.name: _stacked(_numbers(task, split, column), f"column '{column}' of {split.name}") for split in splits
    }


def _numbers(task: Task, split: Split, column: str) -> Iterable[list[float]]:
    for id, cell in zip(split.ids, split.columns[column], strict=True):
        try:
            yield [float(number) for number in _BETWEEN.split(cell) if number]
        except ValueError:
            what = f"column '{column}' of {split.name}, example '{id}': '{shortened(cell, 80)}'"
            raise UserError(f"{what} holds no probabilities", _wanted(task)) from None


def _stacked(rows: Iterable[Sequence[float]], where: str) -> np.ndarray:
    found = list(rows)
    lengths = {len(row) for row in found}
    if len(lengths) > 1:
        few, many = min(lengths), max(lengths)
        raise UserError(f"{where} has {few} numbers in some rows and {many} in others", "give one for each label")
    return np.array(found, np.float64).reshape(len(found), -1)


def _of_table(task: Task, path: str) -> dict[str, np.ndarray]:
    """A column `split` and one for each label, rows in the order of the split's rows."""
    found: dict[str, list[list[float]]] = {}
    for line, row in read_rows(path):
        absent = [name for name in (_SPLIT, *task.labels) if name not in row]
        if absent:
            fix = f"give the columns {', '.join((_SPLIT, *task.labels))}"
            raise UserError(f"{path}, line {line}: no column '{absent[0]}'", fix)
        try:
            found.setdefault(row[_SPLIT].strip(), []).append([float(row[label]) for label in task.labels])
        except ValueError as error:
            raise UserError(f"{path}, line {line}: {reason(error)}", "give numbers") from None
    _check_names(task, path, found)
    return {name: np.array(rows) for name, rows in found.items()}


def _of_archive(task: Task, path: str) -> dict[str, np.ndarray]:
    """One array per split."""
    require_readable(Path(path))
    try:
        with np.load(path, allow_pickle=False) as file:
            _check_names(task, path, file.files)
            return {name: np.asarray(file[name], np.float64) for name in file.files}
    except UserError:
        raise
    except FileNotFoundError:
        raise UserError(f"scores {path} do not exist", "check the path") from None
    except Exception as error:  # NumPy and zipfile have no common exception for damaged files
        raise UserError(
            f"cannot read {path}: {reason(error)}", "write it with numpy.savez, one array per split"
        ) from None


def _check_names(task: Task, path: str, names: Iterable[str]) -> None:
    unknown = [name for name in names if name not in task.splits]
    if unknown:
        raise UserError(f"{path}: '{shortened(unknown[0], 80)}' is not a split", f"splits: {', '.join(task.splits)}")


def _checked(task: Task, argument: str, split: Split, given: np.ndarray) -> np.ndarray:
    """Probabilities of all labels, or the error that says which row has none."""
    where = f"{argument}, {split.name}" if is_file(argument) else f"column '{argument}' of {split.name}"
    scores = given[:, None] if given.ndim == 1 else given
    if scores.ndim == 2 and scores.shape[1] == 1 and len(task.labels) == 2:
        scores = np.hstack([1.0 - scores, scores])
    if scores.shape != (len(split), len(task.labels)):
        shape = " x ".join(map(str, given.shape))
        needed = f"{len(split)} rows that are read and {len(task.labels)} labels"
        raise UserError(f"{where}: scores of shape {shape} do not fit {needed}", _wanted(task))
    outside = np.asarray(~((scores >= 0.0) & (scores <= 1.0)).all(axis=1))  # not: NaN is in no range
    wrong = outside | (np.abs(scores.sum(axis=1) - 1.0) > _TOLERANCE)
    if wrong.any():
        row = int(wrong.argmax())
        problem = "are not in 0..1" if outside[row] else f"sum to {scores[row].sum():.4g}, not to 1"
        values = ", ".join(f"{each:.4g}" for each in scores[row])
        raise UserError(f"{where}, example '{split.ids[row]}': the scores {values} {problem}", _wanted(task))
    return scores


def _wanted(task: Task) -> str:
    one = f", or one number: that of {task.labels[1]}" if len(task.labels) == 2 else ""
    return f"give the probabilities of {', '.join(task.labels)} in this order{one}"
