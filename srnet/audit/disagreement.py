"""The rows worth reading: those on which the models disagree, worst first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from srnet.audit.rows import Judged


@dataclass(frozen=True)
class Found:
    """A row of a split. `blame`: the highest probability that a wrong model gave its answer; 0 if all are right."""

    judged: Judged
    place: int
    """The number of the split."""
    row: int
    blame: float
    disagree: bool

    @property
    def wrong(self) -> tuple[bool, ...]:
        label = self.judged.labels[self.row]
        return tuple(bool(each.answers[self.row] != label) for each in self.judged.models)


def blame(judged: Judged) -> np.ndarray:
    """For each row, how confidently one of the models is wrong."""
    wrong = [np.where(judged.right(number), 0.0, each.confidence) for number, each in enumerate(judged.models)]
    return np.asarray(np.max(wrong, axis=0))


def disagree(judged: Judged) -> np.ndarray:
    """Whether the models give different answers. A single model is held against the labels."""
    if len(judged.models) < 2:
        return ~judged.right(0)
    a, b = judged.models
    return np.asarray(a.answers != b.answers)


def disagreements(splits: Sequence[Judged]) -> Iterator[Found]:
    """All rows on which the models disagree, those first on which one is most confidently wrong."""
    return (each for each in worst_first(splits) if each.disagree)


def worst_first(splits: Sequence[Judged]) -> Iterator[Found]:
    """All rows: disagreements, then what is wrong all the same, then the rest. Made one at a time."""
    of, rows = (np.concatenate(parts) for parts in zip(*map(_places, range(len(splits)), splits), strict=True))
    blames, differ = (np.concatenate([measure(each) for each in splits]) for measure in (blame, disagree))
    for place in np.lexsort((-blames, ~differ)):
        yield Found(splits[of[place]], int(of[place]), int(rows[place]), float(blames[place]), bool(differ[place]))


def _places(number: int, judged: Judged) -> tuple[np.ndarray, np.ndarray]:
    size = len(judged.split)
    return np.full(size, number), np.arange(size)
