"""Rows that occur twice, in a test set and in the training data."""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from srnet.tasks.splits import Split

_ASCII_SIGNS = {n: None for n in range(128) if not chr(n).isalnum()}
_MIXER = 0x9E3779B97F4A7C15
"""An odd number without a pattern: (a, b) and (b, a) get different keys."""


@dataclass(frozen=True)
class TextKeys:
    """A number for each text and each row of a split, blind to case, spaces and punctuation."""

    first: np.ndarray
    second: np.ndarray

    @property
    def rows(self) -> np.ndarray:
        with np.errstate(over="ignore"):
            mixed = self.first * np.uint64(_MIXER)
        return np.asarray(mixed ^ (mixed >> np.uint64(29)) ^ self.second)

    @property
    def repeated(self) -> int:
        """Rows that stand in the split more than once, without the first of each."""
        return len(self.first) - len(np.unique(self.rows))


def text_keys(split: Split) -> TextKeys:
    return TextKeys(_keys(split.text_a), _keys(split.text_b))


def _keys(texts: Sequence[str]) -> np.ndarray:
    return np.fromiter(map(hash, map(_normalised, texts)), np.int64, len(texts)).view(np.uint64)


def _normalised(text: str) -> str:
    folded = text.casefold()
    kept = folded.translate(_ASCII_SIGNS) if folded.isascii() else "".join(filter(_is_content, folded))
    return kept or text  # a text of punctuation only is compared unchanged


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
    pairs = ((test.rows, train.rows), (test.first, train.first), (test.second, train.second))
    return Shared(*(int(np.isin(some, others).sum()) for some, others in pairs))


def leaked(train: TextKeys, tests: Iterable[TextKeys]) -> list[int]:
    """The training rows that are also in a test set."""
    found = np.isin(train.rows, np.concatenate([np.empty(0, np.uint64), *(test.rows for test in tests)]))
    rows: list[int] = np.flatnonzero(found).tolist()
    return rows
