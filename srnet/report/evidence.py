"""The evidence on one recipe: its models in the store, what they are compared with, and their means over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from srnet.bias.measuring import LEVEL, permutation_p
from srnet.core.errors import shortened
from srnet.core.files import read_json
from srnet.evaluation.evidence import Evidence
from srnet.evaluation.significance import Interval, Spread, spread
from srnet.evaluation.verdict import ALPHA, Verdict, judge_together
from srnet.experiment.estimate import training_steps
from srnet.experiment.known import read_answers, read_scores
from srnet.experiment.nodes.base import load_task
from srnet.experiment.nodes.bias import Bias
from srnet.experiment.nodes.models import Evaluate, ModelNode
from srnet.experiment.store import Store, bias_predictions, bias_splits
from srnet.recipes.paradigms import Place, Point
from srnet.recipes.recipe import Recipe, Reference
from srnet.tasks.answers.base import METRICS
from srnet.tasks.base import Metric, Task

Models = Sequence[ModelNode]
"""One model per seed."""


class Column(NamedTuple):
    """A metric on a split."""

    split: str
    metric: Metric
    title: str
    in_table: bool = True
    """Whether tables have it; curves and results.csv have all."""

    @property
    def is_percentage(self) -> bool:
        return METRICS[self.metric].scale == 100.0

    @property
    def is_brief(self) -> bool:
        """Whether a terminal has room for it."""
        return self.in_table and self.metric != "lms"

    @property
    def unit(self) -> str:
        return f"{self.metric} (%)" if self.is_percentage else self.metric


def columns_of(task: Task) -> dict[str, Column]:
    """The task's metric on each split; of language models the preference, the language score and the perplexity."""
    kind, titles = task.answer_kind, {name: f"{task.splits[name].kind} {name}" for name in task.scored}
    if not kind.language:
        return {name: Column(name, task.metric, titles[name]) for name in task.compared}
    return {
        f"{name} {metric}": Column(name, metric, f"{title}: {metric}", metric != "lms" or name == task.dev.name)
        for metric in ("ss", "lms", "perplexity")
        if metric in kind.metrics
        for name, title in titles.items()
        if kind.measured([metric], task.splits[name].labels)
    }


class Missing(Exception):
    """Something that was not computed."""


class RecipeEvidence(Evidence[ModelNode]):
    """The results of one recipe. `alpha` is the one-sided level at which verdicts are reached."""

    def __init__(self, recipe: Recipe, store: Store, alpha: float = ALPHA) -> None:
        task = load_task(recipe.task)

        def read(model: ModelNode) -> dict[str, np.ndarray]:
            return read_answers(store, self._evaluation(model), task)

        super().__init__(task, read, alpha, recipe.keeps, self._first_shortcut_right)
        self.recipe, self.store, self.seeds = recipe, store, len(recipe.seeds)
        self.splits = {name: f"{task.splits[name].kind} {name}" for name in task.compared}
        """The scored splits, each with its kind: ID dev, OOD hans."""
        self.columns = columns_of(task)
        """What tables and curves show, by the name of a column: for classifiers the task's metric on each split."""

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
        """Scores of a bias model by split, in percent."""
        report = read_json(self.store.path(node.key) / "scores.json")
        return {split: scores["metrics"][self.task.metric] for split, scores in report.items()}

    def has_shortcut(self, backbone: str) -> bool:
        """Whether the bias model certainly predicts the labels of ID dev; also where a figure has no bias model."""
        node = self.recipe.bias_models.get(backbone)
        if node is None or self.id not in bias_splits(self.store, node.key):
            return True
        log_probs = bias_predictions(self.store, node.key, self.id).log_probs
        return permutation_p(log_probs, self.task.dev.labels) < LEVEL

    def shortcut_right(self, bias: Bias, split: str) -> np.ndarray | None:
        """Whether the bias model's answer to each row is the label; None if it has no predictions for the split."""
        if split not in bias_splits(self.store, bias.key):
            return None
        # in the order of the split, as they were stored: ids of test examples need not be unique
        data, logits = self.task.splits[split], bias_predictions(self.store, bias.key, split).log_probs
        return np.asarray(self.task.answer_kind.decode(data, logits) == data.labels)

    def _first_shortcut_right(self, split: str) -> np.ndarray | None:
        """By the figure's first bias model, so that all lines are compared on the same groups."""
        found = (self.shortcut_right(bias, split) for bias in self.recipe.bias_models.values())
        return next((right for right in found if right is not None), None)

    def _evaluation(self, model: ModelNode) -> str:
        """The key of a model's scores and answers."""
        key = Evaluate(model).key
        if not self.store.has(key):
            raise Missing(self.recipe.name)
        return key

    def report(self, model: ModelNode) -> dict[str, Any]:
        """What is stored with a model's answers: its sparsity, counted on the mask, and its scores by split."""
        self._evaluation(model)
        return read_scores(self.store, model)

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

    def gain(self, models: Models, split: str) -> Interval:
        """The score minus the full CE model's."""
        return self.difference(models, self.full_models(models), split)

    def id_kept(self, models: Models) -> Interval:
        """The ID score minus the share of the full CE model's that must be kept."""
        return self.difference(models, self.full_models(models), self.id, self.keeps)

    @cached_property
    def verdicts(self) -> dict[tuple[str, Place], Verdict]:
        """On every subnetwork and every baseline of the figure. Those with all seeds are judged together because one is
        chosen among them, without controls; of the others, which a search only tried, no answer is taken."""
        judged = {}
        for place, points in self.groups.items():
            models = [point.node for point in points]
            # a penalty may have pruned nothing at all: that is no subnetwork to judge
            is_sparse = points[0].is_pruned and any(self.report(model)["sparsity"] for model in models)
            if self.can_judge and (is_sparse or points[0].is_baseline):
                verdict = self.verdict(models, self.full_models(models))
                judged[place] = replace(verdict, has_shortcut=self.has_shortcut(points[0].backbone))
        complete = [
            place for place in judged if len(self.groups[place]) == self.seeds and not self.groups[place][0].is_control
        ]
        together = judge_together([judged[place] for place in complete])
        return judged | dict(zip(complete, together, strict=True))

    @cached_property
    def summaries(self) -> list[Summary]:
        return [Summary(self, points) for points in self.groups.values()]


