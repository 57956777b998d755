"""Experiments as expressions: the demonstration, the papers' figures and tables, and what users write in YAML."""

from srnet.recipes.demo import demo_recipe
from srnet.recipes.figures import FIGURES
from srnet.recipes.files import load_recipe
from srnet.recipes.order import Order
from srnet.recipes.paradigms import Profile
from srnet.recipes.points import Point
from srnet.recipes.recipe import Recipe
from srnet.recipes.tasks import DataOptions, task_from

__all__ = ["FIGURES", "DataOptions", "Order", "Point", "Profile", "Recipe", "demo_recipe", "load_recipe", "task_from"]
