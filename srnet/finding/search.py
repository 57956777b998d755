"""The search for a model to deploy: the sparsest subnetwork that keeps the ID score, chosen on ID dev alone.

1. A bias model that is biased: that of the suspected shortcut, or else the first of the others.
2. A full CE model, and debiased subnetworks from dense to sparse (or fast), while they keep the ID score and time is
   left. Where units are pruned, the weights that are left are trained further.
3. Further seeds of the sparsest subnetwork that keeps it, of the full model and of its control.
4. The OOD scores and the verdict.

Only the last step reads OOD scores.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from srnet.core.errors import UserError
from srnet.core.files import read_json
from srnet.core.names import EMBEDDED, EMBEDDED_OTHER
from srnet.evaluation import BIASED_BY, MIN_SEEDS
from srnet.evaluation.significance import Spread, spread
from srnet.evaluation.verdict import Verdict
from srnet.experiment.engine import Engine
from srnet.experiment.estimate import EVALUATION, Setting, duration_text, estimate
from srnet.experiment.known import read_scores
from srnet.experiment.nodes.base import Node, TaskSpec, load_task
from srnet.experiment.nodes.bias import BiasSpec
from srnet.experiment.nodes.models import Evaluate, ModelNode
from srnet.finding.settings import FindSettings
from srnet.masks.granularity import WEIGHT
from srnet.recipes.figures import MASK_CE, MASK_POE
from srnet.recipes.paradigms import Point, Profile, full, of_fine_tuned
from srnet.recipes.profiles import cpu_profile, toy_profile
from srnet.recipes.recipe import FULL_CE, Recipe, with_latencies
from srnet.report.evidence import RecipeEvidence
from srnet.tasks.base import Task
from srnet.tasks.shortcut import Shortcut
from srnet.timing.measuring import Measured

_OTHERS = ("overlap", "claim", "words", "length", "unknown")
"""Shortcuts to try where the suspected one is none: what is cheap and specific first."""
SCORED_AGAIN = 4
"""Times that all rows are scored at the end: both models for the audit, and a graph before and after rounding."""


@dataclass(frozen=True)
class _Biased:
    """The score of a bias model on ID dev: how far the shortcut alone gets."""

    shortcut: Shortcut
    score: float
    gain: float
    """Points above the majority class."""

    @property
    def is_biased(self) -> bool:
        return self.gain >= BIASED_BY


@dataclass(frozen=True)
class Tried:
    """A subnetwork of the first seed on ID dev."""

    sparsity: float
    """As requested; counted on the mask where a speed-up was requested."""
    score: float
    kept: float
    """Share of the full model's score."""
    speedup: float | None = None


@dataclass(frozen=True)
class Found:
    """What `find` chose, why, and how the result scores."""

    biases: tuple[_Biased, ...]
    """The bias models that were tried; the last one is used if it is biased."""
    full_score: float
    """The score of the full CE model of the first seed, or of its control if that is better, on ID dev."""
    tried: tuple[Tried, ...]
    sparsity: float | None
    """The sparsity or speed-up of the chosen subnetwork, as in `tried`; None if no subnetwork keeps the ID score."""
    speedup: float | None = None
    """The chosen one, where speed-ups were requested."""
    recipe: Recipe | None = None
    """The chosen subnetwork with all seeds, the full models and their control."""
    model: ModelNode | None = None
    """The seed that is delivered: the best on ID dev."""
    full_model: ModelNode | None = None
    """The full CE model of the same seed."""
    scores: dict[str, Spread] | None = None
    """The scores of the chosen subnetwork, by split."""
    verdict: Verdict | None = None
    """None without OOD data, without a biased bias model, or if nothing was chosen."""
    warnings: tuple[str, ...] = ()
    """Reasons why a gain may be misleading, as in the report."""
    folder: Path | None = None
    """Where the model is that is delivered."""
    measured: tuple[Measured, ...] = ()
    """How fast and large the full model is, and that folder."""

    @property
    def bias(self) -> _Biased | None:
        return self.biases[-1] if self.biases[-1].is_biased else None

    def to_json(self) -> dict[str, Any]:
        gains = {} if self.verdict is None else {split: str(each) for split, each in self.verdict.gains.items()}
        return {
            "bias_models": [vars(each) | {"is_biased": each.is_biased} for each in self.biases],
            "full_id_score": self.full_score,
            "tried": [vars(each) for each in self.tried],
            "sparsity": self.sparsity,
            "speedup": self.speedup,
            "model": self.model and self.model.key,
            "full_model": self.full_model and self.full_model.key,
            "scores": {split: vars(each) for split, each in (self.scores or {}).items()},
            "verdict": self.verdict and {"answer": self.verdict.answer, "text": str(self.verdict), "gains": gains},
            "warnings": list(self.warnings),
            "folder": self.folder and str(self.folder),
            "measured": [each.facts() for each in self.measured],
        }


