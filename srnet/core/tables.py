"""Tables of text: one value for the terminal, for Markdown, and cell by cell for HTML templates."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass

from rich.console import Group
from rich.table import Table as Framed
from rich.text import Text

from srnet.core.errors import printable

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


def markdown_text(text: str) -> str:
    """Text that Markdown shows unchanged."""
    return re.sub(r"[\\`*|]|\b_|_\b|\](?=\()", r"\\\g<0>", text).replace("&", "&amp;").replace("<", "&lt;")
