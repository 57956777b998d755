"""Bias models of texts in memory, for a training loop of one's own. Nothing is written to disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from typing import TYPE_CHECKING, Any

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
from srnet.tasks.layout import ALL_COLUMNS, Layout, refuse_list
from srnet.tasks.leaks import TextKeys
from srnet.tasks.memory import json_lines
from srnet.tasks.reading import json_rows
from srnet.tasks.splits import Split

if TYPE_CHECKING:  # slow to import
    import pandas as pd

_TEXTS, _LABEL = ("text_a", "text_b"), "(label)"


@dataclass(frozen=True, repr=False)
class FittedBias:
    """A bias model of `srnet.fit_bias`; `_task`, `_parts` and `_scorer` are its data, its features and itself."""

    shortcut: str
    """What it reads."""
    labels: tuple[str, ...]
    """The label of each column of `log_probs`, as text."""
    log_probs: np.ndarray
    """Rows x labels. Every row is scored by a model that was not fitted on it."""
    score: Mapping[str, float]
    """The accuracy of these answers, and that of the most frequent label (majority), in percent."""
    _task: Task
    _parts: tuple[Part, ...]
    _scorer: BiasScorer

    def __repr__(self) -> str:
        score = ", ".join(f"{name} {percent:.1f} %" for name, percent in self.score.items())
        return f"<FittedBias: {self.shortcut} in {len(self.log_probs):,} rows, {score}>"

    def predict(self, texts: Any, *, texts_b: Any = None, columns: Any = None) -> np.ndarray:
        """Log-probabilities for new rows by the model of all rows. `texts`, `texts_b`, `columns`: as of `fit_bias`."""
        table = _table(texts, texts_b, columns)
        read = {*_TEXTS[: 1 + self._task.has_pairs], *(name for part in self._parts for name in part.columns)}
        if wrong := (read - table.keys()) | (table.keys() & set(_TEXTS)) - read:
            raise UserError(f"texts: {wrong.pop()} of new rows is unlike that of the fit", "give the same columns")
        split, _ = _split("new", table, [self.labels[0]] * len(table["text_a"]), self.labels)
        return self._scorer.of(split)

    def explain(self, most: int = 12) -> pd.DataFrame:
        """What carries the shortcut: at most `most` features with the label that they go with, the strongest first.

        `rows` have the feature, which are `share` percent of all; `lift` is how many times as often as in all rows they
        have the label; p is Fisher's exact test, corrected for all features and labels. Equal texts are counted once.
        """
        import pandas as pd

        features, train = self._scorer.features, self._task.train
        x, rows = features.of(train), np.arange(len(train))
        if all(part.kind.of_texts for part in self._parts):
            rows = np.sort(np.unique(TextKeys.of(train).rows, return_index=True)[1])
        binary = Binary(features.names, x)
        found = find_carriers(binary.names, binary.of(x[rows]), train.labels[rows], self.labels, most)
        return pd.DataFrame(map(vars, found), columns=["feature", "label", "rows", "share", "lift", "p"])


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
    or a dict), several of these, or a function that gets a DataFrame with `text_a`, `text_b` and all `columns` and
    returns numbers for each row, as of `shortcut_from`. By default it is all `columns`, or else the words.
    """
    table = _table(texts, texts_b, columns)
    train, classes = _split("train", table, _listed("labels", labels), tuple(map(str, label_order)))
    dev = replace(train.take(np.arange(1)), name="dev")  # a task has one; the fit does not depend on it
    task = Task("texts", classes, "accuracy", "words", train, dev, {})
    parts = _parts(shortcut, train)
    crossed, scorer = cross_fit(task, parts, folds=folds)
    found = score_split(task, train, crossed)
    score = {"accuracy": found["metrics"]["accuracy"], "majority": found["majority"]["accuracy"]}
    return FittedBias(with_commas(part.text for part in parts), classes, crossed, score, task, parts, scorer)


def _parts(shortcut: Any, train: Split) -> tuple[Part, ...]:
    if callable(shortcut):
        return (Part(FunctionOfRows(shortcut, _TEXTS if any(train.text_b) else _TEXTS[:1])),)
    if shortcut is None and train.columns:
        return tuple(Part(KINDS["columns"], name) for name in sorted(train.columns))
    known = [name for name, kind in KINDS.items() if kind.of_texts and kind.is_linear] + [*train.columns]
    for part in (parts := parse_shortcut(shortcut or "words")):
        if (name := part.text.removeprefix("columns:")) not in known:
            raise UserError(f"unknown shortcut '{name}' for texts", f"choose among {', '.join(known)}")
    return parts


def _table(texts: Any, texts_b: Any, columns: Any) -> dict[str, list[Any]]:
    """By column: further ones, and the texts."""
    if columns is not None and not isinstance(columns, Mapping) and not hasattr(columns, "iloc"):
        raise UserError(f"columns is {shown(columns)}", "give a DataFrame, or a dict with a list for each column")
    sides = [texts[name] for name in texts.columns] if hasattr(texts, "iloc") and texts.ndim == 2 else [texts]
    rows = _listed("texts", texts)
    if len(sides) == 1 and all(isinstance(row, tuple | list) and len(row) == 2 for row in rows):
        sides = [list(side) for side in zip(*rows, strict=True)]
    sides += [] if texts_b is None else [texts_b]
    if len(sides) > 2:
        raise UserError(f"texts: {len(sides)} for each row", "give one text or two")
    given = {str(name): each for name, each in dict({} if columns is None else columns).items()}
    return {name: _listed(name, each) for name, each in (given | dict(zip(_TEXTS, sides, strict=False))).items()}


def _listed(name: str, values: Any) -> list[Any]:
    is_rows = isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping)
    found = (values.tolist() if hasattr(values, "tolist") else list(values)) if is_rows else None
    if not isinstance(found, list) or not found:
        raise UserError(f"{name} is {shown(values)}", "give a list, a Series or an array that is as long as texts")
    return found


def _split(
    name: str, table: Mapping[str, list[Any]], labels: list[Any], classes: tuple[str, ...]
) -> tuple[Split, tuple[str, ...]]:
    """The rows as they would be read from a file, and the labels in the order of columns."""
    source = StringIO(json_lines("texts", {**table, _LABEL: labels}).decode())
    rows = [(n, {**dict.fromkeys(table, ""), **row}) for n, row in json_rows(source, lambda *_: None)]
    cells = [row.get(_LABEL, "").strip() for _, row in rows]
    for n, row in rows:
        refuse_list("label", row.get(_LABEL), "texts", n, "labels")
    if "" in cells:
        raise UserError(f"labels[{cells.index('')}] is missing", "leave rows without a label out")
    classes = classes or tuple(sorted(set(cells), key=lambda each: (len(each) if each.isdecimal() else 0, each)))
    layout = Layout(
        "texts", "text_a", "text_b" if "text_b" in table else None, _LABEL, (),
        {each: n for n, each in enumerate(classes)}, classes, (), None, CLASSES,
        metadata=(ALL_COLUMNS,), not_metadata=frozenset((*_TEXTS, _LABEL)),
    )  # fmt: skip
    read = layout.read(name, "ID", collect=True, rows=rows)
    for bad in read.bad_rows:
        raise UserError(f"texts[{bad.line - 1}]: {bad.what}", "correct the row, or leave it out")
    return read.split, classes
