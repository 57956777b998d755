"""The demonstration: a shortcut, a model that falls for it however long it trains, and the subnetwork that does not."""

from __future__ import annotations

from dataclasses import replace

from srnet.recipes.figures import MASK_CE, MASK_POE
from srnet.recipes.paradigms import Profile, full, of_fine_tuned
from srnet.recipes.points import Point
from srnet.recipes.profiles.toy import toy_profile
from srnet.recipes.recipe import FULL_CE, Recipe
from srnet.tasks.synthetic import SyntheticTask

SPARSITIES = (0.5, 0.7)
SEEDS = 3
"""With fewer there is no verdict."""


def demo_recipe(
    task: SyntheticTask | None = None,
    seeds: int = SEEDS,
    sparsities: tuple[float, ...] = SPARSITIES,
    steps: int | None = None,
) -> Recipe:
    """`steps` shortens (or lengthens) every training alike."""
    profile = replace(toy_profile(task or SyntheticTask("inference")), seeds=tuple(range(seeds)), sparsities=sparsities)
    if steps is not None:
        profile = profile.each_training(steps=steps, eval_every=max(1, steps // 5))
    return Recipe("demo", profile, _points)


def _points(profile: Profile) -> list[Point]:
    # one sparsity is enough to tell the effect of the objective from that of pruning
    ce = profile.search("mask", "ce", sparsities=profile.sparsities[:1])
    poe = profile.search("mask", "poe")
    return [*full(profile, FULL_CE), *of_fine_tuned(profile, MASK_CE, ce), *of_fine_tuned(profile, MASK_POE, poe)]
