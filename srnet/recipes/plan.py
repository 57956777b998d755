"""What recipes would compute, and how long it would take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from srnet.experiment import Engine, Node, every_node
from srnet.experiment.estimate import Estimate, estimate
from srnet.recipes.recipe import Recipe, with_latencies


@dataclass(frozen=True)
class Plan:
    """What a run would do."""

    steps: list[tuple[Node, bool]]
    """Every distinct step, and whether the store has it."""
    figures: list[str]
    """One line a figure."""
    estimate: Estimate
    fits: str = ""
    """What of a search fits into its budget, where this was measured."""

    @property
    def summary(self) -> str:
        missing = sum(not stored for _, stored in self.steps)
        trainings = [stored for node, stored in self.steps if node.trains]
        counted = f"{len(trainings)} distinct trainings, {sum(trainings)} of them stored; {missing} results to compute"
        return f"{counted}, {self.estimate}" if self.estimate.trainings else counted


def plan(recipes: Sequence[Recipe], engine: Engine | None = None, *, measure: bool = False) -> Plan:
    """What the recipes need, what the store has of it, and how long the rest would take."""
    engine = engine or Engine()
    recipes = [with_latencies(recipe, engine) for recipe in recipes]
    wanted = [every_node(recipe.nodes()) for recipe in recipes]
    every = {key: node for nodes in wanted for key, node in nodes.items()}
    missing = engine.plan(list(every.values()))
    todo = {node.key for node in missing}
    figures = []
    for recipe, nodes in zip(recipes, wanted, strict=True):
        trainings = [key in todo for key, node in nodes.items() if node.trains]
        counted = f"{len(recipe.points)} models, {len(trainings)} trainings, {sum(trainings)} to do"
        figures.append(f"{recipe.name} on {recipe.task.name}: {counted}")
    takes = estimate(missing, engine.store, measure=measure)
    return Plan([(node, key not in todo) for key, node in every.items()], figures, takes)
