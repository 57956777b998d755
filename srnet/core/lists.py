"""Texts in one line, with commas between them as in a line of a csv file."""

from __future__ import annotations

import csv
from collections.abc import Iterable

from srnet.core.errors import UserError, reason


def with_commas(texts: Iterable[str]) -> str:
    """Several texts as one; one that has a comma itself is in double quotes."""
    return ",".join(map(quoted, texts))


def at_commas(text: str) -> list[str]:
    """The texts of such a line, without the spaces around them."""
    try:
        rows = list(csv.reader([text], skipinitialspace=True, strict=True))
    except csv.Error as error:
        raise UserError(f"{text!r:.80}: {reason(error)}", 'write a name with a comma in quotes: "a,b"') from None
    return [part.strip() for row in rows for part in row]


def quoted(text: str) -> str:
    """A text as it stands in such a line."""
    return '"' + text.replace('"', '""') + '"' if "," in text or text.startswith('"') else text
