"""What came out of a recipe: one row a figure, summaries over seeds, a verdict for every subnetwork."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from srnet.evaluation import measure
from srnet.experiment import FineTune, ModelNode, Moment
from srnet.experiment.cost import training_steps
from srnet.recipes.points import Point
from srnet.recipes.recipe import Recipe
from srnet.report.evidence import Evidence
from srnet.report.notes import notes_about, warnings_about
from srnet.report.pictures import Picture
from srnet.report.searches import search_pictures
from srnet.report.summaries import Summary, summarise


@dataclass(frozen=True)
class Results:
    recipe: Recipe
    metric: str
    splits: dict[str, str]
    """The scored splits, each with its kind: ID dev, OOD hans."""
    ood_splits: tuple[str, ...]
    rows: list[dict[str, Any]]
    """Of results.csv."""
    summaries: list[Summary]
    constant: dict[str, dict[str, float]]
    """Scores of the constant answer, of classes the majority class, by its name and by split."""
    bias_models: dict[str, dict[str, float]]
    """Those of the shortcut alone, for each bias model of the recipe."""
    theory: dict[str, dict[str, float]]
    """Those of ideal classifiers, on the same examples."""
    search_pictures: list[Picture]
    """How the searches went, where the figure is about when they start."""
    notes: list[str]
    warnings: list[str]
    """Why the gains of this figure may not be what they look like."""


def results_of(evidence: Evidence) -> Results:
    """What the store has about a recipe that was executed."""
    recipe, task = evidence.recipe, evidence.task
    summaries = [summarise(evidence, points) for points in evidence.groups.values()]
    measured = evidence.scores(recipe.points[0].node)["splits"]
    majority = {split: measured[split]["majority"][task.metric] for split in task.scored}
    return Results(
        recipe=recipe,
        metric=task.metric,
        splits=evidence.splits,
        ood_splits=evidence.ood,
        rows=[row for point in recipe.points for row in _rows(evidence, point)],
        summaries=summaries,
        constant={"majority class" if task.answer_kind.has_classes else "constant answer": majority},
        bias_models={name: evidence.bias_scores(node) for name, node in evidence.bias_models.items()},
        theory={
            name: {s: 100.0 * measure(task.metric, each, task.splits[s].labels) for s, each in answers.items()}
            for name, answers in task.ideal.items()
        },
        search_pictures=search_pictures(evidence) if recipe.axis == "start" else [],
        notes=notes_about(evidence, summaries),
        warnings=warnings_about(evidence, summaries, majority),
    )


def csv_text(results: Sequence[Results]) -> str:
    buffer = io.StringIO()
    rows = [row for each in results for row in each.rows]
    writer = csv.DictWriter(buffer, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def _rows(evidence: Evidence, point: Point) -> list[dict[str, Any]]:
    """Everything that was measured of one model. The keys are the columns of results.csv."""
    search, place, report = point.search, point.place, evidence.scores(point.node)
    model = {
        "recipe": evidence.recipe.name,
        "task": evidence.task.name,
        "backbone": point.backbone,
        "seed": point.seed,
        "line": point.label,
        "paradigm": point.paradigm,
        "pruner": search.pruner.name if search else "",
        "objective_finetune": _objective_of(search.parent if search else point.node),
        "objective_prune": search.objective.label if search and search.pruner.trains else "",
        "objective_isolated": _objective_of(point.node) if point.paradigm == "b" else "",
        "data": search.data if search else "id",
        "start": "" if place.start is None else place.start,
        "length": place.length if search else "",
        "training_steps": training_steps(point.node, evidence.store),
        "sparsity_target": place.sparsity,
        "sparsity": report["sparsity"],
    }
    patterns = {"metrics": "{}", "recall": "recall[{}]", "groups": "accuracy[{}]", "majority": "majority_{}"}
    rows = []
    for split, scores in report["splits"].items():
        measured = {patterns[kind].format(name): v for kind in patterns for name, v in scores[kind].items()}
        where = {"split": split, "kind": scores["kind"]}
        rows += [{**model, **where, "metric": m, "value": v, "key": point.node.key} for m, v in measured.items()]
    return rows


def _objective_of(node: ModelNode) -> str:
    """Of the fine-tuning that made a model; none of a raw one."""
    if isinstance(node, Moment):
        return node.trajectory.objective.name
    return node.objective.name if isinstance(node, FineTune) else ""
