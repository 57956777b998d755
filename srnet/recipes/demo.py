"""The demonstration: a shortcut, a model that falls for it however long it trains, and the subnetwork that does not."""

from __future__ import annotations

from dataclasses import replace

from srnet.recipes.figures import MASK_CE, MASK_POE, mask_search
from srnet.recipes.paradigms import FULL_CE, full, of_fine_tuned
from srnet.recipes.points import Point
from srnet.recipes.profile import Profile
from srnet.recipes.profiles.toy import toy_profile
from srnet.recipes.recipe import Recipe
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
    profile = replace(toy_profile(task or SyntheticTask("inference")), seeds=tuple(range(seeds)))
    if steps is not None:
        profile = profile.each_training(lambda each: replace(each, steps=steps, eval_every=max(1, steps // 5)))

    def points(profile: Profile) -> list[Point]:
        return [
            *full(profile, FULL_CE),
            # one sparsity is enough to tell the effect of the objective from that of pruning
            *of_fine_tuned(profile, MASK_CE, mask_search(profile, "ce", sparsities[:1])),
            *of_fine_tuned(profile, MASK_POE, mask_search(profile, "poe", sparsities)),
        ]

    return Recipe("demo", profile, points)
