"""The models at one place of a series, summarised over their seeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from srnet.errors import shortened
from srnet.evaluation import Interval, Spread, Verdict, spread
from srnet.experiment import ModelNode
from srnet.experiment.cost import training_steps
from srnet.recipes.points import Point
from srnet.recipes.recipe import Recipe
from srnet.report.evidence import Evidence


@dataclass(frozen=True)
class Summary:
    """A series at one place, over its seeds."""

    label: str
    """As it can be shown everywhere: users choose it, and may choose control characters."""
    point: Point
    """The first seed's: in all but the seed the others are the same."""
    models: list[ModelNode]
    """One a seed."""
    name: str
    """The label and the place."""
    x: float
    """Where it stands on the figure's axis."""
    sparsity: float
    """Counted on the masks, mean over seeds."""
    steps: float
    """Optimisation steps from the raw backbone to this model, mean over seeds: what it cost."""
    scores: dict[str, Spread]
    """The task's metric by split."""
    groups: dict[str, dict[str, Spread]]
    """Accuracy per sub-case, by split."""
    recall: dict[str, dict[str, Spread]]
    """Accuracy per true class, by split."""
    verdict: Verdict | None
    """None for a full model, and where the task has no OOD set. Judged together with the rest of the figure."""
    id_gain: Interval | None
    """ID score minus the full CE model's, of a subnetwork of a task without an OOD set."""


def summarise(evidence: Evidence, points: list[Point]) -> Summary:
    task, point, models = evidence.task, points[0], [each.node for each in points]
    reports = [evidence.scores(model) for model in models]
    x = float(np.mean([_position(evidence, *each) for each in zip(points, reports, strict=True)]))

    def over_seeds(split: str, kind: str) -> dict[str, Spread]:
        """Each score of one kind: metrics, groups, recall."""
        by_seed = [report["splits"][split][kind] for report in reports]
        return {name: spread([scores[name] for scores in by_seed]) for name in by_seed[0]}

    return Summary(
        label=shortened(point.label),
        point=point,
        models=models,
        name=place_name(evidence.recipe, point, x),
        x=x,
        sparsity=float(np.mean([report["sparsity"] for report in reports])),
        steps=float(np.mean([training_steps(model, evidence.store) for model in models])),
        scores={split: over_seeds(split, "metrics")[task.metric] for split in task.scored},
        groups={split: over_seeds(split, "groups") for split in task.scored},
        recall={split: over_seeds(split, "recall") for split in task.scored},
        verdict=evidence.verdicts.get((point.label, point.place)),
        id_gain=evidence.gain(models, evidence.id) if point.is_pruned and not task.ood else None,
    )


def place_name(recipe: Recipe, point: Point, x: float) -> str:
    """The label, and what of the place it does not say."""
    if not point.is_pruned:
        return shortened(point.label)
    places = [each.place for each in recipe.points if each.label == point.label]
    start, length = point.place.start, point.place.length
    parts = [shortened(point.label), f"{100 * point.place.sparsity:g} %"]
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
    if axis == "sparsity" or point.search is not point.node:
        return pruned
    before = training_steps(point.search.parent, evidence.store)
    return float(before if axis == "start" else training_steps(point.node, evidence.store) - before)
