"""Bias models of texts in memory, for a training loop of one's own. Nothing is written to disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any

import numpy as np

from srnet.api.features import FunctionOfRows
from srnet.bias.carriers import Binary, find_carriers
from srnet.bias.model import BiasScorer, cross_fit
from srnet.bias.shortcuts.base import KINDS, Part, parse_shortcut
from srnet.config.values import shown
from srnet.core.errors import UserError
from srnet.core.lists import with_commas
from srnet.evaluation.metrics import score_split
from srnet.tasks.answers.classes import CLASSES
from srnet.tasks.base import Task
from srnet.tasks.layout import ALL_COLUMNS, Layout
from srnet.tasks.leaks import TextKeys
from srnet.tasks.memory import json_lines
from srnet.tasks.reading import json_rows
from srnet.tasks.splits import Split

_TEXTS, _LABEL = ("text_a", "text_b"), "(label)"


@dataclass(frozen=True, repr=False)
class FittedBias:
    """A bias model of `srnet.fit_bias`, with its answers about the rows that it was fitted on."""

    shortcut: str
    """What it reads."""
    log_probs: np.ndarray
    """Rows x labels. Every row is scored by a model that was not fitted on it."""
    score: Mapping[str, float]
    """The `accuracy` of these answers and that of the `majority` label, in percent."""
    _task: Task
    _parts: tuple[Part, ...]
    _scorer: BiasScorer

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of each column of `log_probs`, as text."""
        return self._task.labels

    def __repr__(self) -> str:
        accuracy, majority = self.score["accuracy"], self.score["majority"]
        return (
            f"FittedBias({self.shortcut}: {accuracy:.1f} % of {len(self.log_probs):,} rows, majority {majority:.1f} %)"
        )

    def predict(self, texts: Any, *, texts_b: Any = None, columns: Any = None) -> np.ndarray:
        """Log-probabilities for new texts, given as to `fit_bias`, by the model that is fitted on all rows."""
        table, _ = _table(texts, texts_b, columns)
        needed = {*_TEXTS[: 1 + self._task.has_pairs], *(name for part in self._parts for name in part.columns)}
        if needed - table.keys() or (table.keys() - needed) & set(_TEXTS):
            fitted_on = ", ".join(sorted(needed))
            raise UserError(f"texts: the bias model was fitted on {fitted_on}", "give the same for new rows")
        split, _ = _split("new", table, [self.labels[0]] * len(table["text_a"]), self.labels)
        return self._scorer.of(split)

    def explain(self, most: int = 12) -> Any:
        """What carries the shortcut: a DataFrame of at most `most` features that certainly go with a label.

        The strongest is first. Of each: the label, how many rows have it (equal texts are counted once), their share of
        all, how many of them have the label (both in percent), how many times as often as all rows do (lift), and p of
        Fisher's exact test, corrected for all features and labels (Holm).
        """
        import pandas as pd  # not at the top: it is slow to import

        features, train, names = self._scorer.features, self._task.train, self.labels
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
    label_order: Sequence[Any] = (),
    folds: int = 5,
) -> FittedBias:
    """Fit a bias model to texts in memory: a linear model of a suspected shortcut, cross-fitted in `folds` parts.

        bias = srnet.fit_bias(texts, labels)
        loss = srnet.losses.poe(logits, y, bias=bias.log_probs[rows])

    `texts` is a list, a Series, an array or a column of a dataset, of texts or of pairs of texts, or a DataFrame with
    one or two columns; the second texts may also be `texts_b`. `labels` are texts, whole numbers or booleans. Sorted,
    they are the columns of `log_probs`: give `label_order` if your model has them in another order.

    `shortcut` is `words`, `length`, of pairs also `overlap` or `claim`, the name of one of the `columns` (a DataFrame
    or a dict), several of these, or a function of a DataFrame that returns numbers for each row; it gets the texts,
    under their names or as `text_a` and `text_b`, and `columns`. By default it is all `columns`, or else the words.
    """
    table, names = _table(texts, texts_b, columns)
    train, classes = _split("train", table, _listed("labels", labels), tuple(map(str, label_order)))
    dev = replace(train.take(np.arange(1)), name="dev")  # a task has one; the fit does not depend on it
    task = Task("texts", classes, "accuracy", "words", train, dev, {})
    parts = _parts(shortcut, train, names)
    crossed, scorer = cross_fit(task, parts, folds=folds)
    found = score_split(task, train, crossed)
    score = {"accuracy": found["metrics"]["accuracy"], "majority": found["majority"]["accuracy"]}
    return FittedBias(with_commas(part.text for part in parts), crossed, score, task, parts, scorer)


