"""The bias model: features of a shortcut (word overlap, or one text alone), and a cross-fitted linear model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import torch
from scipy.sparse import csr_matrix, issparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from srnet.bias.vectors import WordVectors
from srnet.core.errors import UserError
from srnet.tasks.base import Shortcut, Task
from srnet.tasks.splits import Split

_CHUNK = 8192
"""How many texts (or pairs of them) are held as words at a time."""
_WORDS_AT_ONCE = 8192
"""Premise words whose vectors are multiplied at a time: few enough for the processor's cache."""

# --- texts as words ------------------------------------------------------------------------------------------------

_WORD = re.compile(r"\w+")
_SPACE = ord(" ")
# In ASCII a word consists of letters, digits and underscores. Bytes from 128 on only come from `words`, so they stay.
_BETWEEN = bytes(byte for byte in range(128) if not _WORD.match(chr(byte)))
_TO_LOWER = bytes(_SPACE if byte in _BETWEEN else byte for byte in bytes(range(256)).lower())


def words(text: str) -> list[str]:
    """The words of one text, in lower case."""
    return _WORD.findall(text.lower())


@dataclass(frozen=True)
class _Tokens:
    """The words of some texts in one array, each as its index in `vocabulary`."""

    ids: np.ndarray
    counts: np.ndarray
    """How many words each text has."""
    vocabulary: list[str]

    @property
    def starts(self) -> np.ndarray:
        return np.asarray(np.cumsum(self.counts) - self.counts)


def _as_bytes(text: str) -> str:
    """The words in UTF-8, a character for each byte. Outside of ASCII, lower() and \\w need the text itself."""
    return " ".join(words(text)).encode().decode("latin-1")


def tokenise(texts: Sequence[str]) -> _Tokens:
    """The same as `words` of each text, but fast: all texts are one array of bytes."""
    plain = [text if text.isascii() else _as_bytes(text) for text in texts]
    text_ends = np.cumsum(np.fromiter(map(len, plain), np.int64, len(plain)) + 1)
    raw = " ".join(("", *plain, "")).encode("latin-1")
    # it begins and ends with a space, so every word has two edges
    in_word = np.frombuffer(raw.translate(_TO_LOWER), np.uint8) != _SPACE
    edges = np.flatnonzero(in_word[1:] != in_word[:-1])
    starts, ends = edges[::2], edges[1::2]
    offsets = np.zeros(len(starts) + 1, np.int32)
    np.cumsum(ends - starts, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(raw.translate(_TO_LOWER, delete=_BETWEEN))]
    encoding = pa.Array.from_buffers(pa.string(), len(starts), buffers).dictionary_encode()
    counts = np.diff(np.searchsorted(starts, text_ends), prepend=0)
    return _Tokens(encoding.indices.to_numpy(), counts, encoding.dictionary.to_pylist())


def chunks(size: int) -> Iterator[slice]:
    return (slice(start, start + _CHUNK) for start in range(0, size, _CHUNK))


def _for_each_chunk(size: int, function: Callable[[slice], None]) -> None:
    """Call `function` on as many threads as torch may use: most of the time is spent outside the GIL."""
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        for _ in pool.map(function, chunks(size)):  # reads every result, so that an error is raised here
            pass


def task_vocabulary(task: Task) -> set[str]:
    """Every word of every split: the words to keep of a file of word vectors."""
    texts = [text for split in task.splits.values() for text in (*split.text_a, *split.text_b)]
    return {word for chunk in chunks(len(texts)) for word in tokenise(texts[chunk]).vocabulary}


# --- overlap between two texts -------------------------------------------------------------------------------------


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
    width = (3 if vectors is None else 5) + (0 if not extended else 1 if vectors is None else 2)
    features = np.zeros((len(text_a), width))

    def fill(chunk: slice) -> None:
        pairs = _Pairs(tokenise([*text_a[chunk], *text_b[chunk]]))
        features[chunk][pairs.rows] = np.stack(_columns(pairs, vectors, extended), axis=1)

    _for_each_chunk(len(text_a), fill)
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

    def __init__(self, tokens: _Tokens) -> None:
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


# --- one text alone ------------------------------------------------------------------------------------------------


def _claim_features(text_b: Sequence[str], vectors: WordVectors) -> np.ndarray:
    """Max-pooled word vectors of the claim."""
    features = np.zeros((len(text_b), vectors.dim), dtype=np.float32)

    def fill(chunk: slice) -> None:
        tokens = tokenise(text_b[chunk])
        filled = np.flatnonzero(tokens.counts)
        if len(filled):
            of_words = vectors.of(tokens.vocabulary).take(tokens.ids, axis=0)
            features[chunk][filled] = np.maximum.reduceat(of_words, tokens.starts[filled])

    _for_each_chunk(len(text_b), fill)
    return features


def _claim_vocabulary(text_b: Sequence[str]) -> CountVectorizer:
    """A claim as a bag of words, without word vectors: of the words that occur in at least two of these claims."""
    try:
        return CountVectorizer(analyzer=words, binary=True, min_df=2).fit(text_b)
    except ValueError as error:  # no word is left
        raise UserError("no word occurs in two claims", "give more training data, or word vectors") from error


# --- the bias model: a linear classifier on the features of the shortcut. ---

FeatureMatrix: TypeAlias = np.ndarray | csr_matrix