class Summary:
    """A series at one place, over its seeds."""

    def __init__(self, evidence: RecipeEvidence, points: list[Point]) -> None:
        self.point = point = points[0]
        """The first seed's: in all but the seed the others are the same."""
        self.models = [each.node for each in points]
        """One per seed."""
        reports = [evidence.report(model) for model in self.models]
        self.sparsity = float(np.mean([report["sparsity"] for report in reports]))
        """Counted on the masks, mean over seeds."""
        self.steps = float(np.mean([training_steps(model, evidence.store) for model in self.models]))
        """Optimisation steps from the raw backbone to this model, mean over seeds: what it cost."""
        self.x = float(np.mean([_position(evidence, *each) for each in zip(points, reports, strict=True)]))
        """Its position on the figure's axis."""
        self.label = shortened(point.label)
        """On one line and without control characters or lone surrogates, which a user's label may contain."""
        self.name = _place_name(evidence.recipe, point, self.x)
        """The label and the place."""
        self.verdict = evidence.verdicts.get((point.label, point.place))
        """None for a full model, and where the task has no OOD set. Judged together with the rest of the figure."""
        has_gain = point.is_judged and not evidence.can_judge and not evidence.task.answer_kind.language
        self.id_gain = evidence.gain(self.models, evidence.id) if has_gain else None
        """ID score minus the full CE model's, of a subnetwork of a task without an OOD set."""

        def over_seeds(split: str, kind: str) -> dict[str, Spread]:
            by_seed = [report["splits"][split][kind] for report in reports]
            return {name: spread([scores[name] for scores in by_seed]) for name in by_seed[0]}

        self.scores = {n: over_seeds(each.split, "metrics")[each.metric] for n, each in evidence.columns.items()}
        """By column."""
        self.groups = {split: over_seeds(split, "groups") for split in evidence.splits}
        """Accuracy per sub-case, by split."""
        self.recall = {split: over_seeds(split, "recall") for split in evidence.splits}
        """Accuracy per true class, by split."""

    @property
    def answer(self) -> str:
        """The verdict in a few words; empty without one. A dense baseline may be robust, and is no SRNet."""
        if self.verdict is None:
            return ""
        return self.verdict.dense if self.verdict.is_srnet and not self.point.is_pruned else self.verdict.short


def _place_name(recipe: Recipe, point: Point, x: float) -> str:
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


def _position(evidence: RecipeEvidence, point: Point, report: dict[str, Any]) -> float:
    """On the axis: percent of weights pruned or kept, steps of fine-tuning before the search, or of the search."""
    axis, pruned = evidence.recipe.axis, 100.0 * float(report["sparsity"])
    if axis == "kept":
        return 100.0 - pruned
    if axis == "sparsity" or point.search is None:
        return pruned
    before = training_steps(point.search.parent, evidence.store)
    return float(before if axis == "start" else training_steps(point.search, evidence.store) - before)