def _parts(shortcut: Any, train: Split, texts: tuple[str, ...]) -> tuple[Part, ...]:
    if callable(shortcut):
        return (Part(FunctionOfRows(shortcut, texts)),)
    if shortcut is None and train.columns:
        return tuple(Part(KINDS["columns"], name) for name in sorted(train.columns))
    parts, kinds = (
        parse_shortcut(shortcut or "words"),
        [n for n, each in KINDS.items() if each.of_texts and each.is_linear],
    )
    for part in parts:
        if part.kind.name not in kinds and (part.kind.name != "columns" or part.argument not in train.columns):
            known = ", ".join((*kinds, *train.columns))
            raise UserError(f"unknown shortcut '{part.argument or part.text}' for texts", f"choose among {known}")
    return parts


def _table(texts: Any, texts_b: Any, columns: Any) -> tuple[dict[str, list[Any]], tuple[str, ...]]:
    """What is given, by column, and what the user calls the texts."""
    sides = [texts[name] for name in texts.columns] if hasattr(texts, "iloc") and texts.ndim == 2 else [texts]
    pairs = _listed("texts", texts)
    if len(sides) == 1 and all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        sides = [list(side) for side in zip(*pairs, strict=True)]
    sides += [] if texts_b is None else [texts_b]
    if len(sides) > 2:
        raise UserError(f"texts: {len(sides)} for each row", "give one text or two")
    if columns is not None and not isinstance(columns, Mapping) and not hasattr(columns, "iloc"):
        raise UserError(f"columns is {shown(columns)}", "give a DataFrame, or a dict with a list for each column")
    named = {} if columns is None else {str(name): each for name, each in dict(columns).items()}
    names = tuple(str(getattr(side, "name", None) or name) for side, name in zip(sides, _TEXTS, strict=False))
    named |= dict(zip(_TEXTS, sides, strict=False))
    return {name: _listed(name, each) for name, each in named.items()}, names


def _listed(name: str, values: Any) -> list[Any]:
    is_rows = isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping)
    found = (values.tolist() if hasattr(values, "tolist") else list(values)) if is_rows else None
    if not isinstance(found, list) or not found:
        raise UserError(
            f"{name} is {shown(values)}", "give a list, a Series or an array, with one for each of the texts"
        )
    return found


def _split(
    name: str, table: Mapping[str, list[Any]], labels: list[Any], classes: tuple[str, ...]
) -> tuple[Split, tuple[str, ...]]:
    """The rows as they would be read from a file, and the labels in the order of columns."""
    source = StringIO(json_lines("texts", {**table, _LABEL: labels}).decode())
    rows = [(n, {**dict.fromkeys(table, ""), **row}) for n, row in json_rows(source, lambda *_: None)]
    cells = [row.get(_LABEL, "").strip() for _, row in rows]
    if "" in cells:
        raise UserError(f"labels[{cells.index('')}] is missing", "leave rows without a label out")
    classes = classes or tuple(sorted(set(cells), key=lambda each: (len(each) if each.isdecimal() else 0, each)))
    places = {each: place for place, each in enumerate(classes)}
    second = "text_b" if "text_b" in table else None
    layout = Layout(
        "texts", "text_a", second, _LABEL, (), places, classes, (), None, CLASSES,
        metadata=(ALL_COLUMNS,), not_metadata=frozenset((*_TEXTS, _LABEL)),
    )  # fmt: skip
    read = layout.read(name, "ID", collect=True, rows=rows)
    for bad in read.bad_rows:
        raise UserError(f"texts[{bad.line - 1}]: {bad.what}", "correct the row, or leave it out")
    return read.split, classes
