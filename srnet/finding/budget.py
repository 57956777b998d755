"""The time of a search: how long recipes take by the pace of trainings, and what fits."""

from __future__ import annotations

import time

from srnet.experiment.engine import Engine
from srnet.experiment.estimate import EVALUATION, Setting, estimate
from srnet.experiment.nodes.base import Node
from srnet.experiment.nodes.models import Evaluate
from srnet.recipes.recipe import Recipe
from srnet.tasks.base import Task

SCORED_AGAIN = 4
"""Times that all rows are scored at the end: both models for the audit, and a graph before and after rounding."""


class Budget:
    """A number of seconds from now, or no limit."""

    def __init__(self, limit: float | None, engine: Engine, task: Task) -> None:
        self.limit, self.engine, self.task = limit, engine, task
        self._ends = None if limit is None else time.monotonic() + limit
        self._paces: dict[Setting, float] = {}

    @property
    def left(self) -> float:
        return float("inf") if self._ends is None else max(0.0, self._ends - time.monotonic())

    def fits(self, *recipes: Recipe) -> bool:
        """Whether there is time for what is missing; what is stored always fits."""
        if self._ends is None:
            return True
        needed = self.seconds(*recipes)
        return not needed or needed <= self.left

    def seconds(self, *recipes: Recipe) -> float:
        """About how long the missing nodes take: trainings by their steps, evaluations by their rows."""
        missing = self.engine.plan([node for recipe in recipes for node in recipe.nodes()])
        takes = estimate(missing, self.engine.store, measured=self._paces)
        if not takes.steps:
            return 0.0
        rows = sum(_rows(each, self.task) for each in missing)
        rows += SCORED_AGAIN * sum(len(self.task.splits[name]) for name in self.task.scored)
        batches = rows / recipes[0].profile.finetuning.batch_size
        return (takes.seconds or 0.0) * (1.0 + EVALUATION * batches / takes.steps)


def _rows(node: Node, task: Task) -> int:
    return sum(len(task.splits[name]) for name in node.names) if isinstance(node, Evaluate) else 0
