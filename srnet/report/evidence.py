"""What the store knows about one recipe: answers, differences with their intervals, verdicts.

Tables, notes, warnings and claims all read their differences here, so that they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from srnet.evaluation import ALPHA, KEEPS_ID, Interval, Term, Verdict, contrast, judge, judge_together, measure
from srnet.experiment import Evaluate, ModelNode, Store, load_task
from srnet.experiment.compute import load_logits
from srnet.files import read_json
from srnet.recipes.recipe import Line, Point, Recipe, Start
from srnet.tasks.base import Metric

Place = tuple[str, float, Start, float]
"""Where a model stands in a figure: line, sparsity, start and length; one model a seed."""


class Missing(Exception):
    """Something that was not computed."""


@dataclass(frozen=True)
class Reference:
    """The full CE model that subnetworks of one backbone are compared with."""

    label: str
    models: dict[int, ModelNode]
    """By seed."""
    has_control: bool
    """Whether it was chosen between the full model and the same model trained as long as the longest search."""


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
        self._references: dict[str | None, Reference] = {}

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
    def places(self) -> dict[Place, list[Point]]:
        """The models of the figure, those of all seeds together."""
        found: dict[Place, list[Point]] = {}
        for point in self.recipe.points():
            found.setdefault((point.line.label, point.sparsity, point.start, point.length), []).append(point)
        return found

    def points(self, label: str, sparsity: float | None = None, start: Start = 1.0, length: float = 1.0) -> list[Point]:
        """The points of a line, one a seed."""
        found = [
            point
            for (line, at, begins, lasts), points in self.places.items()
            if (line, begins, lasts) == (label, start, length) and sparsity in (None, at)
            for point in points
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

    @property
    def backbones(self) -> list[str | None]:
        """Those on which anything is pruned; None is the recipe's own."""
        return list(dict.fromkeys(line.backbone for line in self.recipe.lines if line.pruner is not None))

    def reference(self, backbone: str | None = None) -> Reference:
        """The better on ID dev of the full CE model and its control, the same for all seeds and all comparisons."""
        if backbone not in self._references:
            self._references[backbone] = self._choose(backbone)
        return self._references[backbone]

    def _choose(self, backbone: str | None) -> Reference:
        full, control = self._full(backbone), self._control(backbone)
        labels = {line.as_long: line.label for line in self.recipe.lines if _is_full_ce(line, backbone)}
        if control and self.mean(list(control.values()), self.id) > self.mean(list(full.values()), self.id):
            return Reference(labels.get(True, "full model (CE), trained as long"), control, True)
        return Reference(labels.get(False, "full model (CE)"), full, bool(control))

    def _full(self, backbone: str | None) -> dict[int, ModelNode]:
        return {seed: self.recipe.full_model(seed, backbone=backbone) for seed in self.recipe.seeds}

    def _control(self, backbone: str | None) -> dict[int, ModelNode]:
        """Nothing where there is none, or where no search is longer than the fine-tuning."""
        full = self._full(backbone)
        found = {seed: self.recipe.control(seed, backbone) for seed in self.recipe.seeds}
        return {seed: model for seed, model in found.items() if model is not None and model != full[seed]}

    def control_minus_full(self, backbone: str | None) -> dict[str, Interval]:
        """What longer training changes, by split; nothing where there is no control."""
        full, control = (list(side(backbone).values()) for side in (self._full, self._control))
        return {split: self.difference(control, full, split) for split in self.task.scored} if control else {}

    # --- differences -----------------------------------------------------------------------------------------------

    def term(self, weight: float, points: Sequence[Point], split: str) -> Term:
        return Term(weight, split, [self.answers(point.node, split) for point in points])

    def full_term(self, weight: float, points: Sequence[Point], split: str) -> Term:
        """The reference of the same seeds."""
        models = self.reference(points[0].line.backbone).models
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
    def verdicts(self) -> dict[Place, Verdict]:
        """On every subnetwork of the figure, judged together because one is chosen among them."""
        judged = {place: self._judge(points) for place, points in self.places.items() if self._is_judged(points)}
        return dict(zip(judged, judge_together(list(judged.values())), strict=True))

    def _is_judged(self, points: list[Point]) -> bool:
        """A penalty may have pruned nothing at all: that is no subnetwork to judge."""
        return bool(self.ood) and points[0].line.pruner is not None and any(map(self.sparsity, points))

    def sparsity(self, point: Point) -> float:
        node = Evaluate(point.node)
        if not self.store.has(node.key):
            raise Missing(self.recipe.name)
        return float(read_json(self.store.path(node.key) / "scores.json")["sparsity"])

    def _judge(self, points: list[Point]) -> Verdict:
        models = self.reference(points[0].line.backbone).models
        ours, full = (self.mean(side, self.id) for side in ([p.node for p in points], [models[p.seed] for p in points]))
        gains = {split: self.gain(points, split) for split in self.ood}
        return judge(ours, full, self.id_kept(points), gains, self.alpha)


def _is_full_ce(line: Line, backbone: str | None) -> bool:
    return (line.paradigm, line.finetune, line.backbone) == ("full", "ce", backbone)
