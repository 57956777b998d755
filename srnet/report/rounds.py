"""Seeds are added to the figures, where they decide most, until the paper's claims are answered."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from srnet.config.values import SeedCount, kind_of, located
from srnet.core.errors import UserError
from srnet.evaluation.verdict import ALPHA, OPEN
from srnet.experiment.engine import Engine
from srnet.experiment.estimate import duration_text, estimate
from srnet.experiment.nodes.base import TaskSpec, load_task
from srnet.recipes.recipe import Recipe
from srnet.report.claims import CLAIMS, Claim, Finding, answer_claim, main_figure
from srnet.report.evidence import RecipeEvidence

_Shown = tuple[TaskSpec, str]
"""A task, and the name of a figure on it."""


@dataclass
class Rounds:
    """Each round computes one more seed of one figure and tests its claims again.

    Testing repeatedly finds more by chance, so each test is at the level divided by the number of planned tests: one
    with the seeds at the start, and one after every further seed. A claim that is answered once stays answered.
    """

    recipes: Sequence[Recipe]
    engine: Engine
    max_seeds: int
    budget: float | None = None
    """Seconds; a round that would probably exceed it is not begun."""
    clock: Callable[[], float] = time.monotonic
    _findings: dict[tuple[TaskSpec, Claim], Finding] = field(init=False, default_factory=dict)
    _computed: set[_Shown] = field(init=False, default_factory=set)
    _over_budget: set[_Shown] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        with located("max_seeds"):
            kind_of(SeedCount).convert(self.max_seeds)
        # of a figure and its copy in the appendix the first is taken: both have the same models
        self._figures = {(recipe.task, main_figure(recipe.name)): recipe for recipe in reversed(self.recipes)}
        seeds = len(self.recipes[0].seeds)
        if self.max_seeds < seeds:
            raise UserError(f"at most {self.max_seeds} seeds, but {seeds} to start with", "give a larger --max-seeds")
        self._alpha = ALPHA / (self.max_seeds - seeds + 1)
        self._started = self.clock()

    def run(self) -> list[Finding]:
        for task in dict.fromkeys(recipe.task for recipe in self.recipes):
            self._test(task, CLAIMS)
        while able := [(task, each) for (task, _), each in self._findings.items() if self._may_go_on(task, each)]:
            # the claim that needs the fewest further seeds by its own estimate
            self._compute(*min(able, key=lambda pair: pair[1].further_seeds))
        return list(self._findings.values())

    def _test(self, task: TaskSpec, claims: Sequence[Claim]) -> None:
        wanted = {(task, claim.figure) for claim in claims} & self._figures.keys()
        evidence = {place[1]: RecipeEvidence(self._figures[place], self.engine.store, self._alpha) for place in wanted}
        for claim in claims:
            before = self._findings.get((task, claim))
            if before is None or before.answer == OPEN:
                self._findings[task, claim] = answer_claim(claim, load_task(task), evidence.get(claim.figure))

    def _may_go_on(self, task: TaskSpec, finding: Finding) -> bool:
        place = (task, finding.claim.figure)
        if finding.answer != OPEN or finding.needs is None or place in self._over_budget:
            return False
        if not finding.conditions:  # not computed; if it was, the claim is about lines that this figure does not have
            return place not in self._computed
        return len(self._figures[place].seeds) < self.max_seeds

    def _compute(self, task: TaskSpec, finding: Finding) -> None:
        place = (task, finding.claim.figure)
        recipe, seed = self._figures[place], "the first seeds"
        if finding.conditions:
            recipe = recipe.with_seeds((*recipe.seeds, max(recipe.seeds) + 1))
            seed = f"seed {recipe.seeds[-1]}"
        round_name, say = f"{recipe.name} on {task.name}, {seed}", self.engine.reporter.say
        if problem := self._exceeds_budget(recipe):
            say(f"{round_name}: not begun, {problem}")
            self._over_budget.add(place)
            return
        say(f"{round_name}: for the claim {finding.claim.name} ({finding.note})")
        self.engine.execute(recipe.nodes())
        self._figures[place] = recipe
        self._computed.add(place)
        self._test(task, [claim for claim in CLAIMS if claim.figure == finding.claim.figure])

    def _exceeds_budget(self, recipe: Recipe) -> str:
        """Why the figure cannot be computed within the budget; empty if it can."""
        if self.budget is None:
            return ""
        left = self.budget - (self.clock() - self._started)
        if left <= 0.0:
            return "the budget is used up"
        takes = estimate(self.engine.plan(recipe.nodes()), self.engine.store).seconds or 0.0
        if takes <= left:
            return ""
        return f"it would take about {duration_text(takes)}, and {duration_text(left)} of the budget are left"
