"""The search for a model to deploy: the sparsest subnetwork that keeps the ID score, chosen on ID dev alone.

1. A survey of shortcuts, and a bias model that is biased: that of the shortcut that the user or the task names, or else
   of the strongest one in the survey.
2. A full CE model and its control. Where their ID scores say that the model is undertrained, longer ones, once.
3. Debiased subnetworks of it from dense to sparse (or fast), while they keep the ID score and time is left. Where units
   are pruned, the weights that are left are trained further.
4. Further seeds of the sparsest subnetwork that keeps it, of the full model and of its control.
5. Where they are wanted, baselines with the steps and seeds of the chosen one. Nothing is chosen among them.
6. The OOD scores, the verdict and the diagnoses.

Only the last step reads OOD scores. The searches score OOD examples in their course, as those of all figures do, so
that they share their results; nothing reads these curves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from srnet.bias.survey import survey
from srnet.core.names import EMBEDDED, EMBEDDED_OTHER
from srnet.evaluation.significance import spread
from srnet.experiment.engine import Engine
from srnet.experiment.known import read_scores
from srnet.experiment.nodes.base import TaskSpec, load_task
from srnet.experiment.nodes.bias import BiasSpec
from srnet.experiment.nodes.models import Evaluate, FineTuned, ModelNode
from srnet.finding.biases import Biases
from srnet.finding.budget import Budget, Plans
from srnet.finding.comparison import compare
from srnet.finding.control import CONTROL, Control
from srnet.finding.diagnoses import LONGER, Diagnosis, no_shortcut, none_keeps, not_followed, undertrained
from srnet.finding.found import Biased, Found, Tried
from srnet.finding.settings import FindSettings
from srnet.masks.granularity import WEIGHT
from srnet.recipes.baselines import baselines, remarks
from srnet.recipes.figures import MASK_CE, MASK_POE
from srnet.recipes.paradigms import Point, Profile, full, of_fine_tuned
from srnet.recipes.profiles import cpu_profile, toy_profile
from srnet.recipes.recipe import Recipe, full_label, with_latencies
from srnet.report.evidence import RecipeEvidence
from srnet.report.results import follows_shortcut
from srnet.tasks.planted import planted_copy
from srnet.tasks.shortcut import Shortcut


class _FullScores(NamedTuple):
    """The ID scores of the first seed's full model and of its control, if it has one."""

    full: float
    control: float | None

    @property
    def best(self) -> float:
        return max(score for score in self if score is not None)


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
        own: FineTuned | None = None,
    ) -> None:
        """All is as in `find`; `own` is the full model that is given. None: one of `backbone` is fine-tuned."""
        self.settings, self.engine, self.spec, self.task = settings, engine, task, load_task(task)
        self.backbone = backbone
        make = toy_profile if own is None and backbone in (EMBEDDED, EMBEDDED_OTHER) else cpu_profile
        profile = settings.changed(make(task, backbone if own is None else own.backbone))
        self.profile = profile if own is None else profile.starting_from(own)
        self.biases = Biases(bias or BiasSpec(), task, self.profile.raw(0).weak_backbone, engine)
        self.budget = Budget(None if budget is None else budget / (1 + settings.control), engine, self.task)
        self.objective = "ce"
        self.scale = settings.scale

    def run(self) -> Found:
        self._check_targets()
        self.biases.check()
        if self.settings.control:
            self._copy().biases.check()  # a task that nothing can be planted in is refused before anything is trained
            if self.budget.limit is not None:
                self._say("control: half of the budget is for it")
        surveyed = survey(self.profile.task)
        for line in (surveyed.sentence, *(f"{self.task.name}: {note}" for note in self.task.notes)):
            self._say(line)
        biases = self.biases.tried(surveyed)
        self._use(biases[-1].shortcut, debias=biases[-1].is_biased)
        if not biases[-1].is_biased:
            self._say(str(no_shortcut(biases)))
        if self.budget.limit is not None:
            self._say(self.plan())
        scores = self._full_scores(biases[-1])
        return replace(self._final(biases, scores, self._search(scores.best)), survey=surveyed)

    def at_most(self) -> list[Recipe]:
        """What a search computes if the suspected shortcut is one and every target keeps the ID score."""
        self._check_targets()
        self.biases.check()
        self._use(self.biases.presumed, debias=True)
        targets, seeds = self.settings.targets, self.settings.seeds
        chosen = self._recipe(targets[-1:], seeds, "seeds of the chosen one")
        beside = [replace(self._beside(chosen, targets[-1]), name="baselines")] if self.settings.baselines else []
        control = [self._copy()._control_recipe(targets[-1], seeds)] if self.settings.control else []
        return [self._recipe(targets, 1, "search"), chosen, *beside, *control]

    def plan(self) -> str:
        """What fits into the budget. It is announced before anything is trained; what is trained follows the pace."""
        return self._plans.text()

    @property
    def _plans(self) -> Plans:
        return Plans(self.settings, self.budget, self._recipe)

    def _use(self, shortcut: Shortcut, *, debias: bool) -> None:
        self.profile = replace(self.profile, bias=self.biases.spec_of(shortcut))
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

    # --- 2. the full model and its control -------------------------------------------------------------------------

    def _full_scores(self, bias: Biased) -> _FullScores:
        """Of the first seed, trained longer if it is undertrained and there is time."""
        scores = self._first_full_scores()
        found = self._undertrained(scores, bias)
        if found is None:
            return scores
        self._say(str(found))
        if not self._may_lengthen():
            return scores
        self.profile, self.scale = self._lengthened, LONGER * self.scale
        self._say(f"training {LONGER:g} times as long, as with --scale {self.scale:g}")
        return self._first_full_scores()

    def _undertrained(self, scores: _FullScores, bias: Biased, mask: float | None = None) -> Diagnosis | None:
        given, control = self.profile.own is not None, scores.control
        cheap = {"bias": bias.score, "majority": bias.score - bias.gain}
        return undertrained(scores.full, **cheap, control=control, mask=mask, scale=self.scale, is_given=given)

    def _first_full_scores(self) -> _FullScores:
        points = self._recipe(self.settings.targets, 1).points
        first, *control = [self._dev_score(point.node) for point in points if not point.is_pruned]
        return _FullScores(first, control[0] if control else None)

    @property
    def _lengthened(self) -> Profile:
        return self.profile.each_training(scale=LONGER)

    def _may_lengthen(self) -> bool:
        """Whether the search may train longer by itself: not if a scale or the full model is given, or if seeds go."""
        if not self.settings.lengthen or self.settings.scale != 1.0 or self.profile.own is not None:
            return False
        first = self.settings.targets[:1]
        seeds = self._plans.seeds_that_fit(first)
        return self.budget.fits(self._recipe(first, seeds, profile=self._lengthened))

    # --- 3. from dense to sparse -----------------------------------------------------------------------------------

    def _recipe(
        self,
        targets: Sequence[float],
        seeds: int,
        name: str = "find",
        *,
        once: Sequence[float] = (),
        profile: Profile | None = None,
    ) -> Recipe:
        """Subnetworks at `targets` with some seeds, and at `once` with the first, beside full models of every seed."""
        of_units = self.settings.units != WEIGHT
        after = self.objective if of_units else None  # a model that lost units needs more training

        def found(profile: Profile, targets: Sequence[float]) -> list[Point]:
            options: dict[str, Any] = {"granularity": list(self.settings.units)} if of_units else {}
            if self.settings.timed_on != "device":
                options["timed_on"] = self.settings.timed_on
            budget = "speedups" if self.settings.speedups else "sparsities"
            wanted: dict[str, Any] = {"sparsities": (), budget: tuple(targets), "options": options}
            search = profile.search("mask", self.objective, **wanted)
            return of_fine_tuned(profile, self._label, search, after=after) if targets else []

        def figure(profile: Profile) -> list[Point]:
            points = found(profile, targets) + found(replace(profile, seeds=profile.seeds[:1]), once)
            return [*full(profile, full_label(profile)), *sorted(points, key=lambda point: point.place.target)]

        profile = replace(profile or self.profile, seeds=tuple(range(seeds)))
        return Recipe(name, profile, figure, keeps=self.settings.keep_id)

    def _beside(self, recipe: Recipe, target: float) -> Recipe:
        """The recipe with the baselines of its subnetworks at a target."""

        def figure(profile: Profile) -> list[Point]:
            points = list(recipe.figure(profile))
            like = [each for each in points if each.is_pruned and each.place.target == target]
            return points + baselines(profile, like, full_label(profile))

        return replace(recipe, figure=figure, remarks=remarks())

    @property
    def _label(self) -> str:
        label = MASK_POE if self.objective == "poe" else MASK_CE
        return label if self.settings.units == WEIGHT else f"{label}, trained further"

    def _search(self, full_score: float) -> list[Tried]:
        tried, seeds = list[Tried](), 1
        for point in (point for point in self._recipe(self.settings.targets, 1).points if point.is_pruned):
            aim, target = point.place.aim, point.place.target
            if not self.budget.fits(self._recipe([target], seeds)):
                if not tried:
                    raise self._plans.too_short(self._recipe([target], seeds))
                self._say(f"{aim}: not begun, no time is left for it and its seeds")
                break
            tried.append(self._tried(point, full_score))
            self._say(f"{aim}: keeps {100 * tried[-1].kept:.1f} % of the ID score")
            if tried[-1].kept < self.settings.keep_id:
                break  # a sparser one would keep less
            seeds = self._plans.seeds_that_fit([target])  # a sparser one must not cost a seed
        return tried

    def _tried(self, point: Point, full_score: float) -> Tried:
        score, speedup = self._dev_score(point.node), point.place.speedup
        kept = score / full_score if full_score > 0.0 else 0.0
        if speedup is None:
            return Tried(point.place.sparsity, score, kept)
        return Tried(float(read_scores(self.engine.store, point.node)["sparsity"]), score, kept, speedup)

    def _dev_score(self, model: ModelNode) -> float:
        """The ID dev score. OOD scores are stored with it, and are not read."""
        self.engine.execute([model, Evaluate(model)])
        splits = read_scores(self.engine.store, model)["splits"]
        return float(splits[self.task.dev.name]["metrics"][self.task.metric])

    # --- 4. to 6. seeds, baselines, verdict and diagnoses -----------------------------------------------------------

    def _final(self, biases: Sequence[Biased], scores: _FullScores, tried: Sequence[Tried]) -> Found:
        chosen = next((each for each in reversed(tried) if each.kept >= self.settings.keep_id), None)
        recipe = self._shown(tried, chosen)
        self.engine.execute(recipe.nodes())
        evidence, backbone = RecipeEvidence(recipe, self.engine.store), self.profile.backbone
        models = evidence.references[backbone].full
        return Found(
            biases=tuple(biases),
            full_score=scores.best,
            tried=tuple(tried),
            full_scores={split: spread(evidence.scores([*models.values()], split)) for split in self.task.scored},
            recipe=recipe,
            full_is_control=models != recipe.references[backbone].full,
            is_own=self.profile.own is not None,
            misled=self.biases.misled(biases[-1]),
            id_tests=tuple(self.task.id_tests),
            diagnoses=tuple(self._diagnoses(evidence, biases, scores, tried)),
            scale=self.scale,
            keeps=self.settings.keep_id,
            **({"full_model": models[0]} if chosen is None else self._chosen(evidence, chosen)),
        )

    def _shown(self, tried: Sequence[Tried], chosen: Tried | None) -> Recipe:
        """What the report shows: the chosen one with as many seeds as there is time for, the others with the first."""
        others = [each.target for each in tried if each is not chosen]
        if chosen is None:
            return replace(self._recipe(others, 1), title="What was tried")
        seeds = self._plans.seeds_that_fit([chosen.target])
        if seeds < self.settings.seeds:
            self._say(f"seeds: {seeds} of {self.settings.seeds}, no time is left for the others")
        title = f"What was tried with one seed, and {self.settings.text(chosen.target)} with all"
        return self._compared(replace(self._recipe([chosen.target], seeds, once=others), title=title), chosen)

    def _compared(self, recipe: Recipe, chosen: Tried) -> Recipe:
        """With the baselines, if they are wanted and there is time; nothing is chosen among them."""
        if not self.settings.baselines:
            return recipe
        if self.objective != "poe":
            self._say("baselines: none, because no shortcut was found that they could be debiased against")
            return recipe
        beside = self._beside(recipe, chosen.target)
        if self.budget.fits(beside):
            return beside
        self._say("baselines: none, no time is left for them")
        return recipe

    def _chosen(self, evidence: RecipeEvidence, chosen: Tried) -> dict[str, Any]:
        """The fields of `Found` on the chosen subnetwork."""
        ((place, points),) = (
            each for each in evidence.groups.items() if each[0][0] == self._label and each[0][1].target == chosen.target
        )
        models = [point.node for point in points]
        best = max(models, key=lambda each: evidence.mean([each], evidence.id))
        return {
            "sparsity": chosen.sparsity,
            "speedup": chosen.speedup,
            "model": best,
            "full_model": evidence.full_models([best])[0],
            "scores": {split: spread(evidence.scores(models, split)) for split in self.task.scored},
            "verdict": evidence.verdicts.get(place) if self.objective == "poe" else None,
            "compared": compare(evidence, place),
        }

    # --- a planted shortcut ----------------------------------------------------------------------------------------

    def _copy(self, budget: float | None = None) -> Find:
        """The same search in a copy of the task with a planted shortcut."""
        spec = planted_copy(self.spec)
        copied = Find(
            spec, self.backbone, replace(self.settings, control=False, baselines=False), self.engine, budget=budget
        )
        if self.scale != self.settings.scale:
            copied.profile = copied._lengthened
        return copied

    def _control_recipe(self, target: float, seeds: int) -> Recipe:
        self._use(self.biases.presumed, debias=True)
        return replace(self._recipe([target], seeds, CONTROL), title="The control: a planted shortcut")

    def control(self, found: Found) -> Control | None:
        """What became of a planted shortcut at the chosen sparsity, or the densest; None if there is no time for it."""
        limit = self.budget.limit
        copied = self._copy(limit)  # the other half of the budget
        tried = {each.target for each in found.tried}
        chosen = next((t for t in tried if t in (found.speedup, found.sparsity)), min(tried))
        # all seeds, also where nothing was chosen: a negative answer is what the control is for
        seeds = next((n for n in range(self.settings.seeds, 0, -1) if copied._fits(chosen, n)), 0)
        if not seeds:
            self._say("control: not begun, no time is left for it")
            return None
        recipe = copied._control_recipe(chosen, seeds)
        self.engine.execute(recipe.nodes())
        return Control.of(RecipeEvidence(recipe, self.engine.store), recipe.task.strength)  # type: ignore[attr-defined]

    def _fits(self, target: float, seeds: int) -> bool:
        return self.budget.fits(self._control_recipe(target, seeds))

    def _diagnoses(
        self, evidence: RecipeEvidence, biases: Sequence[Biased], scores: _FullScores, tried: Sequence[Tried]
    ) -> list[Diagnosis]:
        bias, best = biases[-1], max(each.score for each in tried)
        found = [self._undertrained(scores, bias, mask=best)]
        if tried[0].kept < self.settings.keep_id:
            speedup = tried[0].speedup is not None
            found.append(none_keeps(self.settings.keep_id, tried[0].kept, tried[0].target, speedup=speedup))
        if bias.is_biased:
            models = [*evidence.references[self.profile.backbone].full.values()]
            gaps = follows_shortcut(evidence, self.biases.node(bias.shortcut), models, (evidence.id,))
            found += map(not_followed, gaps.values())
        else:
            found.append(no_shortcut(biases))
        return [each for each in found if each is not None]
