"""Rows that occur twice, in a test set and in the training data."""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from srnet.tasks.splits import Split

_ASCII_SIGNS = bytes(n for n in range(128) if not chr(n).isalnum())
_MIXER = 0x9E3779B97F4A7C15
"""An odd number without a pattern: (a, b) and (b, a) get different keys."""


@dataclass(frozen=True)
class TextKeys:
    """A number for each text and each row of a split, blind to case, spaces and punctuation."""

    first: np.ndarray
    second: np.ndarray

    @cached_property
    def rows(self) -> np.ndarray:
        with np.errstate(over="ignore"):
            mixed = self.first * np.uint64(_MIXER)
        return np.asarray(mixed ^ (mixed >> np.uint64(29)) ^ self.second)

    @cached_property
    def in_order(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Keys of rows, first and second texts, each sorted once, however many test sets are looked up in them."""
        return np.sort(self.rows), np.sort(self.first), np.sort(self.second)

    @property
    def repeated(self) -> int:
        """Rows that stand in the split more than once, without the first of each."""
        rows = self.in_order[0]
        return int((rows[1:] == rows[:-1]).sum())


def text_keys(split: Split) -> TextKeys:
    return TextKeys(_keys(split.text_a), _keys(split.text_b))


def _keys(texts: Sequence[str]) -> np.ndarray:
    return np.fromiter(map(hash, map(_normalised, texts)), np.int64, len(texts)).view(np.uint64)


def _normalised(text: str) -> bytes:
    folded = text.casefold()
    kept = folded if folded.isascii() else "".join(filter(_is_content, folded))
    # a text of nothing but signs is compared as it stands
    return kept.encode(errors="surrogatepass").translate(None, _ASCII_SIGNS) or text.encode(errors="surrogatepass")


@lru_cache(maxsize=10_000)
def _is_content(character: str) -> bool:
    """Letters, marks, numbers and symbols of all scripts: an emoji or a vowel sign of Hindi makes a different text."""
    return unicodedata.category(character)[0] in "LMNS" and character not in string.punctuation


@dataclass(frozen=True)
class Shared:
    """How many rows of a test set share something with the training data."""

    rows: int
    first: int
    """Rows whose first text is the first text of a training row."""
    second: int


def shared_with(train: TextKeys, test: TextKeys) -> Shared:
    looked_up = zip((test.rows, test.first, test.second), train.in_order, strict=True)
    return Shared(*(int(_inside(some, others).sum()) for some, others in looked_up))


def leaked(train: TextKeys, tests: Iterable[TextKeys]) -> list[int]:
    """The training rows that are also in a test set."""
    tested = np.sort(np.concatenate([np.empty(0, np.uint64), *(test.rows for test in tests)]))
    rows: list[int] = np.flatnonzero(_inside(train.rows, tested)).tolist()
    return rows


def _inside(some: np.ndarray, in_order: np.ndarray) -> np.ndarray:
    """Which numbers are among sorted ones."""
    if not len(in_order):
        return np.zeros(len(some), dtype=bool)
    places = np.minimum(np.searchsorted(in_order, some), len(in_order) - 1)
    return np.asarray(in_order[places] == some)
