"""The evidence on models of a task: their answers, scores over seeds, differences with intervals, verdicts.

Reports, claims, model cards and `srnet find` take their differences and verdicts from here, so that they cannot
disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np

from srnet.evaluation import KEEPS_ID
from srnet.evaluation.metrics import measure
from srnet.evaluation.significance import Interval, Term, contrast
from srnet.evaluation.verdict import ALPHA, Verdict, judge
from srnet.tasks.base import Metric, Task


class _Keyed(Protocol):
    @property
    def key(self) -> str: ...


M = TypeVar("M", bound=_Keyed)
"""A model, which its key identifies. Sequences of models have one a seed."""


class Evidence(Generic[M]):
    """What models answered on the splits of a task, and what follows from it. Nothing is read or computed twice."""

    def __init__(
        self,
        task: Task,
        read: Callable[[M], Mapping[str, np.ndarray]],
        alpha: float = ALPHA,
        keeps: float = KEEPS_ID,
    ) -> None:
        """`read` fetches a model's answers by split. Verdicts have the one-sided level `alpha` and ask for `keeps`."""
        self.task, self.alpha, self.keeps = task, alpha, keeps
        self.id, self.ood = task.dev.name, tuple(task.ood)
        self._read = read
        self._answers: dict[str, Mapping[str, np.ndarray]] = {}
        self._contrasts: dict[object, Interval] = {}

    def answers(self, model: M, split: str) -> np.ndarray:
        if model.key not in self._answers:
            self._answers[model.key] = self._read(model)
        return self._answers[model.key][split]

    def scores(self, models: Sequence[M], split: str, metric: Metric | None = None) -> list[float]:
        """Scores by seed, in percent; by the task's metric unless another is given."""
        return [100.0 * share for share in self._shares(models, split, metric)]

    def mean(self, models: Sequence[M], split: str, metric: Metric | None = None) -> float:
        """The mean of the scores, in percent."""
        return 100.0 * float(np.mean(self._shares(models, split, metric)))

    def _shares(self, models: Sequence[M], split: str, metric: Metric | None) -> list[float]:
        labels = self.task.splits[split].labels
        return [measure(metric or self.task.metric, self.answers(model, split), labels) for model in models]

    def contrast(self, *terms: tuple[float, Sequence[M], str]) -> Interval:
        """The interval of a weighted sum of scores; each term is a weight, models and a split."""
        key = tuple((weight, split, *(model.key for model in models)) for weight, models, split in terms)
        if key not in self._contrasts:
            weighted = [Term(w, split, [self.answers(model, split) for model in models]) for w, models, split in terms]
            labels = {split: self.task.splits[split].labels for _, _, split in terms}
            self._contrasts[key] = contrast(weighted, labels, self.task.metric)
        return self._contrasts[key]

    def difference(self, ours: Sequence[M], theirs: Sequence[M], split: str, weight: float = 1.0) -> Interval:
        """The interval of our score minus `weight` times theirs."""
        return self.contrast((1.0, ours, split), (-weight, theirs, split))

    def verdict(self, models: Sequence[M], full: Sequence[M]) -> Verdict:
        """The verdict on a subnetwork alone, against full models of the same seeds."""
        own_id, full_id = (self.mean(side, self.id) for side in (models, full))
        kept = self.difference(models, full, self.id, self.keeps)
        gains = {split: self.difference(models, full, split) for split in self.ood}
        return judge(own_id, full_id, kept, gains, self.alpha, self.keeps)
