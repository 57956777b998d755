"""Sentences with commands in backticks, for a page and for Markdown; names in a list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup, escape

from srnet.core.errors import UserError
from srnet.core.tables import markdown_text


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """The text in parts, each with whether it is code. A backtick without a second one is text."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        parts[-2:] = ["`".join(parts[-2:])]
    return ((part, number % 2 == 1) for number, part in enumerate(parts))


def html_of(text: str) -> Markup:
    """The text for a page: what is between backticks is code, everything else is shown unchanged."""
    code = Markup("<code>{}</code>")
    # a number and its percent sign stay on one line
    return Markup("").join(
        code.format(part) if is_code else escape(part.replace(" %", "\u00a0%")) for part, is_code in _parts(text)
    )


def markdown_of(text: str) -> str:
    """The text for Markdown."""
    return "".join(f"`{part}`" if is_code else markdown_text(part) for part, is_code in _parts(text))


def sentences(lead: str | Sequence[str]) -> tuple[str, ...]:
    """The sentences that a user gives for the beginning of a page; one may be a plain text."""
    given = (lead,) if isinstance(lead, str) else lead
    if not isinstance(given, Sequence) or not all(isinstance(each, str) for each in given):
        raise UserError("lead is not a list of sentences", 'give texts: lead=("First sentence.", "Second.")')
    return tuple(given)


def listed(names: Sequence[str], most: int | None = None) -> str:
    """The names with commas, and an "and" before the last; of more than `most`, the others as their number."""
    more = [] if most is None or len(names) <= most else [f"{len(names) - most} more"]
    shown = [*names[:most], *more]
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)
