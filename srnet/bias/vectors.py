"""Static word vectors for the bias features."""

from __future__ import annotations

import numpy as np
import torch

from srnet.backbones import load_backbone


class WordVectors:
    """Words with a vector each; an unknown word has the zero vector and is similar only to itself."""

    def __init__(self, vocabulary: dict[str, int], matrix: np.ndarray) -> None:
        self.matrix = matrix.astype(np.float32)
        self._index = vocabulary
        norms = np.linalg.norm(self.matrix, axis=1, keepdims=True)
        self._unit = self.matrix / np.where(norms > 0, norms, 1.0)

    @classmethod
    def from_backbone(cls, name: str) -> WordVectors:
        """The backbone's own input embeddings of whole words: static vectors that every backbone brings along."""
        backbone = load_backbone(name, ("a", "b"), seed=0)
        weight = backbone.model.get_input_embeddings().weight.detach().to(torch.float32).numpy()
        return cls(dict(backbone.tokenizer.get_vocab()), weight)

    def _rows(self, words: list[str], matrix: np.ndarray) -> np.ndarray:
        rows = [matrix[self._index[w]] if w in self._index else np.zeros(matrix.shape[1], matrix.dtype) for w in words]
        return np.stack(rows) if rows else np.zeros((0, matrix.shape[1]), matrix.dtype)

    def best_similarities(self, words: list[str], others: list[str]) -> np.ndarray:
        """For each word the highest cosine similarity to any of `others`."""
        if not others:
            return np.zeros(len(words))
        similarity = self._rows(words, self._unit) @ self._rows(others, self._unit).T
        same = np.array([[a == b for b in others] for a in words])
        return np.asarray(np.where(same, 1.0, similarity).max(axis=1))

    def max_pooled(self, words: list[str]) -> np.ndarray:
        if not words:
            return np.zeros(self.matrix.shape[1], dtype=np.float32)
        return np.asarray(self._rows(words, self.matrix).max(axis=0))
