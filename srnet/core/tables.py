"""Tables of text: one value for the terminal, Markdown, and cell by cell for HTML templates; results in a notebook."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Group
from rich.table import Table as Framed
from rich.text import Text

from srnet.core.errors import printable, shortened

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T", bound="Shown")
UNFOLDED = 16
"""Characters up to which names in the first column, such as keys, stay on one line of a terminal."""


@dataclass(frozen=True)
class Table:
    """Names of columns, and rows of cells, which may have several lines. A console of rich prints it with a frame."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    note: str = ""
    """What follows the table, in a terminal and on a page."""
    texts: Container[int] = (0,)
    """The numbers of the columns of text, which are aligned left; the others hold numbers."""
    soft: Container[int] = ()
    """The numbers of rows in a softer colour, such as baselines."""
    detail: bool = False
    """Whether it is for a page only."""

    def __rich__(self) -> Group:
        several_lines = any("\n" in cell for row in self.rows for cell in row)
        title = _terminal_text(self.title) if self.title else None
        framed = Framed(title=title, title_justify="left", show_lines=several_lines)
        for number, name in enumerate(self.columns):
            cells = [row[number] for row in self.rows]
            if number in self.texts:
                short = number == 0 and max(map(len, cells), default=0) <= UNFOLDED
                framed.add_column(_terminal_text(name), overflow="fold", no_wrap=short)
            else:  # a header may be folded, a number never
                longest = max((len(word) for cell in cells for word in cell.split()), default=1)
                framed.add_column(_terminal_text(name), overflow="fold", min_width=longest, justify="right")
        for number, row in enumerate(self.rows):
            framed.add_row(*map(_terminal_text, row), style="dim" if number in self.soft else None)
        note = [_terminal_text(self.note, "dim")] if self.note else []
        return Group(framed, *note)

    def markdown(self, bold: str = "") -> str:
        """The table without title and note; `bold` is the column that is printed in bold."""
        lines = [[*map(markdown_text, self.columns)], ["---"] * len(self.columns)]
        for row in self.rows:
            cells = zip(self.columns, (markdown_text(cell).replace("\n", "<br>") for cell in row), strict=True)
            lines.append([f"**{cell}**" if column == bold else cell for column, cell in cells])
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _terminal_text(cell: str, style: str = "") -> Text:
    """Text that a terminal shows unchanged: names that users choose may contain markup or control characters."""
    return Text("\n".join(map(printable, cell.split("\n"))), style)


def page_of_tables(title: str, lead: Sequence[str], tables: Sequence[Table], **rest: Any) -> bytes:
    """A page that fetches nothing: sentences, then tables, those of details folded; `rest` is what else it shows."""
    from jinja2 import Environment  # not at the top: commands that print tables need none

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["shortened"] = lambda text: shortened(text, 1000)
    template = environment.from_string(files("srnet.core").joinpath("page.html").read_text(encoding="utf-8"))
    return template.render(title=title, lead=lead, tables=tables, **rest).encode(errors="replace")


def markdown_text(text: str) -> str:
    """Text that Markdown shows unchanged."""
    return re.sub(r"[\\`*|]|\b_|_\b|\](?=\()", r"\\\g<0>", text).replace("&", "&amp;").replace("<", "&lt;")


class Shown:
    """A result as people look at it: one line in Python, a table in a notebook, a DataFrame for further work.

    `says` is the attribute with its sentences, `table` the one with its rows.
    """

    _says = _table = ""

    def __init_subclass__(cls, says: str = "", table: str = "") -> None:
        cls._says, cls._table = says, table

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {shortened(self._sentence(), 300)}>"

    def _repr_html_(self) -> str:
        table = self.to_pandas().to_html(index=False, max_rows=20, max_cols=12, na_rep="", float_format="{:.4g}".format)
        return f"<p>{escape(self._sentence())}</p>{table}"

    def to_pandas(self) -> pd.DataFrame:
        """As a table. A value with parts is several columns, such as `gain.low`; lists of such are not shown."""
        import pandas as pd  # not at the top: it is slow to import

        found = pd.json_normalize([plain(row) for row in self._rows()])
        return found.drop(columns=[name for name in found if any(map(_is_table, found[name]))])

    def _sentence(self) -> str:
        said = getattr(self, self._says)
        return said if isinstance(said, str) else " ".join(said)

    def _rows(self) -> list[Any]:
        return list(getattr(self, self._table)) if self._table else [self]


class ShownList(Shown, list[T]):
    """A list of results, with the rows of all."""

    def _sentence(self) -> str:
        return "; ".join(each._sentence() for each in self)

    def _rows(self) -> list[Any]:
        return [row for each in self for row in each._rows()]


def plain(value: Any) -> Any:
    """The value for JSON: a result as it says itself, a dataclass as its fields."""
    if hasattr(value, "to_json"):
        return plain(value.to_json())
    if is_dataclass(value):
        value = {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(each, dict) for each in value)
