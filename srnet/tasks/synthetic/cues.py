"""Two kinds of noisy evidence for a label, and the optimal classifiers.

The relation between the two texts agrees with the label with probability 1 - noise. A cue, which is independent of the
relation given the label, has a strength s and points at a label: the right one with probability
e^s / (e^s + classes - 1), which is sigmoid(s) for two classes. So the best in-distribution classifier adds both, and
follows the cue wherever it is stronger; a debiased classifier uses the relation alone. Out of distribution the label is
the relation, and the cue points at a random label of the challenge set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import NamedTuple

import numpy as np

from srnet.tasks.base import CE_OPTIMAL, DEBIASED


class Draw(NamedTuple):
    label: int
    relation: int
    grade: int
    """The index of the cue's strength; 0 is no cue."""
    towards: int
    """The label that the cue points at; unused at grade 0."""

    @property
    def case(self) -> str:
        if self.grade == 0:
            return "no cue"
        return "cue right" if self.towards == self.label else "cue wrong"


@dataclass(frozen=True)
class Cues:
    """How often relation and cue agree with the label, and how strong a cue is."""

    classes: int
    noise: float
    strengths: tuple[float, ...]
    """Log-odds by grade. The first is 0: no cue."""
    frequencies: tuple[float, ...]
    """How often each grade occurs, in any unit."""
    challenged: tuple[int, ...]
    """The labels of the challenge set, which are also those that its cues point at."""

    def draw(self, rng: Random) -> Draw:
        """In distribution."""
        label = rng.randrange(self.classes)
        relation = self._flipped(rng, label, self.noise)
        grade = self._grade(rng)
        return Draw(label, relation, grade, self._flipped(rng, label, 1.0 - self._right(grade)))

    def draw_challenge(self, rng: Random) -> Draw:
        """Out of distribution: the label is the relation, and the cue is independent of it."""
        label = rng.choice(self.challenged)
        return Draw(label, label, self._grade(rng), rng.choice(self.challenged))

    def _grade(self, rng: Random) -> int:
        return rng.choices(range(len(self.strengths)), self.frequencies)[0]

    def _flipped(self, rng: Random, label: int, probability: float) -> int:
        if rng.random() >= probability:
            return label
        return rng.choice([each for each in range(self.classes) if each != label])

    def _right(self, grade: int) -> float:
        """The probability that a cue of this grade points at the label."""
        odds = math.exp(self.strengths[grade])
        return odds / (odds + self.classes - 1)

    # --- theory ----------------------------------------------------------------------------------------------------

    def posterior(self, relation: int, grade: int | None, towards: int) -> np.ndarray:
        """P(label) given the relation, and given the cue unless `grade` is None."""
        belief = self._share(1.0 - self.noise, relation)
        if grade is not None:
            belief = belief * self._share(self._right(grade), towards)
        return np.asarray(belief / belief.sum())

    def _share(self, right: float, at: int) -> np.ndarray:
        """P(`at` | label), over the labels."""
        share = np.full(self.classes, (1.0 - right) / (self.classes - 1))
        share[at] = right
        return share

    @property
    def ideal_classifiers(self) -> dict[str, Callable[[Iterable[Draw]], np.ndarray]]:
        """The two ideal classifiers: from draws to answers."""

        @cache
        def best(relation: int, grade: int | None, towards: int) -> int:
            return int(self.posterior(relation, grade, towards).argmax())

        return {
            CE_OPTIMAL: lambda draws: np.array([best(draw.relation, draw.grade, draw.towards) for draw in draws]),
            DEBIASED: lambda draws: np.array([best(draw.relation, None, 0) for draw in draws]),
        }

    def theory(self) -> dict[str, tuple[float, float]]:
        """Their expected accuracy in percent, in distribution and on the challenge set."""
        return {name: self._accuracies(answers) for name, answers in self.ideal_classifiers.items()}

    def _accuracies(self, answers: Callable[[Iterable[Draw]], np.ndarray]) -> tuple[float, float]:
        def accuracy(weighted: Iterator[tuple[Draw, float]]) -> float:
            draws, weights = zip(*weighted, strict=True)
            right = answers(draws) == np.array([draw.label for draw in draws])
            return 100.0 * float(right @ np.array(weights))

        return accuracy(self._all_draws()), accuracy(self._all_challenges())

    def _all_draws(self) -> Iterator[tuple[Draw, float]]:
        """Every possible draw in distribution, with its probability."""
        for label in range(self.classes):
            for grade, often in self._grades():
                relations, cues = self._share(1.0 - self.noise, label), self._share(self._right(grade), label)
                for relation in range(self.classes):
                    for towards in range(self.classes):
                        p = often * float(relations[relation] * cues[towards]) / self.classes
                        yield Draw(label, relation, grade, towards), p

    def _all_challenges(self) -> Iterator[tuple[Draw, float]]:
        for label in self.challenged:
            for grade, often in self._grades():
                for towards in self.challenged:
                    yield Draw(label, label, grade, towards), often / len(self.challenged) ** 2

    def _grades(self) -> list[tuple[int, float]]:
        return [(grade, often / sum(self.frequencies)) for grade, often in enumerate(self.frequencies)]
