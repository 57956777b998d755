"""Evidence that is made up: predictions of any accuracy we like, under the keys of a recipe's models."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from made_up import remember

from srnet.experiment.nodes.base import load_task
from srnet.experiment.nodes.models import ModelNode
from srnet.experiment.store import Store
from srnet.recipes.order import Order
from srnet.recipes.paradigms import Point
from srnet.recipes.recipe import Recipe
from srnet.report.claims import Finding, answer_claims
from srnet.report.evidence import RecipeEvidence

HOLDS, FAILS, OPEN = "holds", "does not hold", "not enough evidence"


@dataclass(frozen=True)
class Made:
    """Shares of right answers. With `own_luck` other examples are wrong than in other models of the same accuracy."""

    id: float
    ood: float
    own_luck: bool = False


FULL = SAME = Made(0.9, 0.6)
GOOD, POOR, LESS, COLLAPSED = Made(0.9, 0.75), Made(0.5, 0.5), Made(0.8, 0.5), Made(0.5, 0.95)
Where = tuple[Any, ...]
Story = dict[Where, Made]
"""(line,) or (line, sparsity), or (line, start) where a figure is about starts -> its accuracies."""


def every(labels: Iterable[str], made: Made) -> Story:
    return {(label,): made for label in labels}


def predictions(labels: np.ndarray, share: float, seed: int, luck: str) -> np.ndarray:
    """Exactly `share` of them right. Without luck of their own, models of one seed are wrong on the same examples."""
    order = np.random.default_rng([seed, len(luck), *luck.encode()]).permutation(len(labels))
    right = order[: round(share * len(labels))]
    wrong = (labels + 1) % (labels.max() + 1)
    wrong[right] = labels[right]
    return wrong


def remember_made(store: Store, model: ModelNode, made: Made, seed: int) -> None:
    task = load_task(model.task_spec)
    answers = {}
    for name in task.scored:
        luck, share = name + (model.key if made.own_luck else ""), made.id if name == task.dev.name else made.ood
        answers[name] = predictions(task.splits[name].labels, share, seed, luck)
    remember(store, model, answers)


def told(story: Story, point: Point) -> Made:
    places = [(point.label, point.place.start), (point.label, point.place.sparsity), (point.label,)]
    return next((story[place] for place in places if place in story), FULL)


@cache
def recipes_of(order: Order) -> list[Recipe]:
    """Made once: a test only fills the store under their keys."""
    return list(order.recipes())


def write(recipes: Iterable[Recipe], store: Store, story: Story) -> None:
    """Predictions for every model of the figures; what the story does not mention is like the full model."""
    for recipe in recipes:
        for seed in {point.seed for point in recipe.points}:
            remember_made(store, recipe.profile.full(seed), FULL, seed)
        for point in recipe.points:
            remember_made(store, point.node, told(story, point), point.seed)


def findings(order: Order, store: Store, figure: str = "", story: Story | None = None) -> dict[str, Finding]:
    """Every claim's finding, after the predictions of one figure have been written."""
    recipes = recipes_of(order)
    write([recipe for recipe in recipes if recipe.name == figure], store, story or {})
    return {finding.claim.name: finding for finding in check_claims(recipes, store)}


def check_claims(recipes: Iterable[Recipe], store: Store) -> list[Finding]:
    return answer_claims([RecipeEvidence(recipe, store) for recipe in recipes])
