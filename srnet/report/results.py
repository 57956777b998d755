"""What came out of a recipe: one row a figure, summaries over seeds, a verdict for every subnetwork."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import Any

import numpy as np

from srnet.evaluation import METRICS, Spread, Verdict, judge, paired_bootstrap, spread
from srnet.experiment import BiasModel, Evaluate, Node, Store, load_task
from srnet.experiment.compute import load_logits
from srnet.files import read_json
from srnet.recipes.recipe import Line, Point, Recipe

COLUMNS = (
    "recipe", "task", "backbone", "seed", "line", "paradigm", "pruner", "objective_finetune", "objective_prune",
    "sparsity_target", "sparsity", "split", "kind", "metric", "value", "key",
)  # fmt: skip


@dataclass(frozen=True)
class Summary:
    """A line at one sparsity, over its seeds."""

    line: Line
    sparsity_target: float
    sparsity: float
    """Counted on the masks, mean over seeds."""
    scores: dict[str, Spread]
    """The task's metric by split."""
    groups: dict[str, dict[str, Spread]]
    """Accuracy per sub-case, by split."""
    recall: dict[str, dict[str, Spread]]
    verdict: Verdict | None
    keys: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.line.label if self.line.pruner is None else f"{self.line.label}, {100 * self.sparsity_target:g} %"


@dataclass(frozen=True)
class Results:
    recipe: Recipe
    id_split: str
    ood_splits: tuple[str, ...]
    metric: str
    rows: list[dict[str, Any]]
    summaries: list[Summary]
    majority: dict[str, float]
    bias_scores: dict[str, float] | None
    """The bias model's own score by split, if the recipe uses one."""

    def csv(self) -> str:
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return buffer.getvalue()


def nodes_of(recipe: Recipe) -> list[Node]:
    """Everything that has to be computed before `collect`: every point and the full CE models they are judged by."""
    points = [node for point in recipe.points() for node in (point.node, Evaluate(point.node))]
    return [*points, *(Evaluate(recipe.full_model(seed)) for seed in recipe.seeds), *_bias_nodes(recipe)]


def _bias_nodes(recipe: Recipe) -> list[BiasModel]:
    objectives = {o for line in recipe.lines for o in (line.finetune, line.prune, line.isolated)}
    return [recipe.bias_model()] if objectives - {"ce", None} else []


def collect(recipe: Recipe, store: Store) -> Results:
    """Read what the store has about a recipe that was executed."""
    task = load_task(recipe.task)
    points = recipe.points()
    reports = {p: read_json(store.path(Evaluate(p.node).key) / "scores.json") for p in points}
    groups: dict[tuple[str, float], list[Point]] = {}
    for point in points:
        groups.setdefault((point.line.label, point.sparsity), []).append(point)
    bias = {name: _bias_scores(store, node, task.metric) for name, node in enumerate(_bias_nodes(recipe))}
    any_report = next(iter(reports.values()))["splits"]
    return Results(
        recipe=recipe,
        id_split=task.dev.name,
        ood_splits=tuple(task.ood),
        metric=task.metric,
        rows=[row for point in points for row in _rows(recipe, point, reports[point])],
        summaries=[_summary(recipe, store, same, reports) for same in groups.values()],
        majority={name: any_report[name]["majority"][task.metric] for name in task.scored},
        bias_scores=bias.get(0),
    )


def _bias_scores(store: Store, node: BiasModel, metric: str) -> dict[str, float]:
    scores = read_json(store.path(node.key) / "scores.json")
    return {name: report["metrics"][metric] for name, report in scores.items()}


def _rows(recipe: Recipe, point: Point, report: dict[str, Any]) -> list[dict[str, Any]]:
    line = point.line
    common = {
        "recipe": recipe.name,
        "task": recipe.task.name,
        "backbone": recipe.backbone,
        "seed": point.seed,
        "line": line.label,
        "paradigm": line.paradigm,
        "pruner": line.pruner or "",
        "objective_finetune": "" if line.paradigm == "c" else line.finetune,
        "objective_prune": line.prune or "",
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


def _summary(recipe: Recipe, store: Store, points: list[Point], reports: dict[Point, dict[str, Any]]) -> Summary:
    task = load_task(recipe.task)

    def over_seeds(split: str, *path: str) -> Spread:
        values = []
        for point in points:
            value = reports[point]["splits"][split]
            for step in path:
                value = value[step]
            values.append(value)
        return spread(values)

    first = reports[points[0]]["splits"]
    return Summary(
        line=points[0].line,
        sparsity_target=points[0].sparsity,
        sparsity=float(np.mean([reports[point]["sparsity"] for point in points])),
        scores={split: over_seeds(split, "metrics", task.metric) for split in task.scored},
        groups={s: {g: over_seeds(s, "groups", g) for g in first[s]["groups"]} for s in task.scored},
        recall={s: {c: over_seeds(s, "recall", c) for c in first[s]["recall"]} for s in task.scored},
        verdict=_verdict(recipe, store, points) if points[0].line.pruner is not None and task.ood else None,
        keys=tuple(point.node.key for point in points),
    )


def _verdict(recipe: Recipe, store: Store, points: list[Point]) -> Verdict:
    """Against the full CE model of the same seeds."""
    task = load_task(recipe.task)
    metric = METRICS[task.metric]
    ours = [_predictions(store, Evaluate(point.node)) for point in points]
    full = [_predictions(store, Evaluate(recipe.full_model(point.seed))) for point in points]

    def mean(side: list[dict[str, np.ndarray]], split: str) -> float:
        return 100.0 * float(np.mean([metric(seed[split], task.splits[split].labels) for seed in side]))

    intervals = {
        split: paired_bootstrap([s[split] for s in ours], [s[split] for s in full], task.splits[split].labels, metric)
        for split in task.ood
    }
    ood = {split: (mean(ours, split), mean(full, split)) for split in task.ood}
    return judge(mean(ours, task.dev.name), mean(full, task.dev.name), ood, intervals)


def _predictions(store: Store, node: Evaluate) -> dict[str, np.ndarray]:
    return {split: logits.argmax(axis=1) for split, logits in load_logits(store, node).items()}
