"""Seeds are added to the figures, where they decide most, until the paper's claims are answered."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from srnet.errors import UserError
from srnet.evaluation import ALPHA
from srnet.experiment import Engine, load_task
from srnet.experiment.estimate import duration_text, estimate
from srnet.experiment.nodes import TaskSpec
from srnet.recipes import Recipe
from srnet.report.claims import CLAIMS, OPEN, Claim, Finding, find, main_figure
from srnet.report.evidence import Evidence

Place = tuple[TaskSpec, str]
"""A task and a figure."""


def planned_looks(seeds: int, max_seeds: int) -> int:
    """How often each claim may be looked at: with the seeds at the start, and after every further one."""
    if max_seeds < seeds:
        raise UserError(f"at most {max_seeds} seeds, but {seeds} to start with", "give a larger --max-seeds")
    return max_seeds - seeds + 1


@dataclass
class Rounds:
    """Each round computes one more seed of one figure and looks at its claims again.

    Looking repeatedly finds more by chance, so each look is tested at the level divided by the number of planned looks.
    A claim that is answered at one look stays answered.
    """

    recipes: Sequence[Recipe]
    engine: Engine
    max_seeds: int
    budget: float | None = None
    """Seconds; a round that would probably exceed it is not begun."""
    clock: Callable[[], float] = time.monotonic
    _figures: dict[Place, Recipe] = field(init=False)
    _findings: dict[tuple[TaskSpec, Claim], Finding] = field(init=False, default_factory=dict)
    _over: set[Place] = field(init=False, default_factory=set)
    """Figures for which the budget does not suffice."""
    _computed: set[Place] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        # of a figure and its copy in the appendix the first is taken: both have the same models
        self._figures = {(recipe.task, main_figure(recipe.name)): recipe for recipe in reversed(self.recipes)}
        self._alpha = ALPHA / planned_looks(len(self.recipes[0].seeds), self.max_seeds)
        self._started = self.clock()

    def run(self) -> list[Finding]:
        for task in dict.fromkeys(recipe.task for recipe in self.recipes):
            self._look(task, CLAIMS)
        while (chosen := self._most_promising()) is not None:
            self._play(*chosen)
        return list(self._findings.values())

    def _look(self, task: TaskSpec, claims: Sequence[Claim]) -> None:
        figures = {
            figure: Evidence(recipe, self.engine.store, self._alpha)
            for (of, figure), recipe in self._figures.items()
            if of == task and figure in {claim.figure for claim in claims}
        }
        for claim in claims:
            before = self._findings.get((task, claim))
            if before is None or before.answer == OPEN:
                self._findings[task, claim] = find(claim, load_task(task), figures.get(claim.figure))

    def _most_promising(self) -> tuple[TaskSpec, Finding] | None:
        """The unanswered claim that needs the fewest further seeds by its own estimate."""
        able = [(task, finding) for (task, _), finding in self._findings.items() if self._may_go_on(task, finding)]
        return min(able, key=lambda pair: (pair[1].needs or 0) - pair[1].seeds if pair[1].parts else 0, default=None)

    def _may_go_on(self, task: TaskSpec, finding: Finding) -> bool:
        place = (task, finding.claim.figure)
        if finding.answer != OPEN or finding.needs is None or place in self._over:
            return False
        if not finding.parts:  # not computed; if it was, the claim is about lines that this figure does not have
            return place not in self._computed
        return len(self._figures[place].seeds) < self.max_seeds

    def _play(self, task: TaskSpec, finding: Finding) -> None:
        place = (task, finding.claim.figure)
        recipe = self._figures[place]
        if finding.parts:
            recipe = recipe.with_seeds((*recipe.seeds, max(recipe.seeds) + 1))
        what = f"{recipe.name} on {task.name}, " + (f"seed {recipe.seeds[-1]}" if finding.parts else "the first seeds")
        if not self._fits(recipe, what):
            self._over.add(place)
            return
        self.engine.reporter.say(f"{what}: for the claim {finding.claim.name} ({finding.note})")
        self.engine.execute(recipe.nodes())
        self._figures[place] = recipe
        self._computed.add(place)
        self._look(task, [claim for claim in CLAIMS if claim.figure == finding.claim.figure])

    def _fits(self, recipe: Recipe, what: str) -> bool:
        if self.budget is None:
            return True
        left = self.budget - (self.clock() - self._started)
        if left <= 0.0:
            self.engine.reporter.say(f"{what}: not begun, the budget is used up")
            return False
        takes = estimate(self.engine.plan(recipe.nodes()), self.engine.store).seconds or 0.0
        if takes > left:
            said = f"about {duration_text(takes)}, and {duration_text(left)} of the budget are left"
            self.engine.reporter.say(f"{what}: not begun, it would take {said}")
        return takes <= left
