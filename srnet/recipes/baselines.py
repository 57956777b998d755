"""The baselines of subnetworks, for `fig2` and for `find`: what is simpler than a search for a mask.

A new head, low-rank matrices, pruning the debiased model instead, and fewer bits. Each has the seeds of the subnetworks
that it is compared with; those that train have the steps of the search, those that prune its budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from importlib.util import find_spec

from srnet.experiment.estimate import planned_steps
from srnet.experiment.nodes.base import load_task
from srnet.experiment.nodes.models import ModelNode, Quantised
from srnet.experiment.nodes.training import FineTune, Prune
from srnet.pruners.base import OfUnits, Pruner
from srnet.pruners.magnitude import OneShot
from srnet.pruners.wanda import Wanda
from srnet.recipes.paradigms import Place, Point, Profile, updating
from srnet.tasks.base import TrainingData
from srnet.training.settings import Update

HEAD, LORA = "head only (PoE)", "LoRA (PoE)"
LAST_LAYER = "last layer retrained on balanced groups"
LAST_LAYER_OOD = f"{LAST_LAYER}, uses OOD data"
ONE_SHOT, WANDA = "one-shot pruning of the full model (PoE)", "Wanda pruning of the full model (PoE)"
INT8 = "{}, int8 weights"
_DENSE: dict[str, tuple[str, Update, TrainingData]] = {
    HEAD: ("poe", "head", "id"),
    LAST_LAYER: ("balanced", "head", "id"),
    LAST_LAYER_OOD: ("balanced", "head", "id+ood"),
    LORA: ("poe", "lora", "id"),
}
_PRUNED: dict[str, type[OfUnits]] = {ONE_SHOT: OneShot, WANDA: Wanda}


def baselines(profile: Profile, like: Sequence[Point], full_label: str, *, ood_data: bool = False) -> list[Point]:
    """The baselines of the subnetworks `like`, at the same places and with the same seeds.

    `full_label` is that of the full models. With `ood_data` there is also a line that trains on the task's OOD training
    data, where it has some; its label says so.
    """
    wanted = {LORA: has_peft(), LAST_LAYER_OOD: ood_data and load_task(profile.task).ood_train is not None}
    by_seed = {point.seed: point for point in sorted(like, key=_search_steps)}  # those of the longest search
    points = [
        Point(label, Place(), seed, _trained(profile, point, *how), is_baseline=True)
        for label, how in _DENSE.items()
        if wanted.get(label, True)
        for seed, point in by_seed.items()
    ]
    for label, make in _PRUNED.items():
        points += [replace(each, label=label, node=_pruned(profile, each, make), is_baseline=True) for each in like]
    full = INT8.format(full_label)
    return points + [Point(full, Place(), s, Quantised(profile.full(s)), is_baseline=True) for s in by_seed]


def with_baselines(
    points: Callable[[Profile], list[Point]], like: str, full_label: str, profile: Profile
) -> list[Point]:
    """The points of a figure, and then the baselines of its line `like`."""
    own = points(profile)
    return own + baselines(profile, [each for each in own if each.label == like], full_label, ood_data=True)


def remarks() -> tuple[str, ...]:
    """Why a line is missing."""
    return () if has_peft() else (f"The line '{LORA}' is missing, because peft is not installed: pip install peft.",)


def has_peft() -> bool:
    return find_spec("peft") is not None


def _search_steps(point: Point) -> int:
    """The steps between the full model and the subnetwork."""
    search = _search(point)
    return planned_steps(point.node) - planned_steps(search.parent)


def _search(point: Point) -> Prune:
    assert point.search is not None, f"{point.label} is no subnetwork"
    return point.search


def _trained(profile: Profile, point: Point, objective: str, update: Update, data: TrainingData) -> ModelNode:
    """The full CE model, trained on for the steps of the search."""
    settings = replace(profile.settings_for(objective), steps=_search_steps(point), patience=None)
    trained = profile.fine_tuned(profile.full(point.seed), objective, settings)
    return updating(replace(trained, data=data), update)


def _pruned(profile: Profile, point: Point, make: type[OfUnits]) -> ModelNode:
    """The full PoE model, pruned to the same budget; trained further if the subnetwork is."""
    same: Pruner = _search(point).pruner
    budget = {each.name: getattr(same, each.name) for each in fields(OfUnits) if hasattr(same, each.name)}
    found = Prune(profile.full(point.seed, "poe"), make(**budget))
    return profile.fine_tuned(found, "poe") if isinstance(point.node, FineTune) else found
