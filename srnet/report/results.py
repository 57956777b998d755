"""What came out of a recipe: one row per number, summaries over seeds, a verdict for every subnetwork."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from srnet.evaluation import measure
from srnet.experiment import FineTune, ModelNode, Moment
from srnet.experiment.cost import training_steps
from srnet.files import read_json, spreadsheet_cell
from srnet.recipes.points import Point
from srnet.report.evidence import Evidence
from srnet.report.notes import notes_about, warnings_about

SHORT_KEY = 12
"""Letters of a key that are printed to be typed."""


class Results:
    """What came out of a recipe that was executed."""

    def __init__(self, evidence: Evidence) -> None:
        task, self.recipe, self.summaries = evidence.task, evidence.recipe, evidence.summaries
        self.metric, self.ood_splits = task.metric, evidence.ood
        self.splits = evidence.splits
        """The scored splits, each with its kind: ID dev, OOD hans."""
        self.rows = [row for point in self.recipe.points for row in _rows(evidence, point)]
        """Of results.csv."""
        measured = evidence.scores(self.summaries[0].models[0])["splits"]
        majority = {split: measured[split]["majority"][task.metric] for split in task.scored}
        self.constant = {"majority class" if task.answer_kind.has_classes else "constant answer": majority}
        """Scores of the constant answer by its name and by split."""
        self.bias_models = {name: evidence.bias_scores(node) for name, node in evidence.bias_models.items()}
        """Those of the shortcut alone, for each bias model of the recipe."""
        self.theory = {
            name: {s: 100.0 * measure(task.metric, each, task.splits[s].labels) for s, each in answers.items()}
            for name, answers in task.ideal.items()
        }
        """Those of ideal classifiers, on the same examples."""
        self.searches = _search_logs(evidence) if self.recipe.axis == "start" else []
        """How the searches went, where the figure is about when they start."""
        self.page_command = _page_command(evidence)
        """What opens two models of the figure side by side, if two can be compared."""
        self.notes = notes_about(evidence)
        self.warnings = warnings_about(evidence, majority)
        """Why the gains of this figure may not be what they look like."""


def _page_command(evidence: Evidence) -> str:
    """For the subnetwork that gains most out of distribution, and its full CE model; the first seed's."""
    gains = {
        each.models[0]: min(gain.difference for gain in each.verdict.gains.values())
        for each in evidence.summaries
        if each.verdict is not None
    }
    if not gains or not evidence.task.answer_kind.has_classes:
        return ""
    best = max(gains, key=gains.__getitem__)
    keys = (model.key[:SHORT_KEY] for model in (*evidence.full_models([best]), best))
    return shlex.join(["srnet", "page", *keys])


class SearchLog(NamedTuple):
    """How the searches from one start went, mean over seeds."""

    start: str
    steps: list[int]
    scores: dict[str, list[float]]
    """By split, at each of the steps."""


def _search_logs(evidence: Evidence) -> list[SearchLog]:
    names = {evidence.id: "eval_score", **{split: f"trace/{split}" for split in evidence.ood}}
    found = []
    for points in evidence.groups.values():
        searches = [point.search for point in points if point.search and point.search.trains and point.paradigm != "b"]
        if len(searches) < len(points):
            continue
        logs = [read_json(evidence.store.path(search.key) / "training.json")["log"] for search in searches]
        # the evaluations that also scored OOD examples, by step
        logs = [{entry["step"]: entry for entry in log if entry.keys() >= {*names.values()}} for log in logs]
        steps, start = sorted(set.intersection(*map(set, logs))), points[0].place.start
        scores = {s: [float(np.mean([log[step][names[s]] for log in logs])) for step in steps] for s in names}
        label = "from " + ("early stopping" if start == "auto" else f"{100 * (start or 0.0):g} % of fine-tuning")
        found += [SearchLog(label, steps, scores)] if steps else []
    return found


def csv_text(results: Sequence[Results]) -> str:
    buffer = io.StringIO()
    rows = [row for each in results for row in each.rows]
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(rows[0])
    writer.writerows(map(spreadsheet_cell, row.values()) for row in rows)
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
        "objective_after": _objective_of(point.node) if search and search is not point.node else "",
        "data": search.data if search else "id",
        "start": "" if place.start is None else place.start,
        "length": place.length if search else "",
        "training_steps": training_steps(point.node, evidence.store),
        "sparsity_target": place.sparsity if place.speedup is None else "",
        "speedup_target": place.speedup or "",
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
    """The objective of the fine-tuning that made a model; empty for a raw one."""
    if isinstance(node, Moment):
        return node.trajectory.objective.name
    return node.objective.name if isinstance(node, FineTune) else ""
