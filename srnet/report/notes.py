"""Notes on a figure: its reference, its costs, its bias models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from srnet.evaluation import ALPHA, MIN_SEEDS, holm
from srnet.experiment import Bias, Prune
from srnet.experiment.cost import training_steps
from srnet.recipes.points import Point, Start
from srnet.recipes.recipe import Reference
from srnet.report.evidence import Evidence


def notes_about(evidence: Evidence, steps: Mapping[Point, int], bias_models: Mapping[str, Bias]) -> list[str]:
    return [
        *_reference_notes(evidence),
        *_cost_notes(evidence, steps),
        *(f"{name}: {node.features}" for name, node in bias_models.items()),
        *evidence.task.notes,
    ]


def _reference_notes(evidence: Evidence) -> list[str]:
    """Which full CE model is meant, where there are two of them, and whether the usual one was trained long enough."""
    notes = []
    pruned = {point.backbone for point in evidence.recipe.points if point.is_pruned}
    for backbone, reference in evidence.recipe.references.items():
        if reference.controls:
            notes.append(
                f'"Full CE model" means {evidence.reference(backbone).label}: of the full model and its control, '
                f"trained as long as the longest search, it scores higher on ID {evidence.id}."
            )
            notes += _longer_training(evidence, reference)
        elif evidence.recipe.control and backbone in pruned:
            notes.append(f"{reference.label} is trained as long as the longest search, and needs no control.")
    return notes


def _longer_training(evidence: Evidence, reference: Reference) -> list[str]:
    """What it changes, if that is certain on some split."""
    changes = evidence.control_minus_full(reference)
    either_way = holm([min(change.p_above(), change.p_below()) for change in changes.values()])
    if evidence.seeds < MIN_SEEDS or min(either_way) >= ALPHA:
        return []
    figures = ", ".join(f"{evidence.named(split)} {interval}" for split, interval in changes.items())
    if changes[evidence.id].p_above() < ALPHA:
        return [f"The full model was undertrained: trained as long as the longest search, it changes by {figures}."]
    return [f"Trained as long as the longest search, the full model changes by {figures}."]


def _cost_notes(evidence: Evidence, steps: Mapping[Point, int]) -> list[str]:
    """For every start found by early stopping: what it saved and what it lost, against a start at the end."""
    pairs: dict[Prune, dict[Start | None, list[Point]]] = {}
    for points in evidence.groups.values():
        if points[0].paradigm == "a" and isinstance(node := points[0].node, Prune):
            search = replace(node, parent=node.pretrained)  # the same search, whatever it starts from
            pairs.setdefault(search, {})[points[0].place.start] = points
    return [
        _cost_note(starts["auto"], starts[1.0], steps, evidence)
        for starts in pairs.values()
        if {"auto", 1.0} <= starts.keys()
    ]


def _cost_note(early: list[Point], late: list[Point], steps: Mapping[Point, int], evidence: Evidence) -> str:
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
