"""What came out of a recipe: one row a figure, summaries over seeds, a verdict for every subnetwork."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from srnet.evaluation import Interval, Spread, Verdict, measure, spread
from srnet.experiment import Bias, Evaluate, FineTune, ModelNode, Moment, Store
from srnet.experiment.cost import training_steps
from srnet.files import read_json
from srnet.recipes.points import Place, Point, Start
from srnet.recipes.recipe import Recipe
from srnet.report.evidence import Evidence
from srnet.report.notes import notes_about
from srnet.report.sanity import Subnetwork, warnings_about
from srnet.report.traces import Trace, traces_of
from srnet.tasks.answers import CLASSES
from srnet.tasks.base import Task

COLUMNS = (
    "recipe", "task", "backbone", "seed", "line", "paradigm", "pruner", "objective_finetune", "objective_prune",
    "objective_isolated", "data", "start", "length", "training_steps", "sparsity_target", "sparsity", "split", "kind",
    "metric", "value", "key",
)  # fmt: skip


@dataclass(frozen=True)
class Summary:
    """A series at one place, over its seeds."""

    label: str
    name: str
    """The label and the place."""
    place: Place
    is_pruned: bool
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
    verdict: Verdict | None
    """None for a full model, and where the task has no OOD set. Judged together with the rest of the figure."""
    id_gain: Interval | None
    """ID score minus the full CE model's, of a subnetwork of a task without an OOD set."""
    keys: tuple[str, ...]
    formula: str


