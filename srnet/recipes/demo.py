"""The demonstration: a shortcut, a model that falls for it however long it trains, and the subnetwork that does not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from srnet.config.fields import Described, first_seeds
from srnet.config.values import Count, SeedCount
from srnet.masks.budget import Sparsity
from srnet.recipes.figures import MASK_CE, MASK_POE
from srnet.recipes.paradigms import Point, Profile, full, of_fine_tuned
from srnet.recipes.profiles import toy_profile
from srnet.recipes.recipe import FULL_CE, Recipe
from srnet.tasks.synthetic import SyntheticTask


@dataclass(frozen=True)
class DemoSettings(Described):
    """What the demo trains."""

    seeds: SeedCount = 3
    """How many seeds. With fewer than 3 there is no verdict."""
    sparsities: tuple[Sparsity, ...] = (0.5, 0.7)
    """Shares to prune, with commas."""
    steps: Count | None = None
    """Optimisation steps of each training."""


def demo_recipe(task: SyntheticTask | None = None, **settings: Any) -> Recipe:
    """The recipe of `demo` on `task`; `settings` are fields of `DemoSettings`."""
    given, profile = DemoSettings(**settings), toy_profile(task or SyntheticTask("inference"))
    profile = replace(profile, seeds=first_seeds(given.seeds), sparsities=tuple(given.sparsities))
    if given.steps is not None:
        profile = profile.each_training(steps=given.steps, eval_every=max(1, given.steps // 5))
    return Recipe("demo", profile, _points)


def _points(profile: Profile) -> list[Point]:
    # one sparsity is enough to tell the effect of the objective from that of pruning
    ce = profile.search("mask", "ce", sparsities=profile.sparsities[:1])
    poe = profile.search("mask", "poe")
    return [*full(profile, FULL_CE), *of_fine_tuned(profile, MASK_CE, ce), *of_fine_tuned(profile, MASK_POE, poe)]
