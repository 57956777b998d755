"""What carries a shortcut: features that go with a label more often than chance, corrected for all looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix, hstack, issparse
from scipy.stats import hypergeom

from srnet.bias.numbers import Numbers
from srnet.bias.shortcuts.base import FeatureMatrix
from srnet.evaluation.significance import LEVEL, holm

ALPHA = 1.0 - LEVEL
FEWEST = 5
"""Rows that a feature must have. A rarer one is not looked at."""
KEPT = 1000
"""Carriers of a kind that are kept at most."""
_MANY = 1000
_UNLIKELY = 3.0
"""With many looks, exact p-values are computed from so many standard deviations above chance on: the correction leaves
nothing below it certain."""


@dataclass(frozen=True)
class Carrier:
    """A feature, the label that it goes with, and how often."""

    feature: str
    label: str
    rows: int
    share: float
    """Its rows in percent of all training rows."""
    labels: tuple[float, ...]
    """The labels of its rows, in percent, in the task's order."""
    lift: float
    """How many times as often the label occurs as in all rows."""
    strength: float
    """The rows with this label beyond those that chance gives, in standard deviations: carriers are ranked by it."""
    p: float
    """Exact one-sided p-value, corrected by Holm's method for all features and labels looked at."""


class _Single:
    """A feature that is 0 or 1 already."""

    def __init__(self, name: str) -> None:
        self.names = (name,)

    def matrix(self, values: np.ndarray) -> csr_matrix:
        return csr_matrix(values[:, None])


class _Ranges:
    """Numbers in ranges with about as many training rows each."""

    def __init__(self, name: str, values: np.ndarray) -> None:
        self._numbers = Numbers.of(name, values)
        self.names = self._numbers.names[1:]

    def matrix(self, values: np.ndarray) -> csr_matrix:
        return self._numbers.matrix(values)[:, 1:]


class _Levels:
    """Shares between 0 and 1 as levels of 20 %."""

    def __init__(self, name: str) -> None:
        self.names = tuple(f"{name}: {20 * level} to {20 * level + 20} %" for level in range(5))

    def matrix(self, values: np.ndarray) -> csr_matrix:
        level = np.minimum((values * 5 + 1e-9).astype(np.int64), 4)
        return csr_matrix(np.eye(5)[level])


class Binary:
    """The features that a row has or has not. Numbers are taken in ranges, unless they are in ranges already."""

    def __init__(self, names: Sequence[str], x: FeatureMatrix) -> None:
        """`x`: the training rows, whose values are the ranges."""
        self._ranges: list[_Single | _Levels | _Ranges] = []
        if issparse(x):
            sparse: csr_matrix = x
            other = np.bincount(sparse.indices[sparse.data != 1], minlength=sparse.shape[1]) > 0
            self._kept = np.flatnonzero(~other)
            self.names = tuple(names[column] for column in self._kept.tolist())
            return
        for name, values in zip(names, np.asarray(x).T, strict=True):
            self._ranges.append(_in_ranges(name, values))
        self.names = tuple(name for each in self._ranges for name in each.names)

    def of(self, x: FeatureMatrix) -> csr_matrix:
        if issparse(x):
            return x[:, self._kept]
        columns = zip(self._ranges, np.asarray(x).T, strict=True)
        return hstack([each.matrix(values) for each, values in columns], "csr")


def _in_ranges(name: str, values: np.ndarray) -> _Single | _Levels | _Ranges:
    if np.isin(values, (0.0, 1.0)).all():
        return _Single(name)
    return _Levels(name) if values.min() >= 0.0 and values.max() <= 1.0 else _Ranges(name, values)


def find_carriers(
    names: Sequence[str], x: csr_matrix, y: np.ndarray, labels: Sequence[str], kept: int = KEPT
) -> tuple[Carrier, ...]:
    """The features that certainly go with a label, the strongest first. `x` has a 1 where a row has a feature."""
    table = np.asarray((x.T @ csr_matrix(np.eye(len(labels), dtype=np.int64)[y])).todense()).astype(np.int64)
    rows, totals = table.sum(axis=1), np.bincount(y, minlength=len(labels))
    looked = np.flatnonzero((rows >= FEWEST) & (rows < len(y)))
    beyond = _beyond_chance(table[looked], rows[looked], totals)
    p = _corrected(table[looked], rows[looked], totals, beyond)
    beyond = np.where(p < ALPHA, beyond, 0.0)
    best = beyond.argmax(axis=1)
    strength = beyond[np.arange(len(looked)), best]
    order = [at for at in np.argsort(-strength, kind="stable")[:kept] if strength[at] > 0]
    return tuple(
        Carrier(
            feature=names[looked[at]],
            label=labels[best[at]],
            rows=int(rows[looked[at]]),
            share=100.0 * float(rows[looked[at]]) / len(y),
            labels=tuple((100.0 * table[looked[at]] / rows[looked[at]]).tolist()),
            lift=float(table[looked[at], best[at]] / rows[looked[at]] * len(y) / totals[best[at]]),
            strength=float(strength[at]),
            p=float(p[at, best[at]]),
        )
        for at in order
    )


def _beyond_chance(table: np.ndarray, rows: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """By feature and label: rows beyond those expected, in standard deviations of the hypergeometric distribution."""
    total = int(totals.sum())
    share, rows = totals / total, rows[:, None]
    variance = rows * share * (1 - share) * (total - rows) / max(total - 1, 1)
    return np.asarray((table - rows * share) / np.sqrt(np.maximum(variance, 1e-12)))


def _corrected(table: np.ndarray, rows: np.ndarray, totals: np.ndarray, beyond: np.ndarray) -> np.ndarray:
    """Corrected p-values by feature and label, of "more rows of this label than chance gives" (Fisher's exact test)."""
    p = np.ones(table.shape)
    at = np.nonzero(beyond > (_UNLIKELY if table.size > _MANY else 0.0))
    p[at] = hypergeom.sf(table[at] - 1, totals.sum(), totals[at[1]], rows[at[0]])
    return np.array(holm(p.ravel().tolist())).reshape(p.shape)
