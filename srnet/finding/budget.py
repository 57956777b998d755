"""The time of a search: how long recipes take by the pace of trainings, what fits, and what would fit instead."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from srnet.core.errors import UserError
from srnet.evaluation import MIN_SEEDS
from srnet.experiment.engine import Engine
from srnet.experiment.estimate import EVALUATION, Setting, duration_text, estimate
from srnet.experiment.nodes.base import Node
from srnet.experiment.nodes.models import Evaluate
from srnet.finding.settings import FindSettings
from srnet.recipes.recipe import Recipe
from srnet.tasks.base import Task

SCORED_AGAIN = 4
"""Times that all rows are scored at the end: both models for the audit, and a graph before and after rounding."""
SHORTER = (0.7, 0.5, 0.3, 0.2, 0.1)
"""The lengths of training that are proposed: a model that trains for less has learned nothing."""


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


@dataclass(frozen=True)
class Plans:
    """The plans of a search. `recipe` makes what is computed for targets and a number of seeds."""

    settings: FindSettings
    budget: Budget
    recipe: Callable[..., Recipe]

    def text(self) -> str:
        """What fits, from dense to sparse; raises if not even one subnetwork does."""
        targets = self.settings.targets
        seeds, count = self.seeds_that_fit(targets[:1]), len(targets)
        final = self.recipe(targets[:1], seeds)
        if not self.budget.fits(final):
            raise self.too_short(final)
        while count > 1 and not self.budget.fits(self.recipe(targets[:count], 1), final):
            count -= 1
        verdict = "" if seeds >= MIN_SEEDS else ", too few for a verdict"
        tried = ", ".join(map(self.settings.text, targets[:count]))
        proposed = self._proposal([self.settings.seeds]) if seeds < self.settings.seeds else ""
        more = f"; {self.settings.seeds} seeds fit with: {proposed}" if proposed else ""
        return f"the budget of {duration_text(self._limit)} is enough for {tried}; seeds: {seeds}{verdict}{more}"

    def seeds_that_fit(self, targets: Sequence[float]) -> int:
        """As many as there is time for, and one at least."""
        counts = range(self.settings.seeds, 1, -1)
        return next((n for n in counts if self.budget.fits(self.recipe(targets, n))), 1)

    def too_short(self, recipe: Recipe) -> UserError:
        """The error that says how long `recipe` takes, and what would fit into the budget."""
        needed, left = duration_text(self.budget.seconds(recipe)), duration_text(self.budget.left)
        proposed = self._proposal([self.settings.seeds, 1])
        fits = f"in {duration_text(self._limit)} fits: {proposed}; " if proposed else ""
        return UserError(
            f"the budget of {duration_text(self._limit)} is too short for one subnetwork",
            f"{fits}what is missing takes about {needed}, and {left} of the budget are left; with a larger --budget "
            "the same command continues",
        )

    @property
    def _limit(self) -> float:
        return self.budget.limit or 0.0

    def _proposal(self, seeds: Sequence[int]) -> str:
        """Options with which a search fits into the whole budget, the longest training first; empty if none does."""
        for count, scale, targets in self._shorter(seeds):
            profile = self.recipe(targets, 1).profile.each_training(scale=scale)
            parts = (self.recipe(targets, 1, profile=profile), self.recipe(targets[:1], count, profile=profile))
            if self.budget.seconds(*parts) <= self._limit:
                return self._options(count, scale, targets)
        return ""

    def _shorter(self, seeds: Sequence[int]) -> Iterator[tuple[int, float, tuple[float, ...]]]:
        """Numbers of seeds, scales and targets, the preferred first."""
        every = self.settings.targets
        for count in dict.fromkeys(seeds):
            for scale in SHORTER:
                yield from ((count, scale, every[:end]) for end in range(len(every), 0, -1))

    def _options(self, seeds: int, scale: float, targets: Sequence[float]) -> str:
        name = "--speedup" if self.settings.speedups else "--sparsities"
        options = f"--scale {scale * self.settings.scale:g} {name} {','.join(f'{each:g}' for each in targets)}"
        return options if seeds == self.settings.seeds else f"{options} --seeds {seeds}"
