"""Rows that occur twice, in a test set and in the training data."""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

from srnet.tasks.splits import Split

_ASCII_SIGNS = {n: None for n in range(128) if not chr(n).isalnum()}


def fingerprints(split: Split) -> Iterator[int]:
    """One number per row, which ignores case, spaces and punctuation."""
    for text_a, text_b in zip(split.text_a, split.text_b, strict=True):
        yield hash((_normalised(text_a), _normalised(text_b)))


def _normalised(text: str) -> str:
    folded = text.casefold()
    kept = folded.translate(_ASCII_SIGNS) if folded.isascii() else "".join(filter(_is_content, folded))
    return kept or text  # a text of punctuation only is compared unchanged


@lru_cache(maxsize=10_000)
def _is_content(character: str) -> bool:
    """Letters, marks, numbers and symbols of all scripts: an emoji or a vowel sign of Hindi makes a different text."""
    return unicodedata.category(character)[0] in "LMNS" and character not in string.punctuation


def leaked(train: Split, tests: Sequence[Split]) -> dict[str, tuple[int, list[int]]]:
    """By test set: how many of its rows are in the training data, and the indices of those training rows."""
    of = {test.name: list(fingerprints(test)) for test in tests}
    wanted = set().union(*of.values())
    rows: dict[int, list[int]] = {}
    for row, number in enumerate(fingerprints(train)):
        if number in wanted:
            rows.setdefault(number, []).append(row)
    return {
        name: (sum(number in rows for number in numbers), [row for n in set(numbers) for row in rows.get(n, [])])
        for name, numbers in of.items()
    }
