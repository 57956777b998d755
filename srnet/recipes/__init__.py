"""Experiments as data: the demonstration, and what users write in YAML."""

from srnet.recipes.demo import demo_recipe
from srnet.recipes.recipe import Line, Point, Recipe
from srnet.recipes.spec import load_recipe, task_from

__all__ = ["Line", "Point", "Recipe", "demo_recipe", "load_recipe", "task_from"]
