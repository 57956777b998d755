"""The bias features as one would write them down: a pair at a time, a word at a time."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def is_subsequence(inner: list[str], outer: list[str]) -> bool:
    size = len(inner)
    return any(outer[start : start + size] == inner for start in range(len(outer) - size + 1))


def best_similarities(hypothesis: list[str], premise: list[str], vectors: Mapping[str, np.ndarray]) -> np.ndarray:
    if not premise:
        return np.zeros(len(hypothesis))
    similarity = rows(hypothesis, vectors) @ rows(premise, vectors).T
    same = np.array([[a == b for b in premise] for a in hypothesis])
    return np.asarray(np.where(same, 1.0, similarity).max(axis=1))


def rows(some: list[str], vectors: Mapping[str, np.ndarray]) -> np.ndarray:
    zero = np.zeros(len(next(iter(vectors.values()))))
    return np.stack([vectors.get(word, zero) for word in some])


def unit_vectors(vectors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {word: vector / (np.linalg.norm(vector) or 1.0) for word, vector in vectors.items()}


def overlap_row(a: str, b: str, unit: Mapping[str, np.ndarray] | None, extended: bool) -> list[float]:
    premise, hypothesis = words(a), words(b)
    size = (3 if unit is None else 5) + (0 if not extended else 1 if unit is None else 2)
    if not hypothesis:
        return [0.0] * size
    known = set(premise)
    inside = [word in known for word in hypothesis]
    row = [float(all(inside)), float(is_subsequence(hypothesis, premise)), sum(inside) / len(inside)]
    best = None if unit is None else best_similarities(hypothesis, premise, unit)
    if best is not None:
        row += [float(best.mean()), float(best.min())]
    if extended:
        row.append(math.log(max(1, len(premise) - len(hypothesis))))
    if extended and best is not None:
        row.append(float(np.sort(best)[1]) if len(best) > 1 else 0.0)
    return row


def overlap_features(
    text_a: Sequence[str], text_b: Sequence[str], vectors: Mapping[str, np.ndarray] | None, extended: bool = False
) -> np.ndarray:
    unit = None if vectors is None else unit_vectors(vectors)
    return np.array([overlap_row(a, b, unit, extended) for a, b in zip(text_a, text_b, strict=True)])


def claim_features(text_b: Sequence[str], vectors: Mapping[str, np.ndarray]) -> np.ndarray:
    zero = np.zeros(len(next(iter(vectors.values()))))
    return np.stack([rows(words(b), vectors).max(axis=0) if words(b) else zero for b in text_b])
