"""Tables of text: cells separated by commas, semicolons or tabs, with and without quotes."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from srnet.core.errors import UserError, shortened

Row = tuple[int, Mapping[str, str]]
"""The line of a row, and its texts by column."""
Bad = Callable[[int, str], None]
"""Called with the line and the problem of a row."""
_Dialect = Mapping[str, Any]
_COMMAS: _Dialect = {"delimiter": ","}
_SEMICOLONS: _Dialect = {"delimiter": ";"}
_TABS: _Dialect = {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
"""A quote is an ordinary character, as in the files of GLUE."""
_QUOTED_TABS: _Dialect = {"delimiter": "\t"}

csv.field_size_limit(sys.maxsize)  # long texts are allowed


def table_rows(
    source: str, lines: Iterable[str], again: Callable[[], Iterable[str]], bad: Bad, columns: list[str]
) -> Iterator[Row]:
    """The rows of a table. `again` gives its lines a second time, to look at them; `columns`: it has no header."""
    reader = csv.reader(lines, strict=True, **_dialect(source, again, columns))
    try:
        header = columns or next((cells for cells in reader if cells), [])
        if not header:
            raise UserError(f"{source} is empty", "give it a header and at least one example")
        check_names(f"{source}, line {reader.line_num}" if not columns else f"columns of {source}", header)
        width = len(header)
        for cells in reader:
            if len(cells) == width:
                yield reader.line_num, dict(zip(header, cells, strict=True))
            elif cells:
                bad(reader.line_num, f"{len(cells)} cells under {width} columns")
    except csv.Error as error:
        raise UserError(f"{source}, line {reader.line_num}: {error}", "check the quotes and separators") from None


def check_names(where: str, names: list[str]) -> None:
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UserError(f"{where}: column '{shortened(twice[0], 80)}' is named twice", "rename one of them")


def _dialect(source: str, again: Callable[[], Iterable[str]], columns: list[str]) -> _Dialect:
    if not source.removesuffix(".gz").endswith(".csv"):
        return _QUOTED_TABS if _has_csv_quotes(again(), len(columns)) else _TABS
    first = next((line for line in again() if line.strip()), "")
    # spreadsheets of many countries save a csv file with semicolons; one column of texts alone would be no task
    return _SEMICOLONS if ";" in first and "," not in first else _COMMAS


# --- tabs: whether quotes are characters of the texts, or mark cells as in a csv file -------------------------------


def _has_csv_quotes(lines: Iterable[str], width: int) -> bool:
    """Whether a table with tabs was written by a csv writer, such as that of pandas.

    It was if all its rows can be read so, each with as many cells as the header, and one of these is true:
    - The names in the header have quotes.
    - Some line has the wrong number of cells otherwise: a tab or a line break is inside quotes.
    - Every line is a row, and quotes are where a csv writer needs them: around cells that contain quotes, doubled. In a
      file in which quotes are characters, some cell begins or ends with one alone, or has one in the middle.
    """
    recorded = _Recorded(lines)
    wrong_widths = needless = is_used = spans_lines = False
    try:
        for cells in csv.reader(recorded, strict=True, **_QUOTED_TABS):
            read = recorded.taken()
            if not cells:
                continue
            if not width:
                width = len(cells)
                if all(name.startswith('"') for name in read[0].split("\t")):
                    wrong_widths = True  # no more evidence is needed
            if len(cells) != width:
                return False
            wrong_widths |= any(line.count("\t") != width - 1 for line in read)
            spans_lines |= len(read) > 1
            if any('"' in line for line in read):
                is_used = True
                needless |= "".join(read).rstrip("\r\n") != _written(cells)
    except csv.Error:
        return False
    return is_used and (wrong_widths or not (needless or spans_lines))


class _Recorded:
    """Lines that remember which were read since the last look."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines, self._taken = iter(lines), list[str]()

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self._taken.append(next(self._lines))
        return self._taken[-1]

    def taken(self) -> list[str]:
        taken, self._taken = self._taken, []
        return taken


def _written(cells: list[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="", **_QUOTED_TABS).writerow(cells)
    return buffer.getvalue()