@dataclass(frozen=True)
class Results:
    recipe: Recipe
    id_split: str
    ood_splits: tuple[str, ...]
    metric: str
    rows: list[dict[str, Any]]
    summaries: list[Summary]
    majority: dict[str, float]
    bias_scores: dict[str, dict[str, float]]
    """The own scores of each bias model that the recipe uses, by its name and by split."""
    traces: list[Trace]
    """How the searches went, where the figure is about when they start."""
    notes: list[str]
    """Notes on this figure."""

    id_tests: tuple[str, ...] = ()
    """Further in-distribution test sets."""
    warnings: list[str] = field(default_factory=list)
    """Why the gains of this figure may not be what they look like."""
    theory: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The scores of ideal classifiers on the same examples, by name and split."""

    @property
    def baselines(self) -> dict[str, Mapping[str, float]]:
        """What to compare with beside the models, by name and split: a constant, the shortcut alone, theory."""
        return {self.floor: self.majority, **self.bias_scores, **self.theory}

    @property
    def levels(self) -> dict[str, Mapping[str, float]]:
        """Those of them that are drawn as thin lines."""
        return {self.floor: self.majority, **self.theory}

    @property
    def floor(self) -> str:
        """What `majority` is the score of."""
        return "majority class" if self.metric in CLASSES.metrics else "constant answer"

    @property
    def splits(self) -> tuple[str, ...]:
        return (self.id_split, *self.id_tests, *self.ood_splits)

    def named(self, split: str) -> str:
        """The split with its kind: ID dev, OOD hans."""
        return f"{'OOD' if split in self.ood_splits else 'ID'} {split}"


def csv_text(results: Sequence[Results]) -> str:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for each in results:
        writer.writerows(each.rows)
    return buffer.getvalue()


def collect(recipe: Recipe, store: Store) -> Results:
    """Read what the store has about a recipe that was executed."""
    return results_of(Evidence(recipe, store))


def results_of(evidence: Evidence) -> Results:
    recipe, store, task = evidence.recipe, evidence.store, evidence.task
    reports = {p: read_json(store.path(Evaluate(p.node).key) / "scores.json") for p in recipe.points}
    steps = {p: training_steps(p.node, store) for p in recipe.points}
    groups = list(evidence.groups.values())
    any_report = next(iter(reports.values()))["splits"]
    summaries = [_summary(evidence, same, reports, steps) for same in groups]
    majority = {name: any_report[name]["majority"][task.metric] for name in task.scored}
    return Results(
        recipe=recipe,
        id_split=task.dev.name,
        ood_splits=tuple(task.ood),
        metric=task.metric,
        rows=[row for point in recipe.points for row in _rows(recipe, point, reports[point], steps[point])],
        summaries=summaries,
        majority=majority,
        bias_scores=_bias_scores(recipe, store, task.metric),
        traces=traces_of(groups, store, task) if recipe.axis == "start" else [],
        notes=notes_about(evidence, steps, bias_names(recipe)),
        id_tests=tuple(task.id_tests),
        theory={name: _measured(task, answers) for name, answers in task.ideal.items()},
        warnings=warnings_about(evidence, _subnetworks(groups, summaries), majority),
    )


def _measured(task: Task, answers: Mapping[str, np.ndarray]) -> dict[str, float]:
    return {split: 100.0 * measure(task.metric, each, task.splits[split].labels) for split, each in answers.items()}


def _subnetworks(groups: list[list[Point]], summaries: list[Summary]) -> list[Subnetwork]:
    pairs = zip(groups, summaries, strict=True)
    return [Subnetwork(s.name, points, s.verdict) for points, s in pairs if s.verdict is not None]


def bias_names(recipe: Recipe) -> dict[str, Bias]:
    """Each bias model with its name: weak models differ with the backbone that is debiased."""
    several = len(set(recipe.bias_models.values())) > 1
    return {"bias model" + f" for {backbone}" * several: node for backbone, node in recipe.bias_models.items()}


def _bias_scores(recipe: Recipe, store: Store, metric: str) -> dict[str, dict[str, float]]:
    reports = {name: read_json(store.path(node.key) / "scores.json") for name, node in bias_names(recipe).items()}
    return {
        name: {split: scores["metrics"][metric] for split, scores in report.items()} for name, report in reports.items()
    }


def _rows(recipe: Recipe, point: Point, report: dict[str, Any], steps: int) -> list[dict[str, Any]]:
    search, place = point.search, point.place
    started = search.parent if search else point.node
    common = {
        "recipe": recipe.name,
        "task": recipe.task.name,
        "backbone": point.backbone,
        "seed": point.seed,
        "line": point.label,
        "paradigm": point.paradigm,
        "pruner": search.pruner.name if search else "",
        "objective_finetune": _objective_of(started),
        "objective_prune": search.objective.label if search and search.pruner.trains else "",
        "objective_isolated": _objective_of(point.node) if point.paradigm == "b" else "",
        "data": search.data if search else "id",
        "start": "" if place.start is None else place.start,
        "length": place.length if search else "",
        "training_steps": steps,
        "sparsity_target": place.sparsity,
        "sparsity": report["sparsity"],
        "key": point.node.key,
    }
    rows = []
    for split, scores in report["splits"].items():
        figures = {**scores["metrics"]}
        figures |= {f"recall[{label}]": value for label, value in scores["recall"].items()}
        figures |= {f"accuracy[{group}]": value for group, value in scores["groups"].items()}
        figures |= {f"majority_{name}": value for name, value in scores["majority"].items()}
        rows += [
            {**common, "split": split, "kind": scores["kind"], "metric": m, "value": v} for m, v in figures.items()
        ]
    return rows


def _objective_of(node: ModelNode) -> str:
    """Of the fine-tuning that made a model; none of a raw one."""
    if isinstance(node, Moment):
        return node.trajectory.objective.name
    return node.objective.name if isinstance(node, FineTune) else ""


def _summary(
    evidence: Evidence, points: list[Point], reports: dict[Point, dict[str, Any]], steps: dict[Point, int]
) -> Summary:
    recipe, task, point = evidence.recipe, evidence.task, points[0]

    def over_seeds(split: str, *path: str) -> Spread:
        values = []
        for each in points:
            value = reports[each]["splits"][split]
            for step in path:
                value = value[step]
            values.append(value)
        return spread(values)

    first = reports[point]["splits"]
    x = float(np.mean([_position(recipe, each, reports[each], evidence.store) for each in points]))
    return Summary(
        label=point.label,
        name=_name(recipe, point, x),
        place=point.place,
        is_pruned=point.is_pruned,
        x=x,
        sparsity=float(np.mean([reports[each]["sparsity"] for each in points])),
        steps=float(np.mean([steps[each] for each in points])),
        scores={split: over_seeds(split, "metrics", task.metric) for split in task.scored},
        groups={s: {g: over_seeds(s, "groups", g) for g in first[s]["groups"]} for s in task.scored},
        recall={s: {c: over_seeds(s, "recall", c) for c in first[s]["recall"]} for s in task.scored},
        verdict=evidence.verdicts.get((point.label, point.place)),
        id_gain=evidence.gain(points, task.dev.name) if point.is_pruned and not task.ood else None,
        keys=tuple(each.node.key for each in points),
        formula=point.node.formula,
    )


def _name(recipe: Recipe, point: Point, x: float) -> str:
    """The label, and what of the place it does not say."""
    if not point.is_pruned:
        return point.label
    places = [each.place for each in recipe.points if each.label == point.label]
    parts = [point.label, f"{100 * point.place.sparsity:g} %"]
    if {place.start for place in places} - {None} not in (set(), {1.0}, {"auto"}):
        parts.append(f"started {_in_words(point.place.start)}")
    if {place.length for place in places} != {1.0}:
        parts.append(f"{x:.0f} steps" if recipe.axis == "length" else f"{point.place.length:.3g} times as long")
    return ", ".join(parts)


def _in_words(start: Start | None) -> str:
    return "by early stopping" if start == "auto" else f"at {100 * (start or 0.0):.3g} % of fine-tuning"


def _position(recipe: Recipe, point: Point, report: dict[str, Any], store: Store) -> float:
    """On the axis: percent of weights pruned or kept, steps of fine-tuning before the search, or of the search."""
    if recipe.axis == "kept":
        return 100.0 * (1.0 - float(report["sparsity"]))
    if recipe.axis == "sparsity" or point.search is not point.node:
        return 100.0 * float(report["sparsity"])
    before = training_steps(point.search.parent, store)
    return float(before if recipe.axis == "start" else training_steps(point.node, store) - before)
