"""Text of a user's own for a language model: plain files with one text a line, or a column of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeVar

import numpy as np

from srnet.config.values import Count, OneOf
from srnet.core.errors import UserError
from srnet.tasks.answers.pairs import TEXT
from srnet.tasks.answers.text import LIKELIHOOD, TEXTS
from srnet.tasks.base import Metric, Task, register_task
from srnet.tasks.files import DevShare
from srnet.tasks.holdout import split_off, strata_of
from srnet.tasks.layout import BadRow, SplitFile, cell_of, columns_here
from srnet.tasks.reading import bad_row, open_source, read_rows
from srnet.tasks.sources import BadRows, OfFiles
from srnet.tasks.splits import Split, SplitKind
from srnet.tasks.tables import Bad, Row

S = TypeVar("S", bound=Split)
_PLAIN = (".txt", ".txt.gz")
"""Endings of files without columns."""


@register_task(
    reads=lambda values: values.get("answer") == TEXTS.name, changeable=("metric", "rows", "bad_rows", "dev_share")
)
@dataclass(frozen=True)
class TextTask(OfFiles):
    """Texts under `name`, scored by their likelihood: the files `train`, `dev`, and tests by name; its `metric`."""

    labels: ClassVar = TEXTS.outputs
    shortcut: ClassVar = "unknown"

    train: str
    dev: str = ""
    """Texts that choose checkpoints. Default: some of the training file (`dev_share`), which are not trained on."""
    ood: tuple[tuple[str, str], ...] = ()
    """(name, file) of each out-of-distribution test set."""
    id_tests: tuple[tuple[str, str], ...] = ()
    """(name, file) of further in-distribution test sets: scored, and never used for selection."""
    name: str = "text"
    text: str = "text"
    """Column of the text, in files with columns: csv, tsv, jsonl, parquet. In a txt file each line is a text."""
    metric: Annotated[Metric, OneOf(LIKELIHOOD)] = "perplexity"
    """perplexity, or nll: the mean negative log-likelihood per token."""
    rows: tuple[tuple[str, Count], ...] = ()
    """At most so many texts of a split, always the same ones: {"train": 20000}."""
    dev_share: DevShare = 0.2
    """Without a dev file: the share of the training file that is split off as dev, at most 2,000 texts."""
    bad_rows: BadRows = "refuse"
    """`skip` leaves out rows that cannot be read, and counts them."""
    answer: Literal["text"] = "text"
    """text: what makes a description one of texts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_splits()

    def load(self) -> Task:
        files = with_dev({name: self._read(name, source) for name, source in self.sources.items()}, self.dev_share)
        notes = [f"{name}: {note}" for name, each in files.items() for note in each.all_notes]
        splits = {name: self.sampled(each.split, notes) for name, each in files.items()}
        return Task(
            name=self.name,
            labels=self.labels,
            metric=self.metric,
            shortcut=self.shortcut,
            train=splits["train"],
            dev=splits["dev"],
            ood={name: splits[name] for name, _ in self.ood},
            id_tests={name: splits[name] for name, _ in self.id_tests},
            notes=tuple(notes),
            answer=self.answer,
        )

    def _read(self, name: str, source: str) -> SplitFile:
        texts, bad = texts_of(source, self.text, self.bad_rows)
        return SplitFile(source, text_split(Split, name, self.kind_of(name), texts), bad_rows=bad)


def text_split(kind: type[S], name: str, where: SplitKind, texts: list[str]) -> S:
    """Texts as a split of a kind, without labels."""
    empty, ids = ("",) * len(texts), tuple(f"{name}-{n}" for n in range(len(texts)))
    return kind(name, where, ids, tuple(texts), empty, np.full(len(texts), TEXT, np.int64), empty)


def with_dev(files: Mapping[str, SplitFile], share: float) -> dict[str, SplitFile]:
    """Without a dev file, dev is split off the training file."""
    if "dev" in files:
        return dict(files)
    train, dev = split_off(files["train"], share, strata_of(files["train"].split, has_classes=False))
    return {"train": train, "dev": dev, **{name: each for name, each in files.items() if name != "train"}}


# --- from a file to texts ------------------------------------------------------------------------------------------


def texts_of(source: str, column: str, bad_rows: BadRows) -> tuple[list[str], tuple[BadRow, ...]]:
    """The texts of a file, and the rows that cannot be read, which are an error unless they are skipped."""
    found: list[str] = []

    def add(line: int, row: Mapping[str, str], bad: Bad) -> None:
        cell = cell_of(row, column)
        if cell is None:
            bad(line, f"no column '{column}'; {columns_here(row)}")
        elif not cell.strip():
            bad(line, f"an empty text under '{column}'")
        else:
            found.append(cell.strip())

    plain = source.endswith(_PLAIN)
    problems = read_each(source, (lambda bad: _lines(source, column)) if plain else None, add, bad_rows)
    if not found:
        raise UserError(f"{source} holds no texts", "give one text a line, or a table with a column of texts")
    return found, problems


def read_each(
    source: str,
    rows: Callable[[Bad], Iterable[Row]] | None,
    add: Callable[[int, Mapping[str, str], Bad], None],
    bad_rows: BadRows,
) -> tuple[BadRow, ...]:
    """Call `add` with each row of a file, or of `rows`; what it or the reader cannot read is returned, or an error."""
    found: list[BadRow] = []

    def bad(line: int, problem: str) -> None:
        if bad_rows == "refuse":
            raise bad_row(source, line, problem)
        found.append(BadRow(line, problem))

    for line, row in read_rows(source, bad) if rows is None else rows(bad):
        add(line, row, bad)
    return tuple(found)


def _lines(source: str, column: str) -> Iterator[Row]:
    """The lines of a plain file; empty ones separate texts."""
    with open_source(source) as file:
        for number, line in enumerate(file, start=1):
            if text := line.decode("utf-8-sig" if number == 1 else "utf-8").strip():
                yield number, {column: text}
