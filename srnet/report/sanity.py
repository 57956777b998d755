"""Reasons to doubt a gain: a full model that was never fooled, scores below a constant answer, metrics at odds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from srnet.evaluation import Interval, Term, Verdict, contrast, measure
from srnet.experiment import Bias
from srnet.experiment.compute import bias_predictions
from srnet.recipes.points import Point
from srnet.report.evidence import Evidence
from srnet.tasks.base import Metric

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


@dataclass(frozen=True)
class Subnetwork:
    """One that was judged."""

    name: str
    points: list[Point]
    verdict: Verdict


def warnings_about(evidence: Evidence, subnetworks: Sequence[Subnetwork], majority: dict[str, float]) -> list[str]:
    if not evidence.task.answer_kind.has_classes:
        return []
    found = [w for backbone, bias in evidence.recipe.bias_models.items() for w in _about_full(evidence, backbone, bias)]
    low = [each.name for each in subnetworks if _below_majority(evidence, each, majority)]
    if low:
        found.append(f"{_listed(low)}: better than the full CE model OOD, but no better than the majority class")
    disputed = [each.name for each in subnetworks if _metrics_disagree(evidence, each)]
    if disputed:
        found.append(f"{_listed(disputed)}: accuracy and F1 disagree about the OOD gain")
    return found


# --- the full model ------------------------------------------------------------------------------------------------


def _about_full(evidence: Evidence, backbone: str, bias: Bias) -> list[str]:
    found, own_backbone = [], evidence.recipe.profile.backbone
    name = "the full CE model" + ("" if backbone == own_backbone else f" on {backbone}")
    follows = _follows_shortcut(evidence, bias, backbone) if evidence.ood else None
    if follows is not None and follows.low <= 0.0:
        falls = "does not fall" if follows.high < FOLLOWS else "may not fall"
        found.append(
            f"{name} {falls} for the shortcut: its OOD accuracy where the bias model is right minus where it is wrong "
            f"is {follows}; a gain over it need not be robustness against this shortcut"
        )
    own = 100.0 * measure(evidence.task.metric, _bias_answers(evidence, bias, evidence.id), evidence.task.dev.labels)
    lead = evidence.mean(list(evidence.reference(backbone).models.values()), evidence.id) - own
    if lead < BEATS_BIAS_BY:
        beats = "barely beats" if lead > 0.0 else "does not beat"
        found.append(f"{name} {beats} its bias model on ID {evidence.id}: {lead:+.1f} points")
    return found


def _follows_shortcut(evidence: Evidence, bias: Bias, backbone: str) -> Interval | None:
    """Accuracy where the bias model is right minus accuracy where it is wrong, over all OOD examples.

    None where the bias model is always right or always wrong.
    """

    labels = np.concatenate([evidence.task.splits[split].labels for split in evidence.ood])
    shortcut = np.concatenate([_bias_answers(evidence, bias, split) for split in evidence.ood]) == labels
    if shortcut.all() or not shortcut.any():
        return None
    models = evidence.reference(backbone).models.values()
    answers = [np.concatenate([evidence.answers(model, split) for split in evidence.ood]) for model in models]
    full = [(each == labels).astype(np.int64) for each in answers]
    rows = {"shortcut right": shortcut, "shortcut wrong": ~shortcut}
    terms = [Term(w, name, [f[rows[name]] for f in full]) for w, name in zip((1.0, -1.0), rows, strict=True)]
    return contrast(terms, {name: np.ones(each.sum(), dtype=np.int64) for name, each in rows.items()}, "accuracy")


def _bias_answers(evidence: Evidence, bias: Bias, name: str) -> np.ndarray:
    """In the order of the split, as they were stored: ids of test examples need not be unique."""
    logits, task = bias_predictions(evidence.store, bias, name).log_probs, evidence.task
    return task.answer_kind.decode(task.splits[name], logits)


# --- subnetworks ---------------------------------------------------------------------------------------------------


def _below_majority(evidence: Evidence, each: Subnetwork, majority: dict[str, float]) -> bool:
    models = [point.node for point in each.points]
    return any(
        interval.difference >= NO_GAIN and evidence.mean(models, split) <= majority[split]
        for split, interval in each.verdict.gains.items()
    )


def _metrics_disagree(evidence: Evidence, each: Subnetwork) -> bool:
    models = [point.node for point in each.points]
    full = list(evidence.reference(each.points[0].backbone).models.values())

    def gain(split: str, metric: Metric) -> float:
        return evidence.mean(models, split, metric) - evidence.mean(full, split, metric)

    gains = [(gain(split, "accuracy"), gain(split, "f1")) for split in evidence.ood]
    return any(max(map(abs, pair)) >= SOME_GAIN and min(pair) < NO_GAIN and max(pair) > -NO_GAIN for pair in gains)


def _listed(names: Sequence[str]) -> str:
    """A few by their names, many by their number as well."""
    if len(names) == 1:
        return names[0]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{len(names)} subnetworks ({'; '.join(names[:NAMED])}{more})"
