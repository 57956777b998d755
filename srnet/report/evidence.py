"""What the store knows about one recipe: answers, differences with their intervals, verdicts, means over seeds.

Tables, notes, warnings and claims all read their differences here, so that they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from srnet.core.errors import shortened
from srnet.core.files import read_json
from srnet.evaluation.metrics import measure
from srnet.evaluation.significance import Interval, Spread, Term, contrast, spread
from srnet.evaluation.verdict import ALPHA, KEEPS_ID, Verdict, judge, judge_together
from srnet.experiment.estimate import training_steps
from srnet.experiment.nodes.base import load_task
from srnet.experiment.nodes.bias import Bias
from srnet.experiment.nodes.models import Evaluate, ModelNode
from srnet.experiment.store import Store, read_logits
from srnet.recipes.paradigms import Place, Point
from srnet.recipes.recipe import Recipe, Reference
from srnet.tasks.base import Metric

Models = Sequence[ModelNode]
"""One model per seed."""


class Missing(Exception):
    """Something that was not computed."""


class Evidence:
    """The results of one recipe. `alpha` is the one-sided level at which verdicts are reached."""

    def __init__(self, recipe: Recipe, store: Store, alpha: float = ALPHA) -> None:
        self.recipe, self.store, self.alpha = recipe, store, alpha
        self.seeds, self.task = len(recipe.seeds), load_task(recipe.task)
        self.id, self.ood = self.task.dev.name, tuple(self.task.ood)
        self.splits = {name: f"{self.task.splits[name].kind} {name}" for name in self.task.scored}
        """The scored splits, each with its kind: ID dev, OOD hans."""
        self._answers: dict[str, dict[str, np.ndarray]] = {}
        self._contrasts: dict[object, Interval] = {}

    @cached_property
    def groups(self) -> dict[tuple[str, Place], list[Point]]:
        """The points of the figure by label and place: one per seed."""
        found: dict[tuple[str, Place], list[Point]] = {}
        for point in self.recipe.points:
            found.setdefault((point.label, point.place), []).append(point)
        return found

    def models(self, label: str, **place: object) -> Models:
        """The models of a series at the place given by any of its fields."""
        found = [p.node for p in self.recipe.points if p.label == label and place.items() <= p.place._asdict().items()]
        if not found:
            raise Missing(self.recipe.name)
        return found

    @property
    def bias_models(self) -> dict[str, Bias]:
        """Each under its name: weak models differ with the backbone that is debiased."""
        several = len(set(self.recipe.bias_models.values())) > 1
        return {"bias model" + f" for {backbone}" * several: node for backbone, node in self.recipe.bias_models.items()}

    def bias_scores(self, node: Bias) -> dict[str, float]:
        """By split, in percent."""
        report = read_json(self.store.path(node.key) / "scores.json")
        return {split: scores["metrics"][self.task.metric] for split, scores in report.items()}

    def _evaluation(self, model: ModelNode) -> Evaluate:
        node = Evaluate(model)
        if not self.store.has(node.key):
            raise Missing(self.recipe.name)
        return node

    def scores(self, model: ModelNode) -> dict[str, Any]:
        """What is stored with a model's answers: its sparsity, counted on the mask, and its scores by split."""
        found: dict[str, Any] = read_json(self.store.path(self._evaluation(model).key) / "scores.json")
        return found

    def answers(self, model: ModelNode, split: str) -> np.ndarray:
        if model.key not in self._answers:
            logits, splits = read_logits(self.store, self._evaluation(model).key), self.task.splits
            # of spans, the logits of every token are stored beside them, under other names
            kind, names = self.task.answer_kind, [name for name in splits if name in logits]
            self._answers[model.key] = {name: kind.decode(splits[name], logits[name]) for name in names}
        return self._answers[model.key][split]

    def mean(self, models: Models, split: str, metric: Metric | None = None) -> float:
        """The score over seeds, in percent."""
        metric, labels = metric or self.task.metric, self.task.splits[split].labels
        return 100.0 * float(np.mean([measure(metric, self.answers(model, split), labels) for model in models]))

    @cached_property
    def references(self) -> dict[str, Reference]:
        """What subnetworks are compared with, by backbone: `full` holds the better on ID dev of the full CE model and
        its control, the same for all seeds and all comparisons."""
        found = {}
        for backbone, reference in self.recipe.references.items():
            full, controls = (list(models.values()) for models in (reference.full, reference.controls))
            is_full = not controls or self.mean(full, self.id) >= self.mean(controls, self.id)
            found[backbone] = reference if is_full else Reference(reference.control_label, reference.controls, {})
        return found

    def full_models(self, models: Models) -> Models:
        """The full CE models of the same backbones and seeds."""
        raw = [model.pretrained for model in models]
        return [self.references[each.backbone].full[each.seed] for each in raw]

    def contrast(self, *terms: tuple[float, Models, str]) -> Interval:
        """The interval of a weighted sum of scores; each term is a weight, models and a split."""
        key = tuple((weight, split, *(model.key for model in models)) for weight, models, split in terms)
        if key not in self._contrasts:
            weighted = [Term(w, split, [self.answers(model, split) for model in models]) for w, models, split in terms]
            labels = {split: self.task.splits[split].labels for _, _, split in terms}
            self._contrasts[key] = contrast(weighted, labels, self.task.metric)
        return self._contrasts[key]

    def difference(self, ours: Models, theirs: Models, split: str) -> Interval:
        return self.contrast((1.0, ours, split), (-1.0, theirs, split))

    def gain(self, models: Models, split: str) -> Interval:
        """Over the full CE model."""
        return self.difference(models, self.full_models(models), split)

    def id_kept(self, models: Models) -> Interval:
        """ID score minus 95 % of the full CE model's."""
        return self.contrast((1.0, models, self.id), (-KEEPS_ID, self.full_models(models), self.id))

    @cached_property
    def verdicts(self) -> dict[tuple[str, Place], Verdict]:
        """On every subnetwork of the figure, judged together because one is chosen among them."""
        judged = {}
        for place, points in self.groups.items():
            models = [point.node for point in points]
            # a penalty may have pruned nothing at all: that is no subnetwork to judge
            if self.ood and points[0].is_pruned and any(self.scores(model)["sparsity"] for model in models):
                ours, full = (self.mean(side, self.id) for side in (models, self.full_models(models)))
                gains = {split: self.gain(models, split) for split in self.ood}
                judged[place] = judge(ours, full, self.id_kept(models), gains, self.alpha)
        return dict(zip(judged, judge_together(list(judged.values())), strict=True))

    @cached_property
    def summaries(self) -> list[Summary]:
        return [Summary(self, points) for points in self.groups.values()]


