"""A shortcut that is a Python function of rows. Its features are kept in the store, so that models can use it later."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from srnet.bias.given import SPLIT
from srnet.bias.numbers import LARGEST, beyond
from srnet.bias.shortcuts.base import PLAIN, FeatureOptions, Features, ShortcutKind
from srnet.core.errors import UserError, reason, shortened
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.base import TaskSpec, load_task
from srnet.tasks.base import Task
from srnet.tasks.files import with_metadata
from srnet.tasks.shortcut import written
from srnet.tasks.splits import Split


def shortcut_from(task: TaskSpec, function: Callable[[Any], Any], *, engine: Engine | None = None) -> str:
    """A shortcut of `task` that is a function of rows, as `shortcut` of `BiasSpec`, of a task or of a recipe.

    `function` gets the rows of one split at a time as a pandas DataFrame: the texts under the names of their columns
    (`text_a` and `text_b` for a task that is not from files), and every further column; cells that are all numbers are
    numbers. It does not get the labels. It returns one number or several for each row: an array, a Series or a
    DataFrame, whose columns then name the features.

        by_length = srnet.shortcut_from(task, lambda rows: rows["review"].str.len())
        srnet.bias_model(task, srnet.BiasSpec(shortcut=by_length))

    The features are written to the store of `engine` once, by their content.
    """
    engine = engine or Engine()
    data = load_task(with_metadata(task))
    features = FunctionOfRows(function, _texts(task, data)).fit(data)
    lines = [
        json.dumps({SPLIT: name, **dict(zip(features.names, row, strict=True))}) + "\n"
        for name, split in data.splits.items()
        for row in features.of(split).tolist()
    ]
    file = engine.store.open().data.add("features", "".join(lines).encode())
    return written((f"features:{file}",))


def _texts(task: TaskSpec, data: Task) -> tuple[str, ...]:
    """The names of the texts: of the user's own columns, where each has one name."""
    names = [getattr(task, side, None) for side in ("text_a", "text_b")]
    own = [name if name and "|" not in name else side for name, side in zip(names, ("text_a", "text_b"), strict=True)]
    return tuple(own if data.has_pairs else own[:1])


class FunctionOfRows(ShortcutKind):
    """A shortcut that is a function of rows; `texts` are the names under which it finds the texts."""

    name: ClassVar[str] = "function"
    of_texts: ClassVar[bool] = False

    def __init__(self, function: Callable[[Any], Any], texts: tuple[str, ...]) -> None:
        self._function, self._texts = function, texts

    def fit(self, task: Task, argument: str = "", options: FeatureOptions = PLAIN) -> Features:
        numbers = {name for name, cells in task.train.columns.items() if _are_numbers(cells)}
        names, trained = self._called(task.train, numbers)

        def of(split: Split) -> np.ndarray:
            found, values = (names, trained) if split is task.train else self._called(split, numbers)
            if found != names:
                problem = f"the function returns other features for {split.name}: {found}, and {names} for train"
                raise UserError(shortened(problem), "return the same ones")
            return values

        return Features(names, of)

    def _called(self, split: Split, numbers: set[str]) -> tuple[tuple[str, ...], np.ndarray]:
        """The names of the features, and their values."""
        try:
            given = self._function(_rows(split, self._texts, numbers))
            values = np.asarray(given, np.float64)
        except Exception as error:  # the user's own code
            why = f"{type(error).__name__}: {reason(error)}"
            raise UserError(f"the function fails on {split.name} ({why})", "correct it") from error
        values = _checked(split, values)
        return _names(given, values.shape[1]), values


def _checked(split: Split, given: np.ndarray) -> np.ndarray:
    values = given[:, None] if given.ndim == 1 else given
    if values.ndim != 2 or len(values) != len(split) or not values.shape[1]:
        shape = " x ".join(map(str, given.shape)) or "a single number"
        fix = "return one number or one row of numbers for each row"
        raise UserError(f"the function returns {shape} for the {len(split):,} rows of {split.name}", fix)
    if (wrong := beyond(values)).any():
        id = split.ids[int(wrong.argmax())]
        problem = f"a number that is not finite, or {LARGEST:g} or more,"
        raise UserError(f"the function returns {problem} for '{id}' of {split.name}", "replace it")
    return values


def _names(given: Any, width: int) -> tuple[str, ...]:
    named = [str(name) for name in getattr(given, "columns", ())] or [str(getattr(given, "name", None) or "")]
    usable = len(named) == width == len({*named, SPLIT}) - 1 and all(named)
    return tuple(named) if usable else tuple(f"feature {n}" for n in range(1, width + 1))


def _rows(split: Split, texts: tuple[str, ...], numbers: set[str]) -> Any:
    import pandas as pd  # not at the top: it is slow to import

    columns: dict[str, Any] = dict(zip(texts, (split.text_a, split.text_b), strict=False))
    rows = pd.DataFrame({**columns, **split.columns})
    for name in numbers & set(rows.columns):
        rows[name] = pd.to_numeric(rows[name], errors="coerce")
    return rows


def _are_numbers(cells: tuple[str, ...]) -> bool:
    try:
        return any(cells) and bool([float(cell) for cell in cells if cell])
    except ValueError:
        return False
