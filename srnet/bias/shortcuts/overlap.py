"""Word overlap: how the words of the second text overlap with those of the first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from srnet.bias.shortcuts.base import FeatureOptions, Features, ShortcutKind, register
from srnet.bias.texts import Tokens, for_each_chunk, tokenise
from srnet.tasks.base import Task

if TYPE_CHECKING:
    from srnet.bias.vectors import WordVectors

_WORDS_AT_ONCE = 8192
"""Premise words whose vectors are multiplied at a time: few enough for the processor's cache."""
_NAMES = ("all words are in the first text", "contiguous in the first text", "share of words in the first text")
_SIMILARITIES = ("mean similarity to the first text", "smallest similarity to the first text")
_LONGER = "log of the words that the first text has more"
_SECOND = "second-smallest similarity to the first text"


@register
class Overlap(ShortcutKind):
    """The features of Clark et al. (2019)."""

    name = "overlap"
    about = "word overlap between the two texts"
    sentence = "The suspected shortcut is word overlap: texts that share many words tend to have the same label."
    noun = "word overlap"
    of_pairs = True
    options = ("vectors", "extended")
    without_vectors = "words alone, no similarities: --vectors FILE adds them"

    def fit(self, task: Task, argument: str, options: FeatureOptions) -> Features:
        names = feature_names(options.vectors is not None, options.extended)
        return Features(
            names, lambda split: overlap_features(split.text_a, split.text_b, options.vectors, options.extended)
        )

    def described(self, argument: str, vectors: str | None, extended: bool) -> str:
        count = len(feature_names(vectors is not None, extended))
        return f"word overlap ({count} features, {vectors or 'no word vectors'})"


def feature_names(vectors: bool, extended: bool) -> tuple[str, ...]:
    similarities, second = (_SIMILARITIES, (_SECOND,)) if vectors else ((), ())
    return (*_NAMES, *similarities, *((_LONGER, *second) if extended else ()))


def overlap_features(
    text_a: Sequence[str], text_b: Sequence[str], vectors: WordVectors | None, extended: bool = False
) -> np.ndarray:
    """One row for each pair: how the words of `text_b` (the hypothesis) overlap with those of `text_a` (the premise).

    The features of Clark et al. (2019) in the paper's order: whether all words are in the premise; whether they are
    contiguous there; the share of words in the premise; and with word vectors, mean and minimum over the words of the
    highest cosine similarity to a word of the premise. A word without a vector is similar (1) to itself only.

    `extended` appends two more, as in the authors' tool: log(max(1, words of the premise - words of the
    hypothesis)), and with word vectors the second-smallest of those similarities, 0 if there is one word only.
    If either text has no words, everything is 0.
    """
    if len(text_a) != len(text_b):
        raise ValueError(f"{len(text_a)} premises for {len(text_b)} hypotheses")
    features = np.zeros((len(text_a), len(feature_names(vectors is not None, extended))))

    def fill(chunk: slice) -> None:
        pairs = _Pairs(tokenise([*text_a[chunk], *text_b[chunk]]))
        features[chunk][pairs.rows] = np.stack(_columns(pairs, vectors, extended), axis=1)

    for_each_chunk(len(text_a), fill)
    return features


def _columns(pairs: _Pairs, vectors: WordVectors | None, extended: bool) -> list[np.ndarray]:
    inside = pairs.words_inside()
    share = pairs.sums(inside) / pairs.lengths
    columns = [share == 1, pairs.in_a_row(share == 1), share]
    if vectors is not None:
        mean, smallest, second = pairs.similarities(~inside, vectors)
        columns += [mean, smallest]
    if extended:
        columns.append(np.log(np.maximum(1, pairs.premise_lengths - pairs.lengths)))
    if extended and vectors is not None:
        columns.append(second)
    return columns


