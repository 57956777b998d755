"""What a shortcut can see: word overlap between the two texts, or one text alone."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from srnet.bias.vectors import WordVectors

_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def is_subsequence(inner: list[str], outer: list[str]) -> bool:
    """Whether `inner` occurs in `outer` without a gap."""
    size = len(inner)
    return any(outer[start : start + size] == inner for start in range(len(outer) - size + 1))


def overlap_row(premise: list[str], hypothesis: list[str], vectors: WordVectors | None) -> list[float]:
    """Clark et al. (2019): the features of the paper, in its order. The last two need word vectors."""
    if not hypothesis:
        return [0.0] * (3 if vectors is None else 5)
    known = set(premise)
    inside = [word in known for word in hypothesis]
    row = [float(all(inside)), float(is_subsequence(hypothesis, premise)), sum(inside) / len(inside)]
    if vectors is not None:
        best = vectors.best_similarities(hypothesis, premise)
        row += [float(best.mean()), float(best.min())]
    return row


def overlap_features(text_a: Sequence[str], text_b: Sequence[str], vectors: WordVectors | None) -> np.ndarray:
    rows = [overlap_row(words(a), words(b), vectors) for a, b in zip(text_a, text_b, strict=True)]
    return np.array(rows, dtype=np.float64)


def claim_features(text_b: Sequence[str], vectors: WordVectors) -> np.ndarray:
    """Max-pooled word vectors of the claim."""
    return np.stack([vectors.max_pooled(words(text)) for text in text_b])