@dataclass(frozen=True)
class BiasPredictions:
    """Log-probabilities of the bias model, by example id."""

    ids: tuple[str, ...]
    log_probs: np.ndarray

    def for_ids(self, ids: tuple[str, ...]) -> np.ndarray:
        rows = {id: row for row, id in enumerate(self.ids)}
        missing = [id for id in ids if id not in rows]
        if missing:
            raise UserError(f"the bias model has no prediction for example '{missing[0]}'", "fit it on this data")
        return self.log_probs[[rows[id] for id in ids]]


def _classifier(x: FeatureMatrix) -> Pipeline:
    if issparse(x):
        # Binary features need no scaling, which would inflate rare words. Newton's method needs a tenth of the steps
        # for thousands of words.
        return make_pipeline(LogisticRegression(solver="newton-cg", max_iter=1000))
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


def _alike(x: FeatureMatrix) -> np.ndarray | None:
    """A number for each row, the same for rows that are alike; None if they are better fitted one by one.

    Word bags are: with weights, Newton's method would stop at another of the points within its tolerance.
    """
    if issparse(x):
        return None
    rows, numbers = np.unique(x, axis=0, return_inverse=True)
    return numbers.reshape(-1) if 2 * len(rows) < len(x) else None


def _fit(x: FeatureMatrix, y: np.ndarray, alike: np.ndarray | None, rows: np.ndarray) -> Pipeline:
    """Fitted on some rows. Those that are alike are one row with a weight: the same sum with fewer terms.

    Without word vectors a million pairs have some thousand different rows of overlap features.
    """
    model = _classifier(x)
    if alike is None:
        return model.fit(x[rows], y[rows])
    _, first, counts = np.unique(alike[rows] * (y.max() + 1) + y[rows], return_index=True, return_counts=True)
    weights = {f"{name}__sample_weight": counts for name in model.named_steps}
    return model.fit(x[rows[first]], y[rows[first]], **weights)


def _predict(model: Pipeline, x: FeatureMatrix, classes: int) -> np.ndarray:
    log_probs = np.full((x.shape[0], classes), -np.inf)
    log_probs[:, model.classes_] = model.predict_log_proba(x)  # a class absent from a fold keeps probability 0
    return log_probs


@dataclass(frozen=True)
class _BiasScorer:
    """The bias model for texts that it was not fitted on, such as dev and the OOD sets."""

    of_split: Callable[[Split], FeatureMatrix]
    """The features of a split."""
    model: Pipeline
    classes: int

    def log_probs(self, text_a: Sequence[str], text_b: Sequence[str]) -> np.ndarray:
        """A row for each pair, a column for each label."""
        ids, labels = tuple(map(str, range(len(text_a)))), np.zeros(len(text_a), dtype=np.int64)
        split = Split("pairs", "ID", ids, tuple(text_a), tuple(text_b), labels, ("",) * len(ids))
        return _predict(self.model, self.of_split(split), self.classes)


def fit_bias_scorer(
    task: Task, shortcut: Shortcut, vectors: WordVectors | None, *, extended: bool = False
) -> _BiasScorer:
    """The bias model fitted on all training data."""
    of_split = _features_of(task, shortcut, vectors, extended)
    x, y = of_split(task.train), task.train.labels
    return _BiasScorer(of_split, _fit(x, y, _alike(x), np.arange(len(y))), len(task.labels))


def _features_of(
    task: Task, shortcut: Shortcut, vectors: WordVectors | None, extended: bool
) -> Callable[[Split], FeatureMatrix]:
    """The features of the shortcut, as a function of a split."""
    if shortcut == "overlap":
        return lambda split: overlap_features(split.text_a, split.text_b, vectors, extended)
    if vectors is not None:
        return lambda split: _claim_features(split.text_b, vectors)
    vocabulary = _claim_vocabulary(task.train.text_b)
    return lambda split: vocabulary.transform(split.text_b)


def fit_bias_model(
    task: Task, shortcut: Shortcut, vectors: WordVectors | None, folds: int, *, extended: bool = False
) -> dict[str, BiasPredictions]:
    """Predictions for every split. Training examples are scored by a model not fitted on them (cross-fitting).

    A claim without word vectors is a bag of the words of the training split. The folds share that vocabulary: it does
    not depend on labels, and a word that does not occur in a fold has weight 0 there.
    """
    classes, y = len(task.labels), task.train.labels
    if len(np.unique(y)) < 2:
        raise UserError(f"task '{task.name}': the train split has one label only", "a bias model needs two")
    if not any(task.train.text_b):
        raise UserError(f"task '{task.name}' has no second text, which the shortcut is measured on", "give it one")
    rarest = int(np.unique(y, return_counts=True)[1].min())
    if not 2 <= folds <= rarest:
        raise UserError(
            f"{folds} folds do not fit a label with {rarest} training examples", "choose 2 to that many folds"
        )
    of_split = _features_of(task, shortcut, vectors, extended)
    x = of_split(task.train)
    alike = _alike(x)
    crossed = np.full((len(y), classes), -np.inf)
    for seen, unseen in StratifiedKFold(folds, shuffle=True, random_state=0).split(x, y):
        crossed[unseen] = _predict(_fit(x, y, alike, seen), x[unseen], classes)
    result = {task.train.name: BiasPredictions(task.train.ids, crossed)}
    others = {name: split for name, split in task.splits.items() if name != task.train.name}
    whole = _fit(x, y, alike, np.arange(len(y)))
    return result | {n: BiasPredictions(s.ids, _predict(whole, of_split(s), classes)) for n, s in others.items()}
