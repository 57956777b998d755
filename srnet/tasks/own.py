"""A task of a user's own files: columns and labels that are not given are guessed, and the guess is reported."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from srnet.config.values import arguments_of
from srnet.core.errors import UserError
from srnet.tasks.answers.base import get_answer
from srnet.tasks.answers.classes import CLASSES
from srnet.tasks.files import FilesTask
from srnet.tasks.guess import Columns, guess_columns
from srnet.tasks.layout import cell_of, columns_here, label_counts
from srnet.tasks.reading import SUFFIXES, read_rows

Say = Callable[[str], None]
_UNLABELLED = "-"
"""How SNLI and the Hub mark a row without a label."""
_SHOWN = 6
"""Labels that are named in the report of a guess."""
_LOOKED_AT = 100
"""Rows that may lack a cell, as in jsonl files, before its column counts as missing."""


def task_of_files(
    train: str,
    dev: str = "",
    ood: Mapping[str, str] | None = None,
    *,
    name: str | None = None,
    text: str | None = None,
    text_a: str | None = None,
    text_b: str | None = None,
    label: str | None = None,
    labels: tuple[str, ...] = (),
    say: Say = lambda line: None,
    **options: Any,
) -> FilesTask:
    """The task of files with the same columns; `options` are further fields of `FilesTask`.

    `text` is the column of single texts, `text_a` and `text_b` those of pairs. Columns that are not given are guessed
    from the training file, and so are labels. `say` is called with one line about what is read.
    """
    _require_texts(text=text, text_a=text_a, text_b=text_b, label=label)
    if text is not None and (text_a or text_b):
        raise UserError("--text is for single texts, --text-a and --text-b are for pairs", "keep one of them")
    text_a, text_b = (text, "") if text is not None else (text_a, text_b)
    options = arguments_of(FilesTask, {**options, "labels": labels})
    labels = options.pop("labels")
    kind, header = get_answer(options.get("answer", CLASSES.name)), options.get("columns", ())
    chosen = guess_columns(train, header, text_a=text_a, text_b=text_b, label=label, numbers=bool(kind.outputs))
    marks = options.pop("unlabelled", ())
    counts = Counter[str]() if kind.outputs else label_counts(train, chosen.label, marks, header, labels)
    if _UNLABELLED in counts and not labels and len(counts) > 2:
        del counts[_UNLABELLED]
        marks = (*marks, _UNLABELLED)
    spec = FilesTask(
        name or name_of(train),
        labels or tuple(sorted(counts)),
        train,
        dev,
        tuple((ood or {}).items()),
        **chosen.fields,
        unlabelled=marks,
        **{"metric": next(iter(kind.metrics)), **options},
    )
    _require_columns(spec, chosen)
    say(_report(chosen, {each: counts[each] for each in spec.labels if each in counts}))
    return spec


def name_of(train: str) -> str:
    """The name of a task: that of its training file, or of the folder if the file is called train."""
    path = Path(train)
    stem = path.name.removesuffix(next((end for end in sorted(SUFFIXES, key=len)[::-1] if train.endswith(end)), ""))
    if re.fullmatch("train(ing)?", stem, re.IGNORECASE):
        stem = path.resolve().parent.name or stem
    return re.sub(r"[^\w .-]+", "-", stem).strip(" .-")[:60] or "task"


def _require_texts(**columns: Any) -> None:
    """Refuse names of columns that are no texts: a number as a name is read as its text."""
    for option, column in columns.items():
        if not isinstance(column, str | None):
            raise UserError(f"{option}: {column!r:.80} is not the name of a column", f"give one, as text: {option}=...")


def _require_columns(spec: FilesTask, chosen: Columns) -> None:
    """Refuse a column with two uses, and a file without the columns of the training file, before any is read whole."""
    names = [*filter(None, (chosen.text_a, chosen.text_b, chosen.label))]
    if twice := next((name for name in names if names.count(name) > 1), None):
        uses = "as the label and as a text" if twice == chosen.label else "as both texts"
        raise UserError(f"column '{twice}' is given {uses}", "give another column for one of them")
    for file in list(spec.files.values())[1:]:
        rows = [row for _, row in islice(read_rows(file.path, lambda *_: None, spec.columns), _LOOKED_AT)]
        for column in names:
            if rows and all(cell_of(row, column) is None for row in rows):
                fix = f"name its columns as in {Path(str(spec.train)).name}; {columns_here(rows[0])}"
                raise UserError(f"{file.path} has no column '{column}'", fix)


def _report(columns: Columns, labels: Mapping[str, int]) -> str:
    texts = f"{columns.text_a} as the text"
    if columns.text_b is not None:
        texts = f"{columns.text_a} as the first text, {columns.text_b} as the second"
    shown = [f"{name} {count:,}" for name, count in islice(labels.items(), _SHOWN)]
    shown += ["..."] * (len(labels) > _SHOWN)
    of_labels = f" ({len(labels)} labels: {', '.join(shown)})" if labels else ""
    unread = f"; not read: {', '.join(columns.unread)}" if columns.unread else ""
    return f"reads {texts} and {columns.label} as the label{of_labels}{unread}"
