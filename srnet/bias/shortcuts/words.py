"""The words of the texts alone: of the second text (claim), or of all there is (words)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from srnet.bias.shortcuts.base import FeatureOptions, Features, ShortcutKind, has_pairs, register
from srnet.bias.texts import Tokens, chunks, for_each_chunk, tokenise
from srnet.core.errors import UserError
from srnet.tasks.base import Task
from srnet.tasks.splits import Split

if TYPE_CHECKING:
    from srnet.bias.vectors import WordVectors

_Side = Callable[[Split], Sequence[str]]
_FIRST: _Side = lambda split: split.text_a  # noqa: E731
_SECOND: _Side = lambda split: split.text_b  # noqa: E731


class _Words(ShortcutKind):
    """A bag of words for each text, or with word vectors the maximum in each dimension."""

    options = ("vectors",)
    without_vectors = "a bag of words: --vectors FILE uses max-pooled word vectors, as the paper does"

    def sides(self, task: Task) -> dict[str, _Side]:
        """The texts that are read, by what is said behind a word."""
        raise NotImplementedError

    def fit(self, task: Task, argument: str, options: FeatureOptions) -> Features:
        sides, vectors = self.sides(task), options.vectors
        if vectors is not None:
            names = tuple(f"dimension {n}{side}" for side in sides for n in range(vectors.dim))
            return Features(names, lambda split: np.hstack([pooled(of(split), vectors) for of in sides.values()]))
        bags = {side: Bag.of(of(task.train)) for side, of in sides.items()}
        names = tuple(f"{word}{side}" for side, bag in bags.items() for word in bag.words)
        if not names:
            fix = "give more training data, or word vectors"
            raise UserError(f"task '{task.name}': no word occurs in two texts of {task.train.name}", fix)
        return Features(names, lambda split: _hstack([bag.matrix(sides[side](split)) for side, bag in bags.items()]))

    def described(self, argument: str, vectors: str | None, extended: bool) -> str:
        how = "a bag of words, no word vectors" if vectors is None else f"the maximum in each dimension, {vectors}"
        return f"{self.about} ({how})"


@register
class Claim(_Words):
    """The second text alone: a hypothesis, a claim."""

    name = "claim"
    about = "the second text alone"
    sentence = "The suspected shortcut is the second text alone: its words tell much about the label without the first."
    of_pairs = True

    def sides(self, task: Task) -> dict[str, _Side]:
        return {"": _SECOND}


@register
class Words(_Words):
    """All words: of the only text, or of both, told apart."""

    name = "words"
    about = "the words alone, without their order"
    sentence = "The suspected shortcut are single words: they tell much about the label without the rest of the text."
    noun = "the choice of words"

    def sides(self, task: Task) -> dict[str, _Side]:
        return {" (first text)": _FIRST, " (second text)": _SECOND} if has_pairs(task) else {"": _FIRST}


# --- bags of words -------------------------------------------------------------------------------------------------


class Bag:
    """Texts as the words that they contain, of those that occur in at least two of the texts it was fitted on."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)
        self._column = {word: column for column, word in enumerate(words)}

    @classmethod
    def of(cls, texts: Sequence[str]) -> Bag:
        counts: Counter[str] = Counter()
        for chunk in chunks(len(texts)):
            tokens = tokenise(texts[chunk])
            _, words = _distinct(tokens, np.arange(len(tokens.vocabulary)))
            counts.update(
                dict(zip(tokens.vocabulary, np.bincount(words, minlength=len(tokens.vocabulary)).tolist(), strict=True))
            )
        return cls(sorted(word for word, count in counts.items() if count > 1))

    def matrix(self, texts: Sequence[str]) -> Any:
        """A row for each text: 1 where it has the word of the column."""
        from scipy.sparse import csr_matrix

        lengths, columns = [np.zeros(1, np.int64)], [np.zeros(0, np.int32)]
        for chunk in chunks(len(texts)):
            tokens = tokenise(texts[chunk])
            known = np.array([self._column.get(word, -1) for word in tokens.vocabulary], np.int64)
            rows, words = _distinct(tokens, known)
            lengths.append(np.bincount(rows, minlength=len(tokens.counts)))
            columns.append(words.astype(np.int32))
        ends, indices = np.cumsum(np.concatenate(lengths)), np.concatenate(columns)
        # counts of scikit-learn's CountVectorizer are of this type too
        return csr_matrix((np.ones(len(indices), np.int64), indices, ends), (len(texts), len(self.words)))


def _distinct(tokens: Tokens, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(row, column) of every word of every text, each once, in order. `columns`: by word, or -1 to leave it out."""
    rows, found = np.repeat(np.arange(len(tokens.counts)), tokens.counts), columns[tokens.ids]
    width = int(columns.max(initial=0)) + 1
    pairs = np.unique((rows * width + found)[found >= 0])
    return pairs // width, pairs % width


def _hstack(matrices: list[Any]) -> Any:
    from scipy.sparse import hstack

    return matrices[0] if len(matrices) == 1 else hstack(matrices, "csr")


def pooled(texts: Sequence[str], vectors: WordVectors) -> np.ndarray:
    """The maximum of the word vectors of each text, in each dimension."""
    features = np.zeros((len(texts), vectors.dim), dtype=np.float32)

    def fill(chunk: slice) -> None:
        tokens = tokenise(texts[chunk])
        filled = np.flatnonzero(tokens.counts)
        if len(filled):
            of_words = vectors.of(tokens.vocabulary).take(tokens.ids, axis=0)
            features[chunk][filled] = np.maximum.reduceat(of_words, tokens.starts[filled])

    for_each_chunk(len(texts), fill)
    return features
