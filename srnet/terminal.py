"""The console that everything for the user is printed on: names and texts of others cannot control the terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.highlighter import JSONHighlighter
from rich.segment import Segment
from rich.text import Text

from srnet.errors import printable

NARROWEST = 20
"""Characters of a line. A table in fewer columns shows nothing."""
USUAL = 80


class Terminal(Console):
    """A console that replaces control characters, and takes no text for markup."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)
        if self.width < NARROWEST:  # COLUMNS=0 says that the width is unknown
            self.width = USUAL

    def render_str(self, text: str, **options: Any) -> Text:  # type: ignore[override]
        """Before it is measured, so that the columns of tables stay aligned."""
        return super().render_str(_cleaned(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Whatever is printed comes through here. Codes of rich itself, such as colours, are no text."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(_cleaned(segment.text), segment.style)

    def print_json(self, *, data: Any, default: Callable[[Any], Any] | None = None) -> None:  # type: ignore[override]
        """As JSON that stays exact: control characters are escaped."""
        text = json.dumps(data, indent=2, ensure_ascii=False, default=default)
        self.print(JSONHighlighter()(re.sub(r"[^\n -~]", _escaped, text)), soft_wrap=True)


def _cleaned(text: str) -> str:
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


def _escaped(found: re.Match[str]) -> str:
    return found[0] if printable(found[0]) == found[0] else json.dumps(found[0])[1:-1]
