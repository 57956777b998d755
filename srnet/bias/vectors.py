"""Static word vectors for the bias features."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import torch

from srnet.backbones import load_backbone
from srnet.bias.vector_files import read_vectors
from srnet.errors import UserError

LARGEST = 1e15
"""Of a value: sums of squares must not overflow float32."""


class WordVectors:
    """Words with a vector each; an unknown word has the zero vector and is similar only to itself."""

    def __init__(self, vocabulary: Mapping[str, int], matrix: np.ndarray) -> None:
        self._index = vocabulary
        unknown = np.zeros((1, matrix.shape[1]), dtype=np.float32)
        self._matrix = np.concatenate([matrix, unknown], dtype=np.float32)
        if not (np.abs(self._matrix) < LARGEST).all():  # not: NaN is below nothing
            raise UserError("a word vector has a value that is non-finite or too large", "give other word vectors")

    @classmethod
    def from_backbone(cls, name: str) -> WordVectors:
        """The backbone's input embeddings of complete words, which every backbone has."""
        backbone = load_backbone(name, ("a", "b"), seed=0)
        weight = backbone.model.get_input_embeddings().weight.detach().to(torch.float32).numpy()
        return cls(dict(backbone.tokenizer.get_vocab()), weight)

    @classmethod
    def read(cls, source: str, keep: Collection[str] | None = None) -> WordVectors:
        """From a file: fastText's or GloVe's text, word2vec's .bin (each also .gz), .npz, or 'vectors.npy,words.txt'.

        Words are looked up in lower case. Only the vectors of words in `keep` are checked and held in memory.
        """
        found = read_vectors(source, keep)
        return cls({word: row for row, word in enumerate(found)}, np.stack(list(found.values())))

    def __len__(self) -> int:
        return len(self._index)

    @property
    def dim(self) -> int:
        return int(self._matrix.shape[1])

    def of(self, words: Sequence[str]) -> np.ndarray:
        """A row for each word."""
        unknown = len(self._matrix) - 1
        rows = np.array([self._index.get(word, unknown) for word in words], dtype=np.int64)
        return np.asarray(self._matrix.take(rows, axis=0))

    def unit(self, words: Sequence[str]) -> np.ndarray:
        """A row for each word, of length 1 unless the word is unknown."""
        vectors = self.of(words)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.where(norms > 0, norms, 1.0))
