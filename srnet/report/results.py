"""The results of a recipe: rows for a csv, notes on what is compared with what, warnings about doubtful gains."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from srnet.core.errors import shortened
from srnet.core.files import read_json, spreadsheet_cell
from srnet.core.tables import Shown
from srnet.evaluation import MIN_SEEDS
from srnet.evaluation.evidence import Evidence, M
from srnet.evaluation.metrics import reported
from srnet.evaluation.significance import Interval, Term, contrast, holm
from srnet.evaluation.verdict import ALPHA, Verdict
from srnet.experiment.estimate import training_steps
from srnet.experiment.nodes.bias import Bias
from srnet.experiment.nodes.models import ModelNode, Quantised
from srnet.experiment.nodes.objectives import Objective
from srnet.experiment.nodes.training import FineTune, Moment, Prune
from srnet.experiment.store import Store
from srnet.recipes.paradigms import Point, Start, search_behind
from srnet.recipes.recipe import Reference
from srnet.report import language
from srnet.report.evidence import Models, RecipeEvidence, Summary
from srnet.report.groups import group_metrics, group_rows, left_out
from srnet.report.planted import planted_theory

BEATS_BIAS_BY = 2.0
"""Points by which a full model should beat its bias model on ID: else it has learned little beside the shortcut."""
FOLLOWS = 5.0
"""Points of accuracy between examples with a right and a wrong shortcut from which a model may be said to follow it."""
NO_GAIN = 0.05
"""Points below which a gain is printed as 0.0, and counts as none."""
SOME_GAIN = 0.5
"""Points from which a gain by one metric and none by the other are a disagreement."""
NAMED = 3
"""How many subnetworks a warning names."""
SHORT_KEY = 12
"""Letters of a key that are printed to be typed."""


class Results(Shown, says="sentence"):
    """The results of a recipe that was executed. `rows` has those of every seed and metric."""

    def __init__(self, evidence: RecipeEvidence) -> None:
        task, self.recipe, self.summaries = evidence.task, evidence.recipe, evidence.summaries
        self.metric, self.ood_splits = task.metric, evidence.ood
        self.splits, self.columns = evidence.splits, evidence.columns
        """The scored splits, each with its kind: ID dev, OOD hans; and what tables and curves show."""
        self.is_of_language, self.can_judge = task.answer_kind.language, evidence.can_judge
        self.criterion, self.group_metric = evidence.criterion, task.answer_kind.group_metric or "accuracy"
        reference = evidence.full_models(self.summaries[0].models)
        self.full = {n: evidence.mean(reference, each.split, each.metric) for n, each in self.columns.items()}
        """Scores of the full model by column, also where no line shows it."""
        self.units = ", ".join(dict.fromkeys(column.unit for column in self.columns.values()))
        """The metrics of the columns, with their units."""
        self.rows = [row for point in self.recipe.points for row in _rows(evidence, point)]
        """The rows of results.csv."""
        self.group_rows, self.left_out = group_rows(evidence), left_out(evidence, task.compared)
        """Worst-group and pair accuracy by split and line, and a sentence on groups that are too small."""
        measured = evidence.report(self.summaries[0].models[0])["splits"]
        majority = {split: measured[split]["majority"][task.metric] for split in task.compared}
        constant = "majority class" if task.answer_kind.has_classes else "constant answer"
        self.constant = {} if self.is_of_language else {constant: majority}
        """Scores of the constant answer by its name and by column."""
        self.bias_models = {name: evidence.bias_scores(node) for name, node in evidence.bias_models.items()}
        """Scores of the shortcut alone, by bias model of the recipe and by split."""
        self.theory = planted_theory(evidence) or {
            name: {
                column: reported(each.metric, answers[each.split], task.splits[each.split].labels)
                for column, each in self.columns.items()
                if each.split in answers
            }
            for name, answers in task.ideal.items()
        }
        """Scores of ideal models on the same examples, by name and by column."""
        self.searches = _search_logs(evidence) if self.recipe.axis == "start" else []
        """How the searches went, where the figure is about when they start."""
        self.page_command = _page_command(evidence)
        """The command that opens two models of the figure side by side; empty if there are no two to compare."""
        self.has_pairs = task.has_pairs
        self.notes = _notes(evidence)
        self.warnings = language.warnings(evidence) if self.is_of_language else _warnings(evidence, majority)
        """Reasons to doubt the gains of this figure."""

    @property
    def sentence(self) -> str:
        """What was found, as the report begins."""
        from srnet.report.conclusion import conclude  # which is about results

        return conclude([self])[0]

    def _rows(self) -> list[Any]:
        return [
            {"model": s.name, "sparsity": s.sparsity, "verdict": s.answer or None, **s.scores} for s in self.summaries
        ]


def _page_command(evidence: RecipeEvidence) -> str:
    """The command for the subnetwork that gains most out of distribution and its full CE model, of the first seed."""
    gains = {
        each.models[0]: (each.verdict.rank, each.sparsity)
        for each in evidence.summaries
        if each.verdict is not None
        and len(each.models) == evidence.seeds
        and not (each.point.is_baseline or each.point.is_control)
    }
    answer = evidence.task.answer_kind
    if not gains or not (answer.has_classes or answer.language):
        return ""
    best = max(gains, key=gains.__getitem__)
    keys = (model.key[:SHORT_KEY] for model in (*evidence.full_models([best]), best))
    return shlex.join(["srnet", "page", *keys])


class _SearchLog(NamedTuple):
    """How the searches from one start went, mean over seeds."""

    start: str
    steps: list[int]
    scores: dict[str, list[float]]
    """Scores by split, at each of the steps."""


def _search_logs(evidence: RecipeEvidence) -> list[_SearchLog]:
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
        found += [_SearchLog(label, steps, scores)] if steps else []
    return found


# --- results.csv -----------------------------------------------------------------------------------------------------


def csv_text(results: Sequence[Results]) -> str:
    buffer = io.StringIO()
    rows = [row for each in results for row in each.rows]
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(rows[0])
    writer.writerows(map(spreadsheet_cell, row.values()) for row in rows)
    return buffer.getvalue()


def _rows(evidence: RecipeEvidence, point: Point) -> list[dict[str, Any]]:
    """Everything that was measured of one model. The keys are the columns of results.csv."""
    search, place, report = point.search, point.place, evidence.report(point.node)
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
        "data": getattr(search or point.node, "data", "id"),
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
        measured |= group_metrics(evidence, point.node, split)
        where = {"split": split, "kind": scores["kind"]}
        rows += [{**model, **where, "metric": m, "value": v, "key": point.node.key} for m, v in measured.items()]
    return rows


def _objective_of(node: ModelNode) -> str:
    """The objective of the fine-tuning that made a model; empty for a raw one."""
    if isinstance(node, Moment):
        return node.trajectory.objective.name
    if isinstance(node, Quantised):
        return _objective_of(node.parent)
    return node.objective.name if isinstance(node, FineTune) else ""


# --- notes -----------------------------------------------------------------------------------------------------------


def _notes(evidence: RecipeEvidence) -> list[str]:
    notes = [*_precision_notes(evidence), *_reference_notes(evidence), *_cost_notes(evidence)]
    notes += [f"{name}: {node.features}" for name, node in evidence.bias_models.items()]
    return [shortened(note, len(note)) for note in (*notes, *evidence.recipe.remarks, *evidence.task.notes)]


def _precision_notes(evidence: RecipeEvidence) -> list[str]:
    """In which precision answers were computed, unless that was float32."""
    used = sorted({point.node.eval_precision for point in evidence.recipe.points} - {"float32"})
    return [f"Results were evaluated in {' and '.join(used)}."] if used else []


def _reference_notes(evidence: RecipeEvidence) -> list[str]:
    """Which full CE model is meant, where there are two of them, and whether the usual one was trained long enough."""
    notes = []
    pruned = {point.backbone for point in evidence.recipe.points if point.is_pruned}
    for backbone, reference in evidence.recipe.references.items():
        if reference.controls:
            notes.append(
                f'"Full CE model" means {evidence.references[backbone].label}: of the full model and its control, '
                f"trained as long as the longest search, it scores higher on ID {evidence.id}."
            )
            notes += _longer_training(evidence, reference)
        elif evidence.recipe.has_control and backbone in pruned:
            notes.append(f"{reference.label} is trained as long as the longest search, and needs no control.")
    return notes


def _longer_training(evidence: RecipeEvidence, reference: Reference) -> list[str]:
    """What it changes, if that is certain on some split."""
    controls, full = list(reference.controls.values()), list(reference.full.values())
    changes = {split: evidence.difference(controls, full, split) for split in evidence.splits}
    either_way = holm([min(change.p_above(), change.p_below()) for change in changes.values()])
    if evidence.seeds < MIN_SEEDS or min(either_way) >= ALPHA:
        return []
    figures = ", ".join(f"{evidence.splits[split]} {interval}" for split, interval in changes.items())
    if changes[evidence.id].p_above() < ALPHA:
        return [f"The full model was undertrained: trained as long as the longest search, it changes by {figures}."]
    return [f"Trained as long as the longest search, the full model changes by {figures}."]


def _cost_notes(evidence: RecipeEvidence) -> list[str]:
    """For every start found by early stopping: what it saved and what it lost, against a start at the end."""
    pairs: dict[tuple[Prune, Objective | None], dict[Start | None, Summary]] = {}
    for summary in evidence.summaries:
        point = summary.point
        if point.paradigm == "a" and point.search:
            search = replace(point.search, parent=point.search.pretrained)  # the same, whatever it starts from
            after = point.node.objective if isinstance(point.node, FineTune) else None
            pairs.setdefault((search, after), {})[point.place.start] = summary
    both = [starts for starts in pairs.values() if {"auto", 1.0} <= starts.keys()]
    return [_cost_note(evidence, starts["auto"], starts[1.0]) for starts in both]


def _cost_note(evidence: RecipeEvidence, early: Summary, late: Summary) -> str:
    steps = [[_steps_before(model, evidence.store) for model in each.models] for each in (early, late)]
    saved = f"{np.mean(steps[0]):.0f} of {np.mean(steps[1]):.0f} steps of fine-tuning"
    share = 100.0 * (1.0 - early.steps / late.steps)
    lost = [f"{evidence.splits[s]} {evidence.difference(early.models, late.models, s)}" for s in evidence.splits]
    return (
        f"Early stopping began the search after {saved}, which saves {share:.0f} % of all training steps. "
        f"Against a start at the end: {', '.join(lost)}."
    )


def _steps_before(model: ModelNode, store: Store) -> int:
    search = search_behind(model)
    return training_steps(search.parent, store) if search else 0


# --- warnings --------------------------------------------------------------------------------------------------------


def _warnings(evidence: RecipeEvidence, majority: Mapping[str, float]) -> list[str]:
    if not evidence.task.answer_kind.has_classes:
        return []
    judged = [summary for summary in evidence.summaries if summary.verdict is not None]
    what = "models" if any(each.point.is_baseline for each in judged) else "subnetworks"
    means = {each.name: {split: score.mean for split, score in each.scores.items()} for each in judged}
    low = [each.name for each in judged if is_below_majority(each.verdict, means[each.name], majority)]
    full = {each.name: evidence.full_models(each.models) for each in judged}
    disputed = [each.name for each in judged if metrics_disagree(evidence, each.models, full[each.name])]
    return [
        *(w for backbone, bias in evidence.recipe.bias_models.items() for w in _about_full(evidence, backbone, bias)),
        *_about_several(what, low, "better than the full CE model OOD, but no better than the majority class"),
        *_about_several(what, disputed, "accuracy and F1 disagree about the OOD gain"),
    ]


def _about_full(evidence: RecipeEvidence, backbone: str, bias: Bias) -> list[str]:
    found, models = [], list(evidence.references[backbone].full.values())
    name = "the full CE model" + ("" if backbone == evidence.recipe.profile.backbone else f" on {backbone}")
    ood = [split for split in evidence.splits if evidence.task.splits[split].kind == "OOD"]
    follows = follows_shortcut(evidence, bias, models, ood)
    if follows and all(each.low <= 0.0 for each in follows.values()):
        falls = "does not fall" if all(each.high < FOLLOWS for each in follows.values()) else "may not fall"
        differences = ", ".join(f"{each} on {split}" for split, each in follows.items())
        found.append(
            f"{name} {falls} for the shortcut: its OOD accuracy where the bias model is right minus where it is wrong "
            f"is {differences}; a gain over it need not be robustness against this shortcut"
        )
    lead = evidence.mean(models, evidence.id) - evidence.bias_scores(bias)[evidence.id]
    if lead < BEATS_BIAS_BY:
        beats = "barely beats" if lead > 0.0 else "does not beat"
        found.append(f"{name} {beats} its bias model on ID {evidence.id}: {lead:+.1f} points")
    return found


def follows_shortcut(
    evidence: RecipeEvidence, bias: Bias, models: Models, splits: Sequence[str]
) -> dict[str, Interval]:
    """Accuracy where the bias model is right minus accuracy where it is wrong, by split.

    Sets are not pooled: one that is easier and has more rows on one side would decide. Those on which the bias model is
    always right or always wrong, or has no predictions, are left out.
    """
    found = {}
    for split in splits:
        labels, right = evidence.task.splits[split].labels, evidence.shortcut_right(bias, split)
        if right is not None and right.any() and not right.all():
            sides = {"shortcut right": (1.0, right), "shortcut wrong": (-1.0, ~right)}
            answers = [evidence.answers(model, split) for model in models]
            terms = [Term(weight, name, [each[rows] for each in answers]) for name, (weight, rows) in sides.items()]
            found[split] = contrast(terms, {name: labels[rows] for name, (_, rows) in sides.items()}, "accuracy")
    return found


def is_below_majority(verdict: Verdict | None, scores: Mapping[str, float], majority: Mapping[str, float]) -> bool:
    """Whether an OOD set on which there is a gain is scored no better than by its most frequent class."""
    gained = [s for s, gain in verdict.gains.items() if gain.difference >= NO_GAIN] if verdict else []
    return any(scores[split] <= majority[split] for split in gained)


def metrics_disagree(evidence: Evidence[M], *sides: Sequence[M]) -> bool:
    """Whether accuracy gains on an OOD set and F1 does not, or the other way: answers have moved between classes."""
    pairs = []
    for split in evidence.ood:
        ours, full = ([evidence.mean(side, split, metric) for metric in ("accuracy", "f1")] for side in sides)
        pairs.append([ours[0] - full[0], ours[1] - full[1]])
    return any(max(map(abs, pair)) >= SOME_GAIN and min(pair) < NO_GAIN and max(pair) > -NO_GAIN for pair in pairs)


def _about_several(what: str, names: Sequence[str], problem: str) -> list[str]:
    """One warning for all of them: a few by their names, many by their number as well."""
    if len(names) < 2:
        return [f"{name}: {problem}" for name in names]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return [f"{len(names)} {what} ({'; '.join(names[:NAMED])}{more}): {problem}"]
