"""Bias models of texts in memory, for a training loop of one's own. Nothing is written to disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from srnet.api.features import FunctionOfRows
from srnet.bias.carriers import Binary, find_carriers
from srnet.bias.model import BiasScorer, cross_fit
from srnet.bias.shortcuts.base import KINDS, Part, parse_shortcut
from srnet.config.values import shown
from srnet.core.errors import UserError
from srnet.core.lists import with_commas
from srnet.evaluation.metrics import score_split
from srnet.tasks.base import Task
from srnet.tasks.leaks import TextKeys
from srnet.tasks.memory import plain
from srnet.tasks.reading import as_text, broken_character
from srnet.tasks.splits import Split


_NAMES = ("text_a", "text_b")


class BiasScore(NamedTuple):
    """Percent of the rows that the cross-fitted answers get right, and that the most frequent label does."""

    accuracy: float
    majority: float


@dataclass(frozen=True, repr=False)
class FittedBias:
    """A bias model of `srnet.fit_bias`, with its answers about the rows that it was fitted on."""

    shortcut: str
    """What it reads."""
    labels: tuple[Any, ...]
    """The label of each column of `log_probs`."""
    log_probs: np.ndarray
    """Rows x labels. Every row is scored by a model that was not fitted on it."""
    score: BiasScore
    _task: Task
    _parts: tuple[Part, ...]
    _texts: tuple[str, ...]
    _scorer: BiasScorer

    def __repr__(self) -> str:
        right, majority = self.score
        of = f"{len(self.log_probs):,} rows right, {majority:.1f} % have the most frequent label"
        return f"FittedBias({self.shortcut}: {right:.1f} % of {of})"

    def predict(self, texts: Any, *, texts_b: Any = None, columns: Any = None) -> np.ndarray:
        """Log-probabilities of the model of all rows for new texts, which are given as to `fit_bias`: rows x labels."""
        split, names = _split("new", texts, texts_b, columns)
        absent = [name for part in self._parts for name in part.columns if name not in split.columns]
        if len(names) != len(self._texts) or absent:
            fitted_on = " and ".join((*self._texts, *absent))
            raise UserError(f"texts are not those of the bias model, which was fitted on {fitted_on}", "give the same")
        return self._scorer.of(split)

    def explain(self, most: int = 12) -> Any:
        """What carries the shortcut: a DataFrame of the features that certainly go with a label, the strongest first.

        It has `most` rows at most: a feature, its label, how many rows have it, which share of all (percent), how many
        of them have the label (percent), how many times as often as all rows (lift), and p of Fisher's exact test,
        corrected for all features and labels. Equal texts are counted once.
        """
        import pandas as pd  # not at the top: it is slow to import

        features, train, names = self._scorer.features, self._task.train, self._task.labels
        x, once = features.of(train), np.sort(np.unique(TextKeys.of(train).rows, return_index=True)[1])
        rows = once if all(part.kind.of_texts for part in self._parts) else np.arange(len(train))
        binary = Binary(features.names, x)
        found = find_carriers(binary.names, binary.of(x[rows]), train.labels[rows], names, most)
        cells = [(c.feature, c.label, c.rows, c.share, c.labels[names.index(c.label)], c.lift, c.p) for c in found]
        return pd.DataFrame(cells, columns=["feature", "label", "rows", "share", "with label", "lift", "p"]).round(3)


def fit_bias(
    texts: Any,
    labels: Any,
    shortcut: str | Sequence[str] | Callable[[Any], Any] | None = None,
    *,
    texts_b: Any = None,
    columns: Any = None,
    label_order: Sequence[Any] | None = None,
    folds: int = 5,
) -> FittedBias:
    """Fit a bias model to texts in memory: a cross-fitted linear model of a suspected shortcut.

        bias = srnet.fit_bias(texts, labels)
        loss = srnet.losses.poe(logits, y, bias=bias.log_probs[rows])

    `texts` is a list, a Series, an array or a column of a dataset, of texts or of pairs of texts, or a DataFrame with
    one or two columns; the second texts may also be `texts_b`. `labels` are texts, whole numbers or booleans. Sorted,
    they are the columns of `log_probs`; give `label_order` if the outputs of your model are in another order.

    `shortcut` is `words`, `length`, of pairs `overlap` or `claim`, the name of a column, several of these, or a
    function of a DataFrame with the texts (under their names, or `text_a` and `text_b`) and `columns` that returns
    numbers for each row. `columns` is a DataFrame or a dict of further columns. By default the shortcut is all of them,
    or else the words. `folds` is the number of parts of the cross-fitting.
    """
    given, names = _split("train", texts, texts_b, columns)
    classes, numbers = _classes(labels, label_order, len(given))
    train = replace(given, labels=numbers)
    dev = replace(train.take(np.arange(1)), name="dev")  # a task has one; it changes nothing
    task = Task("texts", tuple(map(str, classes)), "accuracy", "words", train, dev, {})
    parts = _parts(shortcut, train, names)
    crossed, scorer = cross_fit(task, parts, folds=folds)
    found = score_split(task, train, crossed)
    score = BiasScore(found["metrics"]["accuracy"], found["majority"]["accuracy"])
    return FittedBias(with_commas(part.text for part in parts), classes, crossed, score, task, parts, names, scorer)


def _parts(shortcut: Any, train: Split, texts: tuple[str, ...]) -> tuple[Part, ...]:
    if callable(shortcut):
        return (Part(FunctionOfRows(shortcut, texts)),)
    if shortcut is None and train.columns:
        return tuple(Part(KINDS["columns"], name) for name in sorted(train.columns))
    parts = parse_shortcut(shortcut or "words")
    for part in parts:
        known = part.columns[0] in train.columns if part.kind.name == "columns" else part.kind.of_texts
        if not known or not part.kind.is_linear:
            kinds = [name for name, kind in KINDS.items() if kind.of_texts and kind.is_linear]
            raise UserError(
                f"unknown shortcut '{part.argument or part.text}' for texts",
                f"choose among {', '.join((*kinds, *train.columns))}, or give it in columns",
            )
    return parts


# --- what is given, as a split -------------------------------------------------------------------------------------


def _split(name: str, texts: Any, texts_b: Any, columns: Any) -> tuple[Split, tuple[str, ...]]:
    """The rows, without labels, and the names of their texts."""
    sides = _sides(texts, texts_b)
    names = tuple(str(getattr(side, "name", None) or default) for side, default in zip(sides, _NAMES, strict=False))
    cells = {what: _texts(what, side) for what, side in zip(("texts", "texts_b"), sides, strict=False)}
    further = {str(name): _cells(f"columns['{name}']", each) for name, each in _columns(columns).items()}
    size = len(cells["texts"])
    for what, each in {**further, **cells}.items():
        _require_rows(what, len(each), size)
    ids, blank = tuple(map(str, range(size))), ("",) * size
    second = cells.get("texts_b", blank)
    split = Split(name, "ID", ids, cells["texts"], second, np.zeros(size, np.int64), blank, columns=further)
    return split, names


def _sides(texts: Any, texts_b: Any) -> list[Any]:
    """The first texts, and the second ones if there are any."""
    sides = list(_columns(texts).values()) if hasattr(texts, "iloc") and texts.ndim == 2 else [texts]
    if len(sides) == 1:
        rows = _listed("texts", sides[0])
        if all(isinstance(row, tuple | list) and len(row) == 2 for row in rows):
            sides = [list(side) for side in zip(*rows, strict=True)]
    sides += [] if texts_b is None else [texts_b]
    if not 1 <= len(sides) <= 2:
        raise UserError(f"texts are {len(sides)} for each row", "give one text or two")
    return sides


def _texts(name: str, values: Any) -> tuple[str, ...]:
    texts = _listed(name, values)
    for n, text in enumerate(texts):
        if not isinstance(text, str) or not text.strip():
            raise UserError(f"{name}[{n}] is {shown(text)}", "give a text that is not empty, or leave the row out")
        if problem := broken_character(text):
            raise UserError(f"{name}[{n}] has {problem}", "remove it")
    return tuple(map(str.strip, texts))


def _columns(table: Any) -> dict[Any, Any]:
    if hasattr(table, "iloc") and table.ndim == 2:
        return {name: table.iloc[:, n] for n, name in enumerate(table.columns)}
    if table is not None and not isinstance(table, Mapping):
        raise UserError(f"columns is {shown(table)}", "give a DataFrame, or a dict with a list for each column")
    return dict(table or {})


def _cells(name: str, values: Any) -> tuple[str, ...]:
    """As a file of them would have them."""
    return tuple(as_text(plain(value)) or "" for value in _listed(name, values))


def _classes(labels: Any, order: Sequence[Any] | None, size: int) -> tuple[tuple[Any, ...], np.ndarray]:
    """The different labels in the order of columns, and the column of each row."""
    found = [_label(n, value) for n, value in enumerate(_listed("labels", labels))]
    _require_rows("labels", len(found), size)
    different = set(found)
    if len({type(each) for each in different}) > 1 or len(different) < 2:
        raise UserError(f"labels are {shown(sorted(different, key=str))}", "give two classes or more of one type")
    classes = tuple(sorted(different) if order is None else order)
    if unknown := different - set(classes):
        raise UserError(f"label {shown(unknown.pop())} is not in label_order", "name every label once")
    return classes, np.array([classes.index(each) for each in found])


def _label(n: int, value: Any) -> Any:
    found = plain(value)
    found = found.strip() if isinstance(found, str) else found
    found = int(found) if isinstance(found, float) and found.is_integer() else found  # a column with a gap had floats
    if not isinstance(found, str | int) or found in ("", -100):
        raise UserError(f"labels[{n}] is {shown(value)}", "give a text or a whole number, or leave the row out")
    return found


def _listed(name: str, values: Any) -> list[Any]:
    is_rows = isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping)
    found = (values.tolist() if hasattr(values, "tolist") else list(values)) if is_rows else None
    if not isinstance(found, list) or not found:
        raise UserError(
            f"{name} is {shown(values)}", "give a list, a Series or an array with one for each of the texts"
        )
    return found


def _require_rows(name: str, rows: int, size: int) -> None:
    if rows != size:
        raise UserError(f"{name} has {rows:,} rows, and texts has {size:,}", "give one for each of the texts")