class _Pairs:
    """The pairs with words on both sides, the longest premise first. A row is a pair's index in the chunk."""

    def __init__(self, tokens: Tokens) -> None:
        """`tokens`: of all premises, then of all hypotheses."""
        self._tokens = tokens
        (premise_starts, starts), (premise_lengths, lengths) = (
            np.split(each, 2) for each in (tokens.starts, tokens.counts)
        )
        order = np.argsort(-premise_lengths, kind="stable")
        self.rows = order[(premise_lengths[order] > 0) & (lengths[order] > 0)]
        self.premise_lengths, self.lengths = premise_lengths[self.rows], lengths[self.rows]
        self._premise_starts, self._starts = premise_starts[self.rows], starts[self.rows]
        # from here on the words of the hypotheses, in this order, are one array
        self._ends = np.cumsum(self.lengths)
        shift = np.repeat(self._starts - (self._ends - self.lengths), self.lengths)
        self._words = tokens.ids[np.arange(len(shift)) + shift]

    def sums(self, values: np.ndarray) -> np.ndarray:
        """The sum of the words' values, by hypothesis."""
        return np.diff(np.cumsum(values)[self._ends - 1], prepend=0)

    def words_inside(self) -> np.ndarray:
        """For each word of the hypotheses, whether the premise has it; compares one premise position at a time."""
        found = np.zeros(len(self._words), dtype=bool)
        place = np.repeat(self._premise_starts, self.lengths)
        for position in range(self.premise_lengths.max(initial=0)):
            pairs = np.searchsorted(-self.premise_lengths, -position)  # those whose premise is that long
            last = self._ends[pairs - 1]
            found[:last] |= self._tokens.ids[position:].take(place[:last]) == self._words[:last]
        return found

    def in_a_row(self, candidates: np.ndarray) -> np.ndarray:
        """Whether the hypothesis occurs in the premise as a contiguous sequence."""
        found, all_words, width = np.zeros(len(self.rows), dtype=bool), self._tokens.ids.tobytes(), self._words.itemsize
        for pair in np.flatnonzero(candidates & (self.lengths <= self.premise_lengths)).tolist():
            start, premise_start = self._starts[pair], self._premise_starts[pair]
            hypothesis = all_words[width * start : width * (start + self.lengths[pair])]
            premise = all_words[width * premise_start : width * (premise_start + self.premise_lengths[pair])]
            found[pair] = _occurs(hypothesis, premise, width)
        return found

    def similarities(self, outside: np.ndarray, vectors: WordVectors) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean, smallest and second-smallest of the words' highest similarities. A word inside the premise has 1."""
        unit = vectors.unit(self._tokens.vocabulary)
        counts = self.sums(outside)
        total = (self.lengths - counts).astype(np.float64)
        smallest, second = np.ones(len(counts)), np.where(self.lengths > 1, 1.0, 0.0)
        unmatched, ends = self._words[outside], np.cumsum(counts)
        for pairs, count in self._batches(counts):
            found = unmatched[ends[pairs, None] - np.arange(1, count + 1)]
            best = np.sort(_highest(unit, found, self._premises(pairs)), axis=1)
            total[pairs] += best.sum(axis=1)
            smallest[pairs] = best[:, 0]
            if count > 1:
                second[pairs] = best[:, 1]
        return total / self.lengths, smallest, second

    def _batches(self, counts: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
        """Pairs with the same count, and premises of about the same length, so that little is padded."""
        for count in np.unique(counts[counts > 0]):
            pairs = np.flatnonzero(counts == count)
            while len(pairs):
                size = max(1, _WORDS_AT_ONCE // int(self.premise_lengths[pairs[0]]))
                yield pairs[:size], int(count)
                pairs = pairs[size:]

    def _premises(self, pairs: np.ndarray) -> np.ndarray:
        """Their words, padded with the last one, which does not change a maximum."""
        lengths = self.premise_lengths[pairs, None]
        places = self._premise_starts[pairs, None] + np.minimum(np.arange(lengths[0, 0]), lengths - 1)
        return np.asarray(self._tokens.ids[places])


def _occurs(inner: bytes, outer: bytes, width: int) -> bool:
    """Whether `inner` is in `outer`, both made of items of `width` bytes."""
    at = outer.find(inner)
    while at >= 0 and at % width:
        at = outer.find(inner, at + 1)
    return at >= 0


def _highest(unit: np.ndarray, some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """For each word of a row of `some`, its highest similarity to a word of that row of `others`."""
    similarity = np.matmul(unit.take(some, axis=0), unit.take(others, axis=0).transpose(0, 2, 1))
    best = reduce(np.maximum, np.moveaxis(similarity, 2, 0))  # faster than max() of many short rows
    return np.asarray(np.minimum(best, 1.0))  # rounding may exceed 1
