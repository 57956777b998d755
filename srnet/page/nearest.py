"""The rows of the training data that are most like a pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix, vstack
from sklearn.feature_extraction.text import TfidfTransformer

from srnet.bias.words import chunks, tokenise, words
from srnet.tasks.base import Task

ROWS = 100_000
"""Training rows that are compared; of more, a fixed sample."""
CHARACTERS = 1000
"""What is compared of a text: its beginning. With `ROWS` it bounds the memory."""
SHOWN = 5


@dataclass(frozen=True)
class Neighbour:
    id: str
    text_a: str
    text_b: str
    label: str
    similarity: float
    """Mean over the texts of the cosine between TF-IDF vectors: 1 for the same words."""


class TrainingRows:
    """TF-IDF vectors of the training texts, first and second ones apart, with one vocabulary."""

    def __init__(self, task: Task, most: int = ROWS) -> None:
        self._train = task.train if len(task.train) <= most else task.train.sample(most)
        self._labels = task.labels
        self._vocabulary: dict[str, int] = {}
        texts = [self._train.text_a, *([self._train.text_b] if any(self._train.text_b) else [])]
        counted = [self._count(each) for each in texts]
        # only now all words are known
        counts = [csr_matrix(each, shape=(len(self._train), max(1, len(self._vocabulary)))) for each in counted]
        self._weights = TfidfTransformer(sublinear_tf=True).fit(vstack(counts))
        self._vectors = [self._weights.transform(each).astype(np.float32) for each in counts]

    def __len__(self) -> int:
        return len(self._train)

    def nearest(self, text_a: str, text_b: str, most: int = SHOWN) -> list[Neighbour]:
        """The most similar rows, nearest first; none that shares no word."""
        asked = (text_a, text_b)[: len(self._vectors)]
        pairs = zip(self._vectors, map(self._vector, asked), strict=True)
        similarity = sum((vectors @ each for vectors, each in pairs), np.zeros(len(self), np.float32)) / len(asked)
        rows = np.argsort(-similarity, kind="stable")[:most]
        return [self._neighbour(row, float(similarity[row])) for row in rows.tolist() if similarity[row] > 0.0]

    def _neighbour(self, row: int, similarity: float) -> Neighbour:
        train = self._train
        label = self._labels[int(train.labels[row])]
        return Neighbour(train.ids[row], train.text_a[row], train.text_b[row], label, min(1.0, similarity))

    def _count(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """How often each word occurs in each text, as parts of a sparse matrix. New words join the vocabulary."""
        found, counts = [], []
        for chunk in chunks(len(texts)):
            tokens = tokenise([text[:CHARACTERS] for text in texts[chunk]])
            known = [self._vocabulary.setdefault(word, len(self._vocabulary)) for word in tokens.vocabulary]
            found.append(np.array(known, dtype=np.int32)[tokens.ids])
            counts.append(tokens.counts)
        columns = np.concatenate(found)
        ends = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
        return np.ones(len(columns), dtype=np.float32), columns, ends

    def _vector(self, text: str) -> np.ndarray:
        """TF-IDF of one text; words that no training row has do not count."""
        known = [self._vocabulary[word] for word in words(text[:CHARACTERS]) if word in self._vocabulary]
        counts = np.bincount(np.array(known, dtype=np.int64), minlength=max(1, len(self._vocabulary)))
        return np.asarray(self._weights.transform(csr_matrix(counts, dtype=np.float32)).toarray()[0])
