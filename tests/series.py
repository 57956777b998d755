"""Recipes of a few series. A series is a paradigm with everything but the profile: `partial(full, label="x")`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from srnet.recipes.paradigms import Point, Profile
from srnet.recipes.recipe import Recipe

Series = Callable[[Profile], list[Point]]


def recipe_of(profile: Profile, *series: Series, name: str = "r", control: bool = False, **more: Any) -> Recipe:
    def figure(profile: Profile) -> list[Point]:
        return [point for make in series for point in make(profile)]

    return Recipe(name, profile, figure, control=control, **more)