class Summary:
    """A series at one place, over its seeds."""

    def __init__(self, evidence: Evidence, points: list[Point]) -> None:
        self.point = point = points[0]
        """The first seed's: in all but the seed the others are the same."""
        self.models = [each.node for each in points]
        """One per seed."""
        reports = [evidence.scores(model) for model in self.models]
        self.sparsity = float(np.mean([report["sparsity"] for report in reports]))
        """Counted on the masks, mean over seeds."""
        self.steps = float(np.mean([training_steps(model, evidence.store) for model in self.models]))
        """Optimisation steps from the raw backbone to this model, mean over seeds: what it cost."""
        self.x = float(np.mean([_position(evidence, *each) for each in zip(points, reports, strict=True)]))
        """Its position on the figure's axis."""
        self.label = shortened(point.label)
        """On one line and without control characters or lone surrogates, which a user's label may contain."""
        self.name = place_name(evidence.recipe, point, self.x)
        """The label and the place."""
        self.verdict = evidence.verdicts.get((point.label, point.place))
        """None for a full model, and where the task has no OOD set. Judged together with the rest of the figure."""
        self.id_gain = evidence.gain(self.models, evidence.id) if point.is_pruned and not evidence.ood else None
        """ID score minus the full CE model's, of a subnetwork of a task without an OOD set."""

        def over_seeds(split: str, kind: str) -> dict[str, Spread]:
            by_seed = [report["splits"][split][kind] for report in reports]
            return {name: spread([scores[name] for scores in by_seed]) for name in by_seed[0]}

        self.scores = {split: over_seeds(split, "metrics")[evidence.task.metric] for split in evidence.splits}
        """The task's metric by split."""
        self.groups = {split: over_seeds(split, "groups") for split in evidence.splits}
        """Accuracy per sub-case, by split."""
        self.recall = {split: over_seeds(split, "recall") for split in evidence.splits}
        """Accuracy per true class, by split."""


def place_name(recipe: Recipe, point: Point, x: float) -> str:
    """The label, and what of the place it does not say."""
    if not point.is_pruned:
        return shortened(point.label)
    places = [each.place for each in recipe.points if each.label == point.label]
    start, length = point.place.start, point.place.length
    parts = [shortened(point.label), point.place.aim]
    if {place.start for place in places} - {None} not in (set(), {1.0}, {"auto"}):
        when = "by early stopping" if start == "auto" else f"at {100 * (start or 0.0):.3g} % of fine-tuning"
        parts.append(f"started {when}")
    if {place.length for place in places} != {1.0}:
        parts.append(f"{x:.0f} steps" if recipe.axis == "length" else f"{length:.3g} times as long")
    return ", ".join(parts)


def _position(evidence: Evidence, point: Point, report: dict[str, Any]) -> float:
    """On the axis: percent of weights pruned or kept, steps of fine-tuning before the search, or of the search."""
    axis, pruned = evidence.recipe.axis, 100.0 * float(report["sparsity"])
    if axis == "kept":
        return 100.0 - pruned
    if axis == "sparsity" or point.search is None:
        return pruned
    before = training_steps(point.search.parent, evidence.store)
    return float(before if axis == "start" else training_steps(point.search, evidence.store) - before)