class Find:
    """One search. What was computed stays in the store, so that the same search continues after an interruption."""

    def __init__(
        self,
        task: TaskSpec,
        backbone: str,
        settings: FindSettings,
        engine: Engine,
        bias: BiasSpec | None = None,
        budget: float | None = None,
    ) -> None:
        self.settings, self.engine, self.budget = settings, engine, budget
        self.given_bias, self.task = bias or BiasSpec(), load_task(task)
        make = toy_profile if backbone in (EMBEDDED, EMBEDDED_OTHER) else cpu_profile
        profile = settings.changed(make(task, backbone))
        self.profile = profile.each_training(trace=0)  # it would score OOD examples in the course of a search
        self._ends = None if budget is None else time.monotonic() + budget
        self._paces: dict[Setting, float] = {}
        self.objective = "ce"

    def run(self) -> Found:
        for note in self.task.notes:
            self._say(f"{self.task.name}: {note}")
        self._check_targets()
        biases = self._biases()
        self._use(biases[-1].shortcut, debias=biases[-1].is_biased)
        if not biases[-1].is_biased:
            self._say("no bias model is biased: subnetworks are searched with cross-entropy, and nothing is claimed")
        if self.budget is not None:
            self._say(self.plan(self.budget))
        full_score, tried = self._search()
        qualified = [each for each in tried if each.kept >= self.settings.keep_id]
        if not qualified:
            return Found(tuple(biases), full_score, tuple(tried), None)
        chosen = qualified[-1]
        return self._final(biases, full_score, tried, chosen.speedup or chosen.sparsity)

    def at_most(self) -> list[Recipe]:
        """What a search computes if the suspected shortcut is one and every target keeps the ID score."""
        self._check_targets()
        self._use(self._suspected, debias=True)
        targets, seeds = self.settings.targets, self.settings.seeds
        return [self._recipe(targets, 1, "search"), self._recipe(targets[-1:], seeds, "seeds of the chosen one")]

    def _use(self, shortcut: Shortcut, *, debias: bool) -> None:
        self.profile = replace(self.profile, bias=self._bias_spec(shortcut))
        self.objective = "poe" if debias else "ce"

    def _say(self, line: str) -> None:
        self.engine.reporter.say(line)

    def _check_targets(self) -> None:
        """Measure what budgets in time need, and refuse targets that the model cannot reach, before any training."""
        recipe = with_latencies(self._recipe(self.settings.targets, 1), self.engine)
        self.profile = replace(self.profile, latencies=recipe.profile.latencies)
        pruned = [point for point in recipe.points if point.is_pruned]
        self.engine.plan([point.node for point in pruned])
        searches = [point.search for point in pruned if point.search and point.search.pruner.needs_units]
        model: Any = searches[0].raw_model() if searches else None
        for search in searches:
            search.pruner.check_removes(model)

    # --- 1. the bias model -----------------------------------------------------------------------------------------

    def _biases(self) -> list[_Biased]:
        """The suspected shortcut, then the others, until one is biased; a shortcut that was given is the only one."""
        others = [] if self.given_bias.shortcut else [each for each in _OTHERS if each != self._suspected]
        found: list[_Biased] = []
        for shortcut in (self._suspected, *others):
            try:
                found.append(self._measured_bias(shortcut))
            except UserError as error:
                if not found:  # the suspected one
                    raise
                self._say(f"shortcut {shortcut}: cannot be measured: {error}")
                continue
            verb = "is biased" if found[-1].is_biased else "is not biased"
            self._say(f"shortcut {shortcut}: {verb}, {found[-1].gain:+.1f} points over the majority class on ID dev")
            if found[-1].is_biased:
                break
        return found if found[-1].is_biased else [*found[1:], found[0]]

    def _bias_spec(self, shortcut: Shortcut) -> BiasSpec:
        """Options that were given are for the suspected shortcut; others may not have them."""
        return replace(self.given_bias if shortcut == self._suspected else BiasSpec(), shortcut=shortcut)

    @property
    def _suspected(self) -> Shortcut:
        return self.given_bias.shortcut or self.task.shortcut

    def _measured_bias(self, shortcut: Shortcut) -> _Biased:
        node = self._bias_spec(shortcut).node(self.profile.task, self.profile.backbone)
        self.engine.execute([node])
        own = read_json(self.engine.store.path(node.key) / "scores.json")[self.task.dev.name]
        score, majority = (own[each][self.task.metric] for each in ("metrics", "majority"))
        return _Biased(shortcut, score, score - majority)

    # --- 2. from dense to sparse -----------------------------------------------------------------------------------

    def _recipe(self, targets: Sequence[float], seeds: int, name: str = "find") -> Recipe:
        of_units, label = self.settings.units != WEIGHT, MASK_POE if self.objective == "poe" else MASK_CE
        after = self.objective if of_units else None  # a model that lost units needs more training
        label += ", trained further" if after else ""

        def figure(profile: Profile) -> list[Point]:
            options = {"granularity": list(self.settings.units)} if of_units else {}
            budget = "speedups" if self.settings.speedups else "sparsities"
            wanted: dict[str, Any] = {"sparsities": (), budget: tuple(targets), "options": options}
            search = profile.search("mask", self.objective, **wanted)
            return [*full(profile, FULL_CE), *of_fine_tuned(profile, label, search, after=after)]

        return Recipe(name, replace(self.profile, seeds=tuple(range(seeds))), figure, keeps=self.settings.keep_id)

    def _search(self) -> tuple[float, list[Tried]]:
        points, tried, seeds = self._recipe(self.settings.targets, 1).points, list[Tried](), 1
        full_score = max(self._dev_score(point.node) for point in points if not point.is_pruned)
        for point in (point for point in points if point.is_pruned):
            aim, target = point.place.aim, point.place.target
            wanted = self._recipe([target], seeds)
            if not self._fits(wanted):
                if not tried:
                    raise self._too_short(wanted)
                self._say(f"{aim}: not begun, no time is left for it and its seeds")
                break
            score = self._dev_score(point.node)
            tried.append(self._tried(point, score, full_score))
            self._say(f"{aim}: keeps {100 * tried[-1].kept:.1f} % of the ID score")
            if tried[-1].kept < self.settings.keep_id:
                break  # a sparser one would keep less
            seeds = self._seeds_that_fit([target])  # a sparser one must not cost a seed
        return full_score, tried

    def _tried(self, point: Point, score: float, full_score: float) -> Tried:
        speedup, kept = point.place.speedup, score / full_score if full_score > 0.0 else 0.0
        if speedup is None:
            return Tried(point.place.sparsity, score, kept)
        return Tried(float(read_scores(self.engine.store, point.node)["sparsity"]), score, kept, speedup)

    def _dev_score(self, model: ModelNode) -> float:
        """The ID dev score. OOD scores are stored with it, and are not read."""
        self.engine.execute([model, Evaluate(model)])
        splits = read_scores(self.engine.store, model)["splits"]
        return float(splits[self.task.dev.name]["metrics"][self.task.metric])

    # --- 3. and 4. seeds and verdict -------------------------------------------------------------------------------

    def _final(self, biases: list[_Biased], full_score: float, tried: list[Tried], target: float) -> Found:
        seeds = self._seeds_that_fit([target])
        if seeds < self.settings.seeds:
            self._say(f"seeds: {seeds} of {self.settings.seeds}, no time is left for the others")
        recipe = self._recipe([target], seeds)
        self.engine.execute(recipe.nodes())
        evidence = RecipeEvidence(recipe, self.engine.store)
        models = [point.node for point in recipe.points if point.is_pruned]
        best = max(models, key=lambda each: evidence.mean([each], evidence.id))
        (verdict,) = evidence.verdicts.values() if self.objective == "poe" and evidence.verdicts else (None,)
        return Found(
            biases=tuple(biases),
            full_score=full_score,
            tried=tuple(tried),
            sparsity=next(each.sparsity for each in tried if target in (each.speedup, each.sparsity)),
            speedup=target if self.settings.speedups else None,
            recipe=recipe,
            model=best,
            full_model=evidence.full_models([best])[0],
            scores={split: spread(evidence.scores(models, split)) for split in self.task.scored},
            verdict=verdict,
        )

    # --- the budget ------------------------------------------------------------------------------------------------

    def plan(self, budget: float) -> str:
        """What fits into the budget. It is announced before anything is trained; what is trained follows the pace."""
        targets = self.settings.targets
        seeds, count = self._seeds_that_fit(targets[:1]), len(targets)
        final = self._recipe(targets[:1], seeds)
        if not self._fits(final):
            raise self._too_short(final)
        while count > 1 and not self._fits(self._recipe(targets[:count], 1), final):
            count -= 1
        verdict = "" if seeds >= MIN_SEEDS else ", too few for a verdict"
        tried = ", ".join(map(self.settings.text, targets[:count]))
        return f"the budget of {duration_text(budget)} is enough for {tried}; seeds: {seeds}{verdict}"

    def _seeds_that_fit(self, targets: Sequence[float]) -> int:
        """As many as there is time for, and one at least."""
        counts = range(self.settings.seeds, 1, -1)
        return next((n for n in counts if self._fits(self._recipe(targets, n))), 1)

    def _too_short(self, recipe: Recipe) -> UserError:
        left = max(0.0, (self._ends or 0.0) - time.monotonic())
        needed, left_over, budget = map(duration_text, (self._seconds(recipe), left, self.budget or 0.0))
        return UserError(
            f"the budget of {budget} is too short for one subnetwork",
            f"what is missing takes about {needed}, and {left_over} of the budget are left; with a larger --budget the "
            "same command continues",
        )

    def _fits(self, *recipes: Recipe) -> bool:
        """Whether there is time for what is missing; what is stored always fits."""
        if self._ends is None:
            return True
        needed = self._seconds(*recipes)
        return not needed or time.monotonic() + needed <= self._ends

    def _seconds(self, *recipes: Recipe) -> float:
        """About how long the missing nodes take: trainings by their steps, evaluations by their rows."""
        missing = self.engine.plan([node for recipe in recipes for node in recipe.nodes()])
        takes = estimate(missing, self.engine.store, measured=self._paces)
        if not takes.steps:
            return 0.0
        rows = sum(_rows(each, self.task) for each in missing)
        rows += SCORED_AGAIN * sum(len(self.task.splits[name]) for name in self.task.scored)
        batches = rows / self.profile.finetuning.batch_size
        return (takes.seconds or 0.0) * (1.0 + EVALUATION * batches / takes.steps)


def _rows(node: Node, task: Task) -> int:
    return sum(len(task.splits[name]) for name in node.names) if isinstance(node, Evaluate) else 0
