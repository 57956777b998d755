"""What the store knows about one recipe: answers, differences with their intervals, verdicts.

Tables, notes, warnings and claims all read their differences here, so that they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from srnet.evaluation import ALPHA, KEEPS_ID, Interval, Term, Verdict, contrast, judge, judge_together, measure
from srnet.experiment import Evaluate, ModelNode, Store, load_task
from srnet.experiment.compute import load_logits
from srnet.files import read_json
from srnet.recipes.points import Place, Point
from srnet.recipes.recipe import Recipe, Reference
from srnet.tasks.base import Metric


class Missing(Exception):
    """Something that was not computed."""


@dataclass(frozen=True)
class Chosen:
    """The full CE models, by seed, that subnetworks of one backbone are compared with."""

    label: str
    models: Mapping[int, ModelNode]


def predictions(store: Store, model: ModelNode) -> dict[str, np.ndarray]:
    """A model's answers by split. Of spans, the logits of every token are kept beside them, under other names."""
    task, logits = load_task(model.task_spec), load_logits(store, Evaluate(model))
    return {name: task.answer_kind.decode(task.splits[name], logits[name]) for name in task.splits if name in logits}


class Evidence:
    """`alpha` is the one-sided level at which verdicts are reached."""

    def __init__(self, recipe: Recipe, store: Store, alpha: float = ALPHA) -> None:
        self.recipe, self.store, self.alpha = recipe, store, alpha
        self.task = load_task(recipe.task)
        self._answers: dict[str, dict[str, np.ndarray]] = {}
        self._chosen: dict[str, Chosen] = {}

    @property
    def id(self) -> str:
        return self.task.dev.name

    @property
    def ood(self) -> tuple[str, ...]:
        return tuple(self.task.ood)

    @property
    def seeds(self) -> int:
        return len(self.recipe.seeds)

    def named(self, split: str) -> str:
        """The split with its kind: ID dev, OOD hans."""
        return f"{self.task.splits[split].kind} {split}"

    # --- models ----------------------------------------------------------------------------------------------------

    @cached_property
    def groups(self) -> dict[tuple[str, Place], list[Point]]:
        """The points of the figure by label and place: one a seed."""
        found: dict[tuple[str, Place], list[Point]] = {}
        for point in self.recipe.points:
            found.setdefault((point.label, point.place), []).append(point)
        return found

    def points(self, label: str, **place: object) -> list[Point]:
        """The points of a series, one a seed, at the place given by any of its fields."""
        found = [
            point
            for point in self.recipe.points
            if point.label == label and all(getattr(point.place, name) == value for name, value in place.items())
        ]
        if not found:
            raise Missing(self.recipe.name)
        return found

    def answers(self, model: ModelNode, split: str) -> np.ndarray:
        if model.key not in self._answers:
            if not self.store.has(Evaluate(model).key):
                raise Missing(self.recipe.name)
            self._answers[model.key] = predictions(self.store, model)
        return self._answers[model.key][split]

    def mean(self, models: Sequence[ModelNode], split: str, metric: Metric | None = None) -> float:
        """The score over seeds, in percent."""
        labels = self.task.splits[split].labels
        return 100.0 * float(
            np.mean([measure(metric or self.task.metric, self.answers(m, split), labels) for m in models])
        )

    # --- the full CE model -----------------------------------------------------------------------------------------

    def reference(self, backbone: str) -> Chosen:
        """The better on ID dev of the full CE model and its control, the same for all seeds and all comparisons."""
        if backbone not in self._chosen:
            self._chosen[backbone] = self._choose(self.recipe.references[backbone])
        return self._chosen[backbone]

    def _choose(self, reference: Reference) -> Chosen:
        full, controls = (list(models.values()) for models in (reference.full, reference.controls))
        if controls and self.mean(controls, self.id) > self.mean(full, self.id):
            return Chosen(reference.control_label, reference.controls)
        return Chosen(reference.label, reference.full)

    def control_minus_full(self, reference: Reference) -> dict[str, Interval]:
        """What longer training changes, by split."""
        control, full = (list(models.values()) for models in (reference.controls, reference.full))
        return {split: self.difference(control, full, split) for split in self.task.scored}

    # --- differences -----------------------------------------------------------------------------------------------

    def term(self, weight: float, points: Sequence[Point], split: str) -> Term:
        return Term(weight, split, [self.answers(point.node, split) for point in points])

    def full_term(self, weight: float, points: Sequence[Point], split: str) -> Term:
        """The reference of the same seeds."""
        models = self.reference(points[0].backbone).models
        return Term(weight, split, [self.answers(models[point.seed], split) for point in points])

    def interval(self, terms: Iterable[Term]) -> Interval:
        terms = list(terms)
        labels = {term.split: self.task.splits[term.split].labels for term in terms}
        return contrast(terms, labels, self.task.metric)

    def difference(self, ours: Sequence[ModelNode], theirs: Sequence[ModelNode], split: str) -> Interval:
        sides = ((1.0, ours), (-1.0, theirs))
        return self.interval(Term(weight, split, [self.answers(m, split) for m in side]) for weight, side in sides)

    def gain(self, points: Sequence[Point], split: str) -> Interval:
        """Over the full CE model."""
        return self.interval([self.term(1.0, points, split), self.full_term(-1.0, points, split)])

    def id_kept(self, points: Sequence[Point]) -> Interval:
        """ID score minus 95 % of the full CE model's."""
        return self.interval([self.term(1.0, points, self.id), self.full_term(-KEEPS_ID, points, self.id)])

    # --- verdicts --------------------------------------------------------------------------------------------------

    @cached_property
    def verdicts(self) -> dict[tuple[str, Place], Verdict]:
        """On every subnetwork of the figure, judged together because one is chosen among them."""
        judged = {place: self._judge(points) for place, points in self.groups.items() if self._is_judged(points)}
        return dict(zip(judged, judge_together(list(judged.values())), strict=True))

    def _is_judged(self, points: list[Point]) -> bool:
        """A penalty may have pruned nothing at all: that is no subnetwork to judge."""
        return bool(self.ood) and points[0].is_pruned and any(map(self.sparsity, points))

    def sparsity(self, point: Point) -> float:
        node = Evaluate(point.node)
        if not self.store.has(node.key):
            raise Missing(self.recipe.name)
        return float(read_json(self.store.path(node.key) / "scores.json")["sparsity"])

    def _judge(self, points: list[Point]) -> Verdict:
        models = self.reference(points[0].backbone).models
        ours, full = (self.mean(side, self.id) for side in ([p.node for p in points], [models[p.seed] for p in points]))
        gains = {split: self.gain(points, split) for split in self.ood}
        return judge(ours, full, self.id_kept(points), gains, self.alpha)
