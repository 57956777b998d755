"""What came out of a recipe: one row a figure, summaries over seeds, a verdict for every subnetwork."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from srnet.evaluation import Interval, Spread, Verdict, measure, spread
from srnet.experiment import Bias, Evaluate, Node, Store
from srnet.experiment.cost import training_steps
from srnet.experiment.nodes import Prune
from srnet.files import read_json
from srnet.recipes.recipe import Line, Point, Recipe, Start
from srnet.report.evidence import Evidence
from srnet.report.sanity import Subnetwork, debiased_lines, warnings_about
from srnet.tasks.answers import CLASSES
from srnet.tasks.base import Task

COLUMNS = (
    "recipe", "task", "backbone", "seed", "line", "paradigm", "pruner", "objective_finetune", "objective_prune",
    "objective_isolated", "data", "start", "length", "training_steps", "sparsity_target", "sparsity", "split", "kind",
    "metric", "value", "key",
)  # fmt: skip


@dataclass(frozen=True)
class Summary:
    """A line at one sparsity, start and length, over its seeds."""

    line: Line
    sparsity_target: float
    start: Start
    length: float
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

    @property
    def name(self) -> str:
        if self.line.pruner is None:
            return self.line.label
        parts = [self.line.label, f"{100 * self.sparsity_target:g} %"]
        if self.line.starts not in ((1.0,), ("auto",)):
            share = "by early stopping" if self.start == "auto" else f"at {100 * self.start:.3g} % of fine-tuning"
            parts.append(f"started {share}")
        if self.line.lengths != (1.0,):
            parts.append(f"{self.x:.0f} steps")
        return ", ".join(parts)


@dataclass(frozen=True)
class Trace:
    """Scores on the way of one training: step -> score by split, mean over seeds."""

    name: str
    steps: list[int]
    scores: dict[str, list[float]]
    seeds: int


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
    """What a reader of this figure should be told in words."""

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


def nodes_of(recipe: Recipe) -> list[Node]:
    """Everything that has to be computed before `collect`: every point and the full CE models they are judged by."""
    nodes: list[Node] = []
    for point in recipe.points():
        backbone = point.line.backbone
        nodes += [point.node, Evaluate(point.node), Evaluate(recipe.full_model(point.seed, backbone=backbone))]
        control = recipe.control(point.seed, backbone)
        nodes += [] if control is None else [Evaluate(control)]
    return [*nodes, *_bias_nodes(recipe)]


def _bias_nodes(recipe: Recipe) -> dict[Bias, str]:
    """Each with its name: weak models differ with the backbone that is debiased."""
    found = {recipe.bias_model(line.backbone): line.backbone or recipe.backbone for line in debiased_lines(recipe)}
    return {node: "bias model" + (f" for {backbone}" if len(found) > 1 else "") for node, backbone in found.items()}


def collect(recipe: Recipe, store: Store) -> Results:
    """Read what the store has about a recipe that was executed."""
    return results_of(Evidence(recipe, store))


def results_of(evidence: Evidence) -> Results:
    recipe, store, task = evidence.recipe, evidence.store, evidence.task
    points = recipe.points()
    reports = {p: read_json(store.path(Evaluate(p.node).key) / "scores.json") for p in points}
    steps = {p: training_steps(p.node, store) for p in points}
    groups = list(evidence.places.values())
    any_report = next(iter(reports.values()))["splits"]
    summaries = [_summary(evidence, same, reports, steps) for same in groups]
    majority = {name: any_report[name]["majority"][task.metric] for name in task.scored}
    return Results(
        recipe=recipe,
        id_split=task.dev.name,
        ood_splits=tuple(task.ood),
        metric=task.metric,
        rows=[row for point in points for row in _rows(recipe, point, reports[point], steps[point])],
        summaries=summaries,
        majority=majority,
        bias_scores=_bias_scores(recipe, store, task.metric),
        traces=_traces(groups, store, task) if recipe.axis == "start" else [],
        notes=[*_reference_notes(evidence), *_cost_notes(evidence, steps), *_bias_notes(recipe), *task.notes],
        id_tests=tuple(task.id_tests),
        theory={name: _measured(task, answers) for name, answers in task.ideal.items()},
        warnings=warnings_about(evidence, _subnetworks(groups, summaries), majority),
    )


def _measured(task: Task, answers: Mapping[str, np.ndarray]) -> dict[str, float]:
    return {split: 100.0 * measure(task.metric, each, task.splits[split].labels) for split, each in answers.items()}


def _subnetworks(groups: list[list[Point]], summaries: list[Summary]) -> list[Subnetwork]:
    pairs = zip(groups, summaries, strict=True)
    return [Subnetwork(s.name, points, s.verdict) for points, s in pairs if s.verdict is not None]


def _reference_notes(evidence: Evidence) -> list[str]:
    """Which full CE model is meant, where there are two of them, and whether the usual one was trained long enough."""
    notes = []
    for backbone in evidence.backbones:
        reference = evidence.reference(backbone)
        if not reference.has_control:
            continue
        notes.append(
            f'"Full CE model" means {reference.label}: of the full model and its control, trained as long as the '
            f"longest search, it is the better one on ID {evidence.id}."
        )
        changes = evidence.control_minus_full(backbone)
        if any(interval.excludes_zero for interval in changes.values()):
            figures = ", ".join(f"{evidence.named(split)} {interval}" for split, interval in changes.items())
            notes.append(
                f"The full model was undertrained: trained as long as the longest search, it changes by {figures}."
            )
    return notes


def _bias_notes(recipe: Recipe) -> list[str]:
    """What each bias model reads: its scores, in the table, mean little without it."""
    return [f"{name}: {node.features}" for node, name in _bias_nodes(recipe).items()]


def _bias_scores(recipe: Recipe, store: Store, metric: str) -> dict[str, dict[str, float]]:
    reports = {name: read_json(store.path(node.key) / "scores.json") for node, name in _bias_nodes(recipe).items()}
    return {
        name: {split: scores["metrics"][metric] for split, scores in report.items()} for name, report in reports.items()
    }


def _rows(recipe: Recipe, point: Point, report: dict[str, Any], steps: int) -> list[dict[str, Any]]:
    line = point.line
    common = {
        "recipe": recipe.name,
        "task": recipe.task.name,
        "backbone": line.backbone or recipe.backbone,
        "seed": point.seed,
        "line": line.label,
        "paradigm": line.paradigm,
        "pruner": line.pruner or "",
        "objective_finetune": "" if line.paradigm == "c" else line.finetune,
        "objective_prune": f"{line.prune}+kd" if line.distil else line.prune or "",
        "objective_isolated": (line.isolated or "ce") if line.paradigm == "b" else "",
        "data": line.data,
        "start": point.start if line.paradigm == "a" else "",
        "length": point.length if line.pruner else "",
        "training_steps": steps,
        "sparsity_target": point.sparsity,
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
    return Summary(
        line=point.line,
        sparsity_target=point.sparsity,
        start=point.start,
        length=point.length,
        x=float(np.mean([_position(recipe, each, reports[each], evidence.store) for each in points])),
        sparsity=float(np.mean([reports[each]["sparsity"] for each in points])),
        steps=float(np.mean([steps[each] for each in points])),
        scores={split: over_seeds(split, "metrics", task.metric) for split in task.scored},
        groups={s: {g: over_seeds(s, "groups", g) for g in first[s]["groups"]} for s in task.scored},
        recall={s: {c: over_seeds(s, "recall", c) for c in first[s]["recall"]} for s in task.scored},
        verdict=evidence.verdicts.get((point.line.label, point.sparsity, point.start, point.length)),
        id_gain=evidence.gain(points, task.dev.name) if point.line.pruner is not None and not task.ood else None,
        keys=tuple(each.node.key for each in points),
        formula=point.node.formula,
    )


def _position(recipe: Recipe, point: Point, report: dict[str, Any], store: Store) -> float:
    """On the axis: percent of weights pruned or kept, steps of fine-tuning before the search, or of the search."""
    if recipe.axis == "kept":
        return 100.0 * (1.0 - float(report["sparsity"]))
    if recipe.axis == "sparsity" or not isinstance(point.node, Prune):
        return 100.0 * float(report["sparsity"])
    before = training_steps(point.node.parent, store)
    return float(before if recipe.axis == "start" else training_steps(point.node, store) - before)


def _traces(groups: list[list[Point]], store: Store, task: Task) -> list[Trace]:
    traces = []
    for points in groups:
        nodes = [point.node for point in points]
        if all(node.trains for node in nodes) and isinstance(nodes[0], Prune):
            logs = [_evaluations(store, node, task) for node in nodes]
            traces.append(_trace(points[0], logs, task))
    return [trace for trace in traces if trace.steps]


def _evaluations(store: Store, node: Node, task: Task) -> dict[int, dict[str, float]]:
    """step -> score by split, for the evaluations of one training that also looked out of distribution."""
    log = read_json(store.path(node.key) / "training.json")["log"]
    names = {"eval_score": task.dev.name, **{f"trace/{split}": split for split in task.ood}}
    return {
        int(entry["step"]): {split: entry[name] for name, split in names.items()}
        for entry in log
        if all(name in entry for name in names)
    }


def _trace(point: Point, logs: list[dict[int, dict[str, float]]], task: Task) -> Trace:
    steps = sorted(set.intersection(*(set(log) for log in logs)))
    traced = (task.dev.name, *task.ood)
    scores = {split: [float(np.mean([log[step][split] for log in logs])) for step in steps] for split in traced}
    start = "early stopping" if point.start == "auto" else f"{100 * float(point.start):g} % of fine-tuning"
    return Trace(f"from {start}", steps, scores, len(logs))


def _cost_notes(evidence: Evidence, steps: dict[Point, int]) -> list[str]:
    """For every start found by early stopping: what it saved and what it lost, against a start at the end."""
    pairs: dict[Line, dict[Start, list[Point]]] = {}
    for points in evidence.places.values():
        if points[0].line.paradigm != "a":
            continue  # only there does a search start from a fine-tuning
        line = replace(points[0].line, label="", sparsities=(points[0].sparsity,), starts=(1.0,))
        pairs.setdefault(line, {})[points[0].start] = points
    return [
        _cost_note(searches["auto"], searches[1.0], steps, evidence)
        for searches in pairs.values()
        if {"auto", 1.0} <= searches.keys()
    ]


def _cost_note(early: list[Point], late: list[Point], steps: dict[Point, int], evidence: Evidence) -> str:

    def cost(points: list[Point]) -> float:
        return float(np.mean([steps[point] for point in points]))

    def tuning(points: list[Point]) -> float:
        parents = [point.node.parent for point in points if isinstance(point.node, Prune)]
        return float(np.mean([training_steps(parent, evidence.store) for parent in parents]))

    ours, theirs = ([point.node for point in points] for points in (early, late))
    lost = [f"{evidence.named(split)} {evidence.difference(ours, theirs, split)}" for split in evidence.task.scored]
    saved = f"{tuning(early):.0f} of {tuning(late):.0f} steps of fine-tuning"
    share = 100.0 * (1.0 - cost(early) / cost(late))
    return (
        f"Early stopping began the search after {saved}, which saves {share:.0f} % of all training steps. "
        f"Against a start at the end: {', '.join(lost)}."
    )
