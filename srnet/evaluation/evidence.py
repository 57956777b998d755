"""The evidence on models of a task: their answers, scores over seeds, differences with intervals, verdicts.

Reports, claims, model cards and `srnet find` take their differences and verdicts from here, so that they cannot
disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np

from srnet.evaluation import KEEPS_ID, language
from srnet.evaluation.groups import (
    GroupFigures,
    Groups,
    WorstGroup,
    given_groups,
    pair_contrast,
    pair_numbers,
    shortcut_groups,
    worst_group,
)
from srnet.evaluation.metrics import reported
from srnet.evaluation.significance import AsymmetricInterval, Interval, Term, contrast
from srnet.evaluation.verdict import ALPHA, Verdict, judge
from srnet.tasks.base import Metric, Task
from srnet.tasks.splits import PAIR


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
        shortcut_right: Callable[[str], np.ndarray | None] = lambda split: None,
    ) -> None:
        """`read` fetches a model's answers by split. Verdicts have the one-sided level `alpha` and ask for `keeps`.

        `shortcut_right` says of each row of a split whether the bias model is right; None without a bias model.
        """
        self.task, self.alpha, self.keeps = task, alpha, keeps
        self.id, self.ood = task.dev.name, tuple(task.ood)
        self._read, self._shortcut_right = read, shortcut_right
        self._answers: dict[str, Mapping[str, np.ndarray]] = {}
        self._contrasts: dict[object, Interval] = {}
        self._groups: dict[str, Groups] = {}
        self._worst: dict[object, WorstGroup | None] = {}

    def answers(self, model: M, split: str) -> np.ndarray:
        if model.key not in self._answers:
            self._answers[model.key] = self._read(model)
        return self._answers[model.key][split]

    def scores(self, models: Sequence[M], split: str, metric: Metric | None = None) -> list[float]:
        """Scores by seed, as they are reported; by the task's metric unless another is given."""
        labels = self.task.splits[split].labels
        return [reported(metric or self.task.metric, self.answers(model, split), labels) for model in models]

    def mean(self, models: Sequence[M], split: str, metric: Metric | None = None) -> float:
        """The mean of the scores."""
        return float(np.mean(self.scores(models, split, metric)))

    def contrast(self, *terms: tuple[float, Sequence[M], str], metric: Metric | None = None) -> Interval:
        """The interval of a weighted sum of scores; each term is a weight, models and a split.

        Scores are by the task's metric unless another is given.
        """
        name = metric or self.task.metric
        key = (name, *((weight, split, *(model.key for model in models)) for weight, models, split in terms))
        if key not in self._contrasts:
            weighted = [Term(w, split, [self.answers(model, split) for model in models]) for w, models, split in terms]
            labels = {split: self.task.splits[split].labels for _, _, split in terms}
            self._contrasts[key] = contrast(weighted, labels, name)
        return self._contrasts[key]

    def difference(
        self, ours: Sequence[M], theirs: Sequence[M], split: str, weight: float = 1.0, metric: Metric | None = None
    ) -> Interval:
        """The interval of our score minus `weight` times theirs."""
        return self.contrast((1.0, ours, split), (-weight, theirs, split), metric=metric)

    @property
    def criterion(self) -> type[Verdict]:
        """What verdicts on this task are about."""
        return language.criterion(self.task) if self.task.answer_kind.language else Verdict

    @property
    def can_judge(self) -> bool:
        """Whether there is data for a verdict: OOD sets, and of a language model what measures the language."""
        if self.task.answer_kind.language:
            return language.can_judge(self.task)
        return bool(self.ood)

    def verdict(self, models: Sequence[M], full: Sequence[M]) -> Verdict:
        """The verdict on a subnetwork alone, against full models of the same seeds."""
        if self.task.answer_kind.language:
            return language.judge(self, models, full)
        own_id, full_id = (self.mean(side, self.id) for side in (models, full))
        kept = self.difference(models, full, self.id, self.keeps)
        gains = {split: self.difference(models, full, split) for split in self.ood}
        return judge(own_id, full_id, kept, gains, self.alpha, self.keeps)

    # --- figures that are reported, and decide nothing -------------------------------------------------------------

    def groups_of(self, split: str) -> Groups:
        """Label and whether the shortcut is right, where a bias model has predictions; else the groups of the task."""
        if split not in self._groups:
            data, right = self.task.splits[split], self._shortcut_right(split)
            classes = self.task.classes_of(data)
            groups = given_groups(data.groups) if right is None else shortcut_groups(data.labels, classes, right)
            self._groups[split] = groups if self.task.answer_kind.has_classes else {}
        return self._groups[split]

    def worst_group(self, models: Sequence[M], split: str) -> WorstGroup | None:
        """The group with the lowest accuracy; None where there are no two groups."""
        key = (split, *(model.key for model in models))
        if key not in self._worst:
            answers = [self.answers(model, split) for model in models]
            self._worst[key] = worst_group(answers, self.task.splits[split].labels, self.groups_of(split))
        return self._worst[key]

    def worst_group_difference(self, ours: Sequence[M], theirs: Sequence[M], split: str) -> AsymmetricInterval | None:
        """Our worst-group accuracy minus theirs, each on the worst group of its own."""
        own, other = (self.worst_group(models, split) for models in (ours, theirs))
        return own.accuracy.minus(other.accuracy) if own and other else None

    def pair_accuracy(self, models: Sequence[M], split: str) -> Interval | None:
        """The percentage of pairs all of whose rows are right; None where the rows have no pairs."""
        return self._of_pairs(split, (1.0, models))

    def pair_difference(self, ours: Sequence[M], theirs: Sequence[M], split: str) -> Interval | None:
        """Our pair accuracy minus theirs, on the same pairs."""
        return self._of_pairs(split, (1.0, ours), (-1.0, theirs))

    def _of_pairs(self, split: str, *terms: tuple[float, Sequence[M]]) -> Interval | None:
        data = self.task.splits[split]
        if PAIR not in data.columns or not self.task.answer_kind.has_classes:
            return None
        answers = [(weight, [self.answers(model, split) for model in models]) for weight, models in terms]
        return pair_contrast(answers, data.labels, pair_numbers(data.columns[PAIR]))

    def group_figures(self, ours: Sequence[M], reference: Sequence[M], split: str) -> GroupFigures:
        """Both figures of our models, and their differences from a reference unless that is what ours are."""
        worst, pairs = self.worst_group(ours, split), self.pair_accuracy(ours, split)
        if [model.key for model in ours] == [model.key for model in reference]:
            return GroupFigures(worst, None, pairs, None)
        difference = self.worst_group_difference(ours, reference, split)
        return GroupFigures(worst, difference, pairs, self.pair_difference(ours, reference, split))
