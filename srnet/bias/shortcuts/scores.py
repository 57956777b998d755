"""Probabilities of the labels that the user brings: a column, a table or an .npz file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from srnet.bias.given import check_rows, file_hash, read_given
from srnet.bias.shortcuts.base import FeatureOptions, Features, ShortcutKind, register
from srnet.bias.shortcuts.columns import column_hash
from srnet.core.errors import UserError, shortened
from srnet.tasks.base import Task
from srnet.tasks.shortcut import is_file
from srnet.tasks.splits import Split

_TOLERANCE = 1e-3
"""How far the sum of a row may be from 1: scores are often written with three or four digits."""
_SMALLEST = 1e-6
"""The least probability: a logarithm of 0 would exclude a label whatever a model says."""
_BETWEEN = re.compile(r"[\s,;\[\]()]+")


@register
class Scores(ShortcutKind):
    """Alone they are the bias model's answers as they are; beside other shortcuts their logarithms are features."""

    name = "scores"
    about = "probabilities of the user's own"
    sentence = "The suspected shortcut is what a bias model of the user's own has learned."
    noun = "your own bias model"
    argument = "COLUMN|FILE"
    of_texts = False
    gives_probabilities = True

    def columns(self, argument: str) -> tuple[str, ...]:
        return () if is_file(argument) else (argument,)

    def files(self, argument: str) -> tuple[str, ...]:
        return (argument,) if is_file(argument) else ()

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
        return f"{self.name}@{file_hash(argument) if is_file(argument) else column_hash(task, argument)}"

    def described(self, argument: str, vectors: str | None, extended: bool) -> str:
        return f"scores of {Path(argument).name}" if is_file(argument) else f"scores in column '{argument}'"


def _probabilities(task: Task, argument: str) -> dict[str, np.ndarray]:
    """Checked probabilities, by split."""
    found = read_given(task, argument, task.labels).by_split if is_file(argument) else _of_column(task, argument)
    return {name: _checked(task, argument, task.splits[name], each) for name, each in found.items()}


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


def _checked(task: Task, argument: str, split: Split, given: np.ndarray) -> np.ndarray:
    """Probabilities of all labels, or the error that says which row has none."""
    where = f"{argument}, {split.name}" if is_file(argument) else f"column '{argument}' of {split.name}"
    scores = given[:, None] if given.ndim == 1 else given
    if scores.ndim == 2 and scores.shape[1] == 1 and len(task.labels) == 2:
        scores = np.hstack([1.0 - scores, scores])
    check_rows(argument, split, scores)
    if scores.shape[1:] != (len(task.labels),):
        shape = " x ".join(map(str, given.shape[1:])) or "1"
        raise UserError(f"{where}: {shape} scores in a row do not fit {len(task.labels)} labels", _wanted(task))
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
