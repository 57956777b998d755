"""Experiments as data: the demonstration, the paper's figures and tables, and what users write in YAML."""

from srnet.recipes.demo import demo_recipe
from srnet.recipes.figures import FIGURES
from srnet.recipes.profiles import PROFILES, Order
from srnet.recipes.recipe import Line, Point, Recipe
from srnet.recipes.spec import DataOptions, load_recipe, task_from

__all__ = [
    "FIGURES",
    "PROFILES",
    "DataOptions",
    "Line",
    "Order",
    "Point",
    "Recipe",
    "demo_recipe",
    "load_recipe",
    "task_from",
]
