"""How a row of a file becomes an example."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from srnet.core.errors import UserError
from srnet.tasks.answers.base import AnswerKind
from srnet.tasks.answers.classes import CLASSES
from srnet.tasks.reading import Bad, Nested, brief, literal, read_rows
from srnet.tasks.splits import LEVELS, Coarse, Kind, Split

FINAL_PUNCTUATION = " \t.!?,;:…。"
_BYTES = re.compile(r"""b(['"]).*\1""", re.DOTALL)
_TEXTS, _LABELS = (re.compile(rf"\[\s*{each}\s*\]", re.DOTALL) for each in (r"""['"].*['"]""", r"""['"\d-].*"""))
"""A list of texts, and one of labels or their numbers, as pandas writes them into a csv file."""
_LISTS = {
    "text": (_TEXTS, "multiple choice and token tags are"),
    "label": (_LABELS, "multi-label classification is"),
    "sub-case": (_TEXTS, "several sub-cases of a row are"),
}
"""What a list means where one value is needed."""


class Columns:
    """The columns of one file. A million rows take a few hundred megabytes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.text_a: list[str] = []
        self.text_b: list[str] = []
        self.labels: list[Any] = []
        self.groups: list[str] = []
        self.unlabelled = 0
        self.grouped: set[str] = set()
        """Group columns that some row has."""
        self._seen: dict[str, str] = {}

    def add(self, text_a: str, text_b: str, label: Any, group: str) -> None:
        """Premises and sub-cases repeat: one copy is kept of each of the recent ones."""
        seen = self._seen
        if len(seen) > 10_000:
            seen.clear()
        self.text_a.append(seen.setdefault(text_a, text_a))
        self.text_b.append(seen.setdefault(text_b, text_b))
        self.labels.append(label)
        self.groups.append(seen.setdefault(group, group))

    def unknown(self, group: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(column for column in group if column not in self.grouped)

    def split(self, kind: Kind, answer: AnswerKind, coarse: Coarse | None) -> Split:
        ids = tuple(f"{self.name}-{n}" for n in range(len(self.labels)))
        labels = np.array(self.labels, dtype=answer.dtype)
        return Split(self.name, kind, ids, tuple(self.text_a), tuple(self.text_b), labels, tuple(self.groups), coarse)


@dataclass(frozen=True)
class Layout:
    """How a row of one file becomes an example."""

    text_a: str
    text_b: str | None
    label: str
    group: tuple[str, ...]
    labels: Mapping[str, int]
    """Every known spelling -> label."""
    names: tuple[str, ...]
    unlabelled: tuple[str, ...]
    tidy: Callable[[str], str]
    coarse: Coarse | None
    answer: AnswerKind = CLASSES
    source: str = ""
    """The file, for messages."""

    def add(self, columns: Columns, line: int, row: Mapping[str, str], bad: Bad) -> None:
        label, text_a = _cell(row, self.label), _cell(row, self.text_a)
        text_b = "" if self.text_b is None else _cell(row, self.text_b)
        for cell in (label, text_a, text_b):
            # all checks in every row would take a third of the reading time
            if cell and cell.lstrip().startswith(("[", "{")):
                self._refuse_lists(line, row)
        if label is not None and label.strip() in self.unlabelled:
            columns.unlabelled += 1
        elif label is None or text_a is None or text_b is None:
            bad(line, self._missing(row))
        elif (value := self.answer.parse(label.strip(), self.labels)) is None:
            bad(line, self.answer.unreadable(brief(label), self.label, self.names))
        elif not (text_a := self.tidy(text_a)) or (not (text_b := self.tidy(text_b)) and self.text_b is not None):
            bad(line, f"an empty text under '{self.text_b if text_a else self.text_a}'")
        else:
            columns.add(text_a, text_b, value, self._group(columns, line, row))

    def _group(self, columns: Columns, line: int, row: Mapping[str, str]) -> str:
        """The sub-case: the row's levels down to the last non-empty one."""
        if not self.group:
            return ""
        levels = [(column, _cell(row, column)) for column in self.group]
        for column, level in levels:
            refuse_list("sub-case", level, self.source, line, column)
        columns.grouped.update(column for column, level in levels if level is not None)
        while levels and not levels[-1][1]:
            levels.pop()
        return LEVELS.join(level or "" for _, level in levels)

    def _refuse_lists(self, line: int, row: Mapping[str, str]) -> None:
        for column in filter(None, (self.text_a, self.text_b)):
            refuse_list("text", _cell(row, column), self.source, line, column)
        label = _cell(row, self.label)
        if label is not None and label.strip() not in self.labels:  # a declared label may look like a list
            refuse_list("label", label, self.source, line, self.label)

    def _missing(self, row: Mapping[str, str]) -> str:
        wanted = [self.label, self.text_a] + ([self.text_b] if self.text_b is not None else [])
        names = " or ".join(f"'{name}'" for name in _alternatives(next(w for w in wanted if _cell(row, w) is None)))
        return f"no column {names}; columns here: {self.seen(row)}{_separator_hint(row)}"

    @staticmethod
    def seen(row: Mapping[str, str]) -> str:
        return brief(", ".join(row), 500)


def _cell(row: Mapping[str, str], column: str) -> str | None:
    found = row.get(column)  # nearly every column has one name
    return next((row[name] for name in _alternatives(column) if name in row), None) if found is None else found


def refuse_list(one: str, cell: str | None, source: str, line: int, column: str) -> None:
    """Refuse a list or an object where one text, label or sub-case is needed: not the row, the column is wrong."""
    written, meaning = _LISTS[one]
    if cell is not None and (type(cell) is Nested or _is_list(cell.strip(), written)):
        what = "objects" if cell[0] == "{" else "lists"
        raise UserError(
            f"{source}, line {line}: column '{column}' holds {what}; {meaning} not supported", f"give one {one} per row"
        )


def _is_list(cell: str, written: re.Pattern[str]) -> bool:
    """Whether a cell holds a list. Other texts may begin and end like one: `["Stop," he said, "now"]`."""
    if not written.fullmatch(cell):
        return False
    if written is _LABELS:  # a label with brackets is declared, and numpy writes [0 1], which is no literal
        return True
    try:
        return isinstance(literal(cell), list)
    except ValueError:
        return False


def _separator_hint(row: Mapping[str, str]) -> str:
    """Some spreadsheets save csv files with semicolons."""
    return " (separated by ';'? save it with commas)" if len(row) == 1 and ";" in next(iter(row)) else ""


def label_counts(
    source: str,
    column: str,
    unlabelled: tuple[str, ...] = (),
    columns: tuple[str, ...] = (),
    declared: tuple[str, ...] = (),
) -> Counter[str]:
    """The values of a file's label column, and how often they occur. Labels that are declared may be any."""
    found: Counter[str] = Counter()
    row: Mapping[str, str] = {}
    for line, row in read_rows(source, lambda *_: None, columns):
        cell = _cell(row, column)
        label = (cell or "").strip()
        if label not in declared:
            refuse_list("label", cell, source, line, column)
        found[label] += 1
    for missing in ("", *unlabelled):
        del found[missing]
    if not found:
        here = f"columns here: {Layout.seen(row)}{_separator_hint(row)}"
        raise UserError(f"{source}: no column '{column}' with labels", here)
    if not declared and not 2 <= len(found) <= 100:
        raise UserError(f"{source}: column '{column}' holds {len(found)} different values", "name the labels yourself")
    return found


@lru_cache
def _alternatives(column: str) -> tuple[str, ...]:
    return tuple(column.split("|"))


def tidy_with(strip_final_punctuation: bool, bytes_literals: bool) -> Callable[[str], str]:
    if not strip_final_punctuation and not bytes_literals:
        return str.strip

    def tidy(text: str) -> str:
        text = _from_bytes_literal(text.strip()).strip() if bytes_literals else text.strip()
        return (text.rstrip(FINAL_PUNCTUATION) or text) if strip_final_punctuation else text

    return tidy


def _from_bytes_literal(text: str) -> str:
    if not _BYTES.fullmatch(text):
        return text
    try:
        value = literal(text)
        return value.decode("utf-8") if isinstance(value, bytes) else text
    except ValueError:
        return text
