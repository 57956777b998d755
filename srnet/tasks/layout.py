"""One file of a task: how its rows become a split."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from srnet.core.errors import UserError, shortened
from srnet.tasks.answers.base import AnswerKind
from srnet.tasks.leaks import TextKeys
from srnet.tasks.reading import Nested, bad_row, python_literal, read_rows
from srnet.tasks.splits import LEVELS, PAIR, Coarse, Split, SplitKind
from srnet.tasks.tables import Bad, Row

ALL_COLUMNS = "*"
"""Among the names of metadata: every column that is not a text or the label."""
_FINAL_PUNCTUATION = " \t.!?,;:…。"
_BYTES = re.compile(r"""b(['"]).*\1""", re.DOTALL)
_TEXTS, _LABELS = (re.compile(rf"\[\s*{each}\s*\]", re.DOTALL) for each in (r"""['"].*['"]""", r"""['"\d-].*"""))
"""A list of texts, and one of labels or their numbers, as pandas writes them into a csv file."""
_LISTS = {
    "text": (_TEXTS, "multiple choice and token tags are"),
    "label": (_LABELS, "multi-label classification is"),
    "sub-case": (_TEXTS, "several sub-cases of a row are"),
}
"""What a list means where one value is needed."""


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be read."""

    line: int
    what: str


@dataclass(frozen=True)
class SplitFile:
    """A file that has been read."""

    path: str
    split: Split
    unlabelled: int = 0
    """Rows without a label, which were left out."""
    bad_rows: tuple[BadRow, ...] = ()
    unknown_groups: tuple[str, ...] = ()
    """Group columns that no row of the file has."""
    origin: str = ""
    """Where the rows are from, if they are not all of the file."""

    @cached_property
    def keys(self) -> TextKeys:
        return TextKeys.of(self.split)

    @property
    def notes(self) -> tuple[str, ...]:
        unlabelled = f"{self.unlabelled:,} rows without a label were left out" if self.unlabelled else ""
        return tuple(filter(None, (self.origin, unlabelled)))

    @property
    def all_notes(self) -> tuple[str, ...]:
        """With a note of the bad rows, where the task leaves them out."""
        if not self.bad_rows:
            return self.notes
        lines = ", ".join(str(bad.line) for bad in self.bad_rows[:5]) + (", ..." if len(self.bad_rows) > 5 else "")
        return (*self.notes, f"{len(self.bad_rows):,} rows that cannot be read were left out (lines {lines})")


class _Columns:
    """The columns of one file. A million rows take a few hundred megabytes."""

    def __init__(self) -> None:
        self.text_a: list[str] = []
        self.text_b: list[str] = []
        self.labels: list[Any] = []
        self.groups: list[str] = []
        self.unlabelled = 0
        self.grouped: set[str] = set()
        """Group columns that some row has."""
        self.cells: dict[str, list[str]] = {}
        """Metadata by column. A column that a row lacks has an empty cell there."""
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

    def add_metadata(self, cells: Mapping[str, str]) -> None:
        """The metadata of the last row. A column begins with the first row that has it."""
        rows = len(self.labels) - 1
        for name in cells:
            if name not in self.cells:
                self.cells[name] = [""] * rows
        for name, column in self.cells.items():
            cell = cells.get(name, "")
            column.append(self._seen.setdefault(cell, cell))


@dataclass(frozen=True)
class Layout:
    """How a row of one file becomes an example."""

    path: str
    text_a: str
    text_b: str | None
    label: str
    group: tuple[str, ...]
    labels: Mapping[str, int]
    """Every known spelling -> label."""
    names: tuple[str, ...]
    unlabelled: tuple[str, ...]
    coarse: Coarse | None
    answer: AnswerKind
    columns: tuple[str, ...] = ()
    """The names of the columns, where the file has no header."""
    needs_group: bool = False
    """Whether the file must have every column of `group`."""
    strip_final_punctuation: bool = False
    bytes_literals: bool = False
    metadata: tuple[str, ...] = ()
    """Further columns to keep."""
    not_metadata: frozenset[str] = frozenset()
    """Columns that are not kept where all are."""
    pair: str | None = None
    """The column that is kept as `PAIR`; every row must have it."""

    @cached_property
    def _tidy(self) -> Callable[[str], str]:
        """A function that strips a text, and whatever else the options say."""
        if not self.strip_final_punctuation and not self.bytes_literals:
            return str.strip  # the common case, at the speed of C

        def tidy(text: str) -> str:
            text = _from_bytes_literal(text.strip()).strip() if self.bytes_literals else text.strip()
            return (text.rstrip(_FINAL_PUNCTUATION) or text) if self.strip_final_punctuation else text

        return tidy

    def read(self, name: str, kind: SplitKind, *, collect: bool, rows: Iterable[Row] | None = None) -> SplitFile:
        """The file, or `rows`, as a split. Bad rows are collected; without `collect` the first is an error."""
        columns, bad_rows = _Columns(), []
        row: Mapping[str, str] = {}

        def bad(line: int, problem: str) -> None:
            if not collect:
                raise bad_row(self.path, line, problem)
            bad_rows.append(BadRow(line, problem))

        for line, row in read_rows(self.path, bad, self.columns) if rows is None else rows:
            self._add(columns, line, row, bad)
        if not columns.labels:
            raise self._no_rows(columns, bad_rows)
        unknown = tuple(column for column in self.group if column not in columns.grouped)
        if unknown and self.needs_group:
            raise UserError(f"{self.path}: no column '{unknown[0]}' for groups", columns_here(row))
        ids = tuple(f"{name}-{n}" for n in range(len(columns.labels)))
        texts, labels = (tuple(columns.text_a), tuple(columns.text_b)), np.array(columns.labels, self.answer.dtype)
        metadata = {name: tuple(cells) for name, cells in columns.cells.items()}
        split = Split(name, kind, ids, *texts, labels, tuple(columns.groups), self.coarse, metadata)
        return SplitFile(self.path, split, columns.unlabelled, tuple(bad_rows), unknown)

    def _no_rows(self, columns: _Columns, bad_rows: list[BadRow]) -> UserError:
        if bad_rows:
            first = f"line {bad_rows[0].line}: {bad_rows[0].what}"
            return UserError(f"{self.path} holds no rows that can be read; {first}", "check its columns and labels")
        labelled = " with a label" if columns.unlabelled else ""
        return UserError(f"{self.path} holds no rows{labelled}", "give it a header and at least one example")

    def _add(self, columns: _Columns, line: int, row: Mapping[str, str], bad: Bad) -> None:
        label, text_a = cell_of(row, self.label), cell_of(row, self.text_a)
        text_b = "" if self.text_b is None else cell_of(row, self.text_b)
        pair = "" if self.pair is None else cell_of(row, self.pair)
        for cell in (label, text_a, text_b):
            # all checks in every row would take a third of the reading time
            if cell and cell.lstrip().startswith(("[", "{")):
                self._refuse_lists(line, row)
        if label is not None and label.strip() in self.unlabelled:
            columns.unlabelled += 1
        elif label is None or text_a is None or text_b is None or pair is None:
            bad(line, self._missing(row))
        elif (value := self.answer.parse(label.strip(), self.labels)) is None:
            bad(line, self.answer.unreadable(shortened(label, 80), self.label, self.names))
        elif not (text_a := self._tidy(text_a)) or (not (text_b := self._tidy(text_b)) and self.text_b is not None):
            bad(line, f"an empty text under '{self.text_b if text_a else self.text_a}'")
        else:
            columns.add(text_a, text_b, value, self._group(columns, line, row))
            if self.metadata or self.pair is not None:
                columns.add_metadata(self._metadata(row) | ({} if self.pair is None else {PAIR: pair}))

    def _metadata(self, row: Mapping[str, str]) -> dict[str, str]:
        if ALL_COLUMNS in self.metadata:
            return {name: cell for name, cell in row.items() if name not in self.not_metadata}
        return {name: row[name] for name in self.metadata if name in row}

    def _group(self, columns: _Columns, line: int, row: Mapping[str, str]) -> str:
        """The sub-case: the row's levels down to the last non-empty one."""
        if not self.group:
            return ""
        levels = [(column, cell_of(row, column)) for column in self.group]
        for column, level in levels:
            refuse_list("sub-case", level, self.path, line, column)
        columns.grouped.update(column for column, level in levels if level is not None)
        while levels and not levels[-1][1]:
            levels.pop()
        return LEVELS.join(level or "" for _, level in levels)

    def _refuse_lists(self, line: int, row: Mapping[str, str]) -> None:
        for column in filter(None, (self.text_a, self.text_b)):
            refuse_list("text", cell_of(row, column), self.path, line, column)
        label = cell_of(row, self.label)
        if label is not None and label.strip() not in self.labels:  # a declared label may look like a list
            refuse_list("label", label, self.path, line, self.label)

    def _missing(self, row: Mapping[str, str]) -> str:
        wanted = [self.label, self.text_a, *(each for each in (self.text_b, self.pair) if each is not None)]
        names = " or ".join(f"'{name}'" for name in alternatives(next(w for w in wanted if cell_of(row, w) is None)))
        return f"no column {names}; {columns_here(row)}"


def cell_of(row: Mapping[str, str], column: str) -> str | None:
    """The cell of a row under a column, which may be given as alternatives: `evidence|evidence_sentence`."""
    found = row.get(column)  # nearly every column has one name
    return next((row[name] for name in alternatives(column) if name in row), None) if found is None else found


@lru_cache
def alternatives(column: str) -> tuple[str, ...]:
    return tuple(column.split("|"))


def columns_here(row: Mapping[str, str]) -> str:
    """The columns of a row, for a message. Some spreadsheets save csv files with semicolons."""
    semicolons = " (separated by ';'? save it with commas)" if len(row) == 1 and ";" in next(iter(row)) else ""
    return f"columns here: {shortened(', '.join(row), 500)}{semicolons}"


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
        return isinstance(python_literal(cell), list)
    except ValueError:
        return False


def _from_bytes_literal(text: str) -> str:
    if not _BYTES.fullmatch(text):
        return text
    try:
        value = python_literal(text)
        return value.decode("utf-8") if isinstance(value, bytes) else text
    except ValueError:
        return text


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
        cell = cell_of(row, column)
        label = (cell or "").strip()
        if label not in declared:
            refuse_list("label", cell, source, line, column)
        found[label] += 1
    for missing in ("", *unlabelled):
        del found[missing]
    if not found:
        raise UserError(f"{source}: no column '{column}' with labels", columns_here(row))
    if not declared and not 2 <= len(found) <= 100:
        raise UserError(f"{source}: column '{column}' holds {len(found)} different values", "name the labels yourself")
    return found
