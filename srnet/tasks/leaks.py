"""Rows that occur twice: in a split, or in a test set and in the training data."""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from srnet.tasks.splits import Split

_ASCII_SIGNS = bytes(n for n in range(128) if not chr(n).isalnum())
_MIXER = 0x9E3779B97F4A7C15
"""An odd number without a pattern: (a, b) and (b, a) get different keys."""


class Shared(NamedTuple):
    """How many rows of a test set share something with the training data."""

    rows: int
    first: int
    """Rows whose first text is the first text of a training row."""
    second: int


@dataclass(frozen=True)
class TextKeys:
    """A number for each text and each row of a split, independent of case, spaces and punctuation."""

    first: np.ndarray
    second: np.ndarray

    @classmethod
    def of(cls, split: Split) -> TextKeys:
        return cls(_keys(split.text_a), _keys(split.text_b))

    @cached_property
    def rows(self) -> np.ndarray:
        with np.errstate(over="ignore"):
            mixed = self.first * np.uint64(_MIXER)
        return np.asarray(mixed ^ (mixed >> np.uint64(29)) ^ self.second)

    @cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Keys of rows, first and second texts, each sorted once, however many test sets are looked up in them."""
        return np.sort(self.rows), np.sort(self.first), np.sort(self.second)

    @property
    def repeated(self) -> int:
        """How many rows repeat an earlier row of the split."""
        rows = self._sorted[0]
        return int((rows[1:] == rows[:-1]).sum())

    def shared_with(self, test: TextKeys) -> Shared:
        """What a test set shares with these, the training data."""
        pairs = zip((test.rows, test.first, test.second), self._sorted, strict=True)
        return Shared(*(int(_among(keys, known).sum()) for keys, known in pairs))

    def leaked(self, tests: Iterable[TextKeys]) -> list[int]:
        """The rows of these, the training data, that are also in a test set."""
        tested = np.sort(np.concatenate([np.empty(0, np.uint64), *(test.rows for test in tests)]))
        rows: list[int] = np.flatnonzero(_among(self.rows, tested)).tolist()
        return rows


def _keys(texts: Sequence[str]) -> np.ndarray:
    return np.fromiter(map(hash, map(_normalised, texts)), np.int64, len(texts)).view(np.uint64)


def _normalised(text: str) -> bytes:
    folded = text.casefold()
    kept = folded if folded.isascii() else "".join(filter(_is_content, folded))
    # a text of signs alone is compared as it is
    return kept.encode(errors="surrogatepass").translate(None, _ASCII_SIGNS) or text.encode(errors="surrogatepass")


@lru_cache(maxsize=10_000)
def _is_content(character: str) -> bool:
    """Letters, marks, numbers and symbols of all scripts: an emoji or a vowel sign of Hindi makes a different text."""
    return unicodedata.category(character)[0] in "LMNS" and character not in string.punctuation


def _among(keys: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Which keys are among `known`, which are sorted."""
    if not len(known):
        return np.zeros(len(keys), dtype=bool)
    places = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.asarray(known[places] == keys)
