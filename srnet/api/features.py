"""A shortcut that is a Python function of rows. Its features are kept in the store, so that models can use it later."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from srnet.bias.given import SPLIT
from srnet.bias.numbers import LARGEST, beyond
from srnet.core.errors import UserError, reason
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.base import TaskSpec, load_task
from srnet.tasks.base import Task
from srnet.tasks.metadata import with_metadata
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
    names, found = _features(data, _texts(task, data), function)
    lines = [
        json.dumps({SPLIT: split, **dict(zip(names, row, strict=True))}) + "\n"
        for split, rows in found.items()
        for row in rows.tolist()
    ]
    file = engine.store.open().data.add("features", "".join(lines).encode())
    return written((f"features:{file}",))


def _texts(task: TaskSpec, data: Task) -> tuple[str, ...]:
    """The names of the texts: of the user's own columns, where each has one name."""
    names = [getattr(task, side, None) for side in ("text_a", "text_b")]
    own = [name if name and "|" not in name else side for name, side in zip(names, ("text_a", "text_b"), strict=True)]
    return tuple(own if data.has_pairs else own[:1])


def _features(
    task: Task, texts: tuple[str, ...], function: Callable[[Any], Any]
) -> tuple[tuple[str, ...], dict[str, np.ndarray]]:
    """The names of the features, and their values by split."""
    numbers = {name for name, cells in task.train.columns.items() if _are_numbers(cells)}
    found, names = dict[str, np.ndarray](), set[tuple[str, ...]]()
    for split in task.splits.values():
        try:
            given = function(_rows(split, texts, numbers))
            values = np.asarray(given, np.float64)
        except Exception as error:  # the user's own code
            why = f"{type(error).__name__}: {reason(error)}"
            raise UserError(f"the function fails on {split.name} ({why})", "correct it") from error
        found[split.name] = _checked(split, values)
        names.add(_names(given, found[split.name].shape[1]))
    if len(names) > 1:
        raise UserError(f"the function returns other features for some splits: {sorted(names)}", "return the same ones")
    return names.pop(), found


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
