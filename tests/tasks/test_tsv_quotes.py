"""Tables with tabs: quotes of a csv writer are recognised, and quotes that are characters stay."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from srnet.tasks.reading import read_rows

CELL = st.text(st.sampled_from("ab \"\t\n,'é"), max_size=8)
PLAIN = st.text(st.sampled_from("ab \"'é,"), max_size=8)
STYLES = st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])


def rows_of(cell: st.SearchStrategy[str]) -> st.SearchStrategy[list[list[str]]]:
    return st.lists(st.tuples(cell, cell).map(lambda two: [*two, "yes"]), min_size=1, max_size=6)


def read(content: str) -> list[list[str]]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "d.tsv"
        path.write_bytes(content.encode())
        return [list(row.values()) for _, row in read_rows(str(path))]


def is_wrapped(cell: str) -> bool:
    return len(cell) > 1 and cell[0] == cell[-1] == '"'


@given(rows_of(CELL), STYLES, st.sampled_from(["\n", "\r\n"]))
def test_what_a_csv_writer_wrote_is_read_as_it_was(rows: list[list[str]], style: int, end: str) -> None:
    spans = any("\t" in cell or "\n" in cell for row in rows for cell in row)
    text = io.StringIO()
    writer = csv.writer(text, delimiter="\t", quoting=style, lineterminator=end)  # type: ignore[arg-type]
    writer.writerows([["a", "b", "label"], *rows])
    raw_fits = all(line.count("\t") == 2 for line in text.getvalue().split(end) if line)
    # a cell with as many tabs and line breaks as complete rows could be several rows of a plain file
    assume(style != csv.QUOTE_MINIMAL or not spans or not raw_fits)
    assert read(text.getvalue()) == rows


@given(rows_of(PLAIN))
def test_quotes_that_no_csv_writer_wrote_are_characters(rows: list[list[str]]) -> None:
    quoted = [cell for row in rows for cell in row if '"' in cell]
    assume(any(not is_wrapped(cell) for cell in quoted))
    assert read("".join("\t".join(row) + "\n" for row in [["a", "b", "label"], *rows])) == rows


@pytest.mark.parametrize(
    ("content", "cells"),
    [
        ('a\tb\n"He said ""no"""\tx\n', ['He said "no"', "x"]),
        ('a\tb\n"one\ttwo"\tx\n', ["one\ttwo", "x"]),
        ('a\tb\n"one\ntwo"\tx\n', ["one\ntwo", "x"]),
        ('"a"\t"b"\n"one"\t"x"\n', ["one", "x"]),
        ('a\tb\n"one"\tx\n', ['"one"', "x"]),  # no writer needs these quotes
        ('a\tb\n" one\tx\n', ['" one', "x"]),
        ('a\tb\n5" and ""\tx\n', ['5" and ""', "x"]),
        ('a\tb\nx\t"one\ny\ttwo"\n', ["x", '"one']),  # two rows of two cells
    ],
    ids=repr,
)
def test_by_hand(content: str, cells: list[str]) -> None:
    assert read(content)[0] == cells


def test_one_stray_quote_decides_for_the_file() -> None:
    rows = ['"He said ""no"""\tx', '"unclosed\ty']
    assert [row[0] for row in read("a\tb\n" + "\n".join(rows) + "\n")] == ['"He said ""no"""', '"unclosed']


def test_semicolons(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text('text;label\n"good; really, good";yes\nbad;no\n')
    assert [list(row.values()) for _, row in read_rows(str(path))] == [["good; really, good", "yes"], ["bad", "no"]]
