"""From two lists of texts to what a model reads, and a classifier of such texts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from srnet.tasks.splits import Split
from srnet.training import Encoded
from srnet.training.data import encode


def encode_pairs(text_a: Sequence[str], text_b: Sequence[str], tokenizer: Any, max_length: int, pairs: bool) -> Encoded:
    """Tokens of each pair, as in training. With `pairs` a last row is added, which belongs to no text.

    `encode` reads a split without any second text as single texts. With the added row, a pair whose second text is
    empty is encoded the same way whichever rows come with it.
    """
    first, second = ((*map(_encodable, texts), ".") for texts in (text_a, text_b))
    if not pairs:
        first, second = first[:-1], ("",) * len(text_a)
    ids = tuple(map(str, range(len(first))))
    labels = np.zeros(len(first), dtype=np.int64)
    return encode(Split("rows", "ID", ids, first, second, labels, ("",) * len(first)), tokenizer, max_length)


def _encodable(text: str) -> str:
    """Without lone surrogates, which JSON can hold and tokenizers refuse."""
    return text if text.isascii() else text.encode(errors="replace").decode()


@dataclass(frozen=True)
class TextClassifier(ABC):
    """A model in memory with its tokenizer."""

    name: str
    labels: tuple[str, ...]
    model: Any
    tokenizer: Any
    max_length: int
    pairs: bool = True
    """Whether there is a second text, even where it is empty."""

    def logits(self, text_a: Sequence[str], text_b: Sequence[str]) -> np.ndarray:
        if not text_a:
            return np.empty((0, len(self.labels)), dtype=np.float32)
        data = encode_pairs(text_a, text_b, self.tokenizer, self.max_length, self.pairs)
        return self.predict(data)[: len(text_a)]

    @abstractmethod
    def predict(self, data: Encoded) -> np.ndarray:
        """The logits of every row."""
