"""A user's own csv, tsv or jsonl files as a task."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from srnet.errors import UserError, choose
from srnet.tasks.base import Example, Kind, Metric, Shortcut, Split, Task

SUFFIXES = (".csv", ".tsv", ".jsonl")


@dataclass(frozen=True)
class FilesTask:
    """Files with one example a row. Every file under `ood` is scored; none of them trains or chooses anything."""

    name: str
    labels: tuple[str, ...]
    train: str
    dev: str
    ood: tuple[tuple[str, str], ...] = ()
    """(name, path) of each out-of-distribution test file."""
    ood_train: str | None = None
    """Out-of-distribution examples to train on, used only where an upper bound is asked for."""
    ood_copies: int = 1
    """How often they are repeated then."""
    text_a: str = "text_a"
    text_b: str | None = "text_b"
    """The second text's column; None for single sentences."""
    label: str = "label"
    group: str | None = None
    """An optional column that names the sub-case of a row."""
    metric: Metric = "accuracy"
    shortcut: Shortcut = "overlap"

    def __post_init__(self) -> None:
        choose("metric", self.metric, ("accuracy", "f1"))
        choose("shortcut", self.shortcut, ("overlap", "claim"))
        if len(set(self.labels)) != len(self.labels) or len(self.labels) < 2:
            raise UserError(f"task '{self.name}' needs at least two different labels, not {list(self.labels)}")
        taken = {"train", "dev", "ood_train"} & {name for name, _ in self.ood}
        if taken:
            raise UserError(f"an OOD file cannot be called '{taken.pop()}'", "choose another name for it")

    def load(self) -> Task:
        return Task(
            name=self.name,
            labels=self.labels,
            metric=self.metric,
            shortcut=self.shortcut,
            train=self._split("train", "ID", Path(self.train)),
            dev=self._split("dev", "ID", Path(self.dev)),
            ood={name: self._split(name, "OOD", Path(path)) for name, path in self.ood},
            ood_train=None if self.ood_train is None else self._split("ood_train", "OOD", Path(self.ood_train)),
            ood_copies=self.ood_copies,
        )

    def _split(self, name: str, kind: Kind, path: Path) -> Split:
        examples = [self._example(path, line, row, f"{name}-{n}") for n, (line, row) in enumerate(read_rows(path))]
        if not examples:
            raise UserError(f"{path} holds no rows", "give it a header and at least one example")
        return Split.of(name, kind, examples)

    def _example(self, path: Path, line: int, row: dict[str, str], id: str) -> Example:
        columns = [column for column in (self.text_a, self.text_b, self.label, self.group) if column is not None]
        missing = [column for column in columns if row.get(column) is None]
        if missing:
            raise UserError(f"{path}, line {line}: no column '{missing[0]}'", f"columns here: {', '.join(row)}")
        label = row[self.label].strip()
        if label not in self.labels:
            raise UserError(
                f"{path}, line {line}: label '{label}' was never declared", f"declared: {list(self.labels)}"
            )
        text_b = row[self.text_b].strip() if self.text_b is not None else ""
        if not row[self.text_a].strip() or (self.text_b is not None and not text_b):
            raise UserError(f"{path}, line {line}: an empty text", "fill it in or remove the row")
        group = row[self.group] if self.group is not None else ""
        return Example(id, row[self.text_a].strip(), text_b, self.labels.index(label), group)


def read_rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """(line number, column -> text) of every row; anything malformed is an error that names the line."""
    if path.suffix not in SUFFIXES:
        raise UserError(f"{path} has an unknown ending", f"give a file that ends in {', '.join(SUFFIXES)}")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from _json_rows(path, file) if path.suffix == ".jsonl" else _table_rows(path, file)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist", "check the path") from None
    except IsADirectoryError:
        raise UserError(f"{path} is a folder", "give a file") from None
    except NotADirectoryError:
        raise UserError(f"{path} does not exist: a file stands in its way", "check the path") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}, line {_undecodable_line(path)}: not UTF-8 text", "save the file as UTF-8") from None


def _undecodable_line(path: Path) -> int:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return 0


def _table_rows(path: Path, file: Iterator[str]) -> Iterator[tuple[int, dict[str, str]]]:
    # a tsv has no quoting: a quote in it is a character like any other
    if path.suffix == ".tsv":
        reader = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE, strict=True)
    else:
        reader = csv.reader(file, strict=True)
    try:
        header = next(reader, None)
        if header is None:
            raise UserError(f"{path} is empty", "give it a header and at least one example")
        twice = [name for name in header if header.count(name) > 1]
        if twice:
            raise UserError(f"{path}, line 1: column '{twice[0]}' is named twice", "rename one of them")
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                raise UserError(f"{path}, line {reader.line_num}: {len(cells)} cells under {len(header)} columns")
            yield reader.line_num, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: {error}", "check the quotes and separators") from None


def _json_rows(path: Path, file: Iterator[str]) -> Iterator[tuple[int, dict[str, str]]]:
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise UserError(f"{path}, line {number}: not JSON ({error})", "one object a line") from None
        if not isinstance(row, dict):
            raise UserError(f"{path}, line {number}: not a JSON object", "one object a line")
        yield number, {str(column): str(value) for column, value in row.items() if value is not None}
