"""A recipe: a figure on a profile, the models it compares with, and what has to be computed for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from srnet.core.errors import UserError, choose
from srnet.core.names import file_name
from srnet.core.tables import Shown
from srnet.evaluation import KEEPS_ID
from srnet.experiment.engine import Engine
from srnet.experiment.estimate import Estimate, estimate, planned_steps
from srnet.experiment.nodes.base import Node, TaskSpec, every_node
from srnet.experiment.nodes.bias import Bias
from srnet.experiment.nodes.models import Evaluate, FineTuned, ModelNode
from srnet.experiment.nodes.training import FineTune
from srnet.experiment.written import Written, count_written
from srnet.pruners.base import OfUnits
from srnet.recipes.paradigms import Axis, Place, Point, Profile, labels_of
from srnet.tasks.outline import Outline
from srnet.timing.latency import latency_of

FULL_CE, FULL = "full model (CE)", "full model"
OWN_MODEL = "your model"


def full_label(profile: Profile) -> str:
    """The label of the full CE models, or of language models, which are full as they are."""
    if profile.models_language:
        return FULL
    return FULL_CE if profile.own is None else OWN_MODEL


@dataclass(frozen=True)
class Reference:
    """The full CE models of one backbone, by seed, with which its subnetworks are compared."""

    label: str
    full: Mapping[int, ModelNode]
    controls: Mapping[int, ModelNode]
    """The same models trained as long as the longest search. None without a control, or if no search is longer."""

    @property
    def control_label(self) -> str:
        is_own = any(isinstance(model, FineTuned) for model in self.full.values())
        return f"{self.label}, trained {'on ' if is_own else ''}as long"


@dataclass(frozen=True)
class Recipe:
    name: str
    profile: Profile
    figure: Callable[[Profile], Sequence[Point]]
    axis: Axis = "sparsity"
    title: str = ""
    """What the figure shows, in a few words."""
    control: bool = True
    """Whether full CE models trained as long as the longest search are shown: without them, the effect of a search
    cannot be distinguished from that of longer training."""
    lines: tuple[str, ...] = ()
    """Only these lines of the figure, by their labels, and the full CE models; all if none is named."""
    remarks: tuple[str, ...] = ()
    """Sentences for the report."""
    keeps: float = KEEPS_ID
    """The share of the full model's ID score that its subnetworks must keep to be SRNets."""

    def __post_init__(self) -> None:
        file_name("a recipe", self.name)

    @property
    def task(self) -> TaskSpec:
        return self.profile.task

    @property
    def seeds(self) -> tuple[int, ...]:
        return self.profile.seeds

    def with_seeds(self, seeds: tuple[int, ...]) -> Recipe:
        return replace(self, profile=replace(self.profile, seeds=seeds))

    @property
    def has_control(self) -> bool:
        """Whether full models are trained as long. What a language model would be trained on is a line's to say."""
        return self.control and not self.profile.models_language

    @property
    def folder(self) -> Path:
        """Where its report goes by default."""
        return Path(f"srnet-{self.name}")

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """Those of the figure. The control of a backbone follows its full CE model, or comes first without one."""
        points = list(self.shown)
        for each in self.references.values():
            place = max((n for n, point in enumerate(points, start=1) if point.node in each.full.values()), default=0)
            points[place:place] = [Point(each.control_label, Place(), *control) for control in each.controls.items()]
        return tuple(points)

    @property
    def every_line(self) -> list[str]:
        """The labels of all lines of the figure, of which `lines` may select some."""
        return labels_of(self.figure(self.profile))

    @cached_property
    def shown(self) -> list[Point]:
        """The points of the figure's lines, without controls."""
        points = self.figure(self.profile)
        if not points or len({(p.label, p.place, p.seed) for p in points}) != len(points):
            raise UserError(f"recipe '{self.name}' needs models", "give each label, sparsity, start and length once")
        for label in self.lines:
            choose(f"line of {self.name}", label, labels_of(points))
        wanted = self.lines or labels_of(points)
        return [p for p in points if p.label in wanted or p.node == self.profile.full(p.seed, backbone=p.backbone)]

    @cached_property
    def references(self) -> dict[str, Reference]:
        """By backbone, for all that have points."""
        return {backbone: self._reference(backbone) for backbone in dict.fromkeys(p.backbone for p in self.shown)}

    def _reference(self, backbone: str) -> Reference:
        full = {seed: self.profile.full(seed, backbone=backbone) for seed in self.seeds}
        unshown = full_label(self.profile)
        unshown += "" if backbone == self.profile.backbone else f" on {backbone}"
        label = next((p.label for p in self.shown if p.node in full.values()), unshown)
        searches = [planned_steps(p.node) for p in self.shown if p.is_pruned and p.backbone == backbone]
        controls = {
            seed: self._as_long(model, max(searches)) for seed, model in full.items() if self.has_control and searches
        }
        return Reference(label, full, {seed: model for seed, model in controls.items() if model != full[seed]})

    def _as_long(self, model: ModelNode, steps: int) -> FineTune:
        """Trained for at least `steps`, and without `patience`, which would end the training early.

        How long the user's own model was trained is not known: it is trained on for exactly `steps`.
        """
        trained = model if isinstance(model, FineTune) else self.profile.fine_tuned(model, "ce")
        longer = trained is not model or steps > planned_steps(trained)
        training = replace(trained.training, patience=None)
        return replace(trained, training=replace(training, steps=steps) if longer else training)

    @cached_property
    def bias_models(self) -> dict[str, Bias]:
        """By the backbone that is debiased, where a point needs one."""
        return {point.backbone: bias for point in self.points for bias in _bias_models(point.node)}

    def nodes(self) -> list[Node]:
        """Everything that a report on the recipe reads: every point, the models it is compared with, bias models."""
        nodes: list[Node] = [node for point in self.points for node in (point.node, Evaluate(point.node))]
        for each in self.references.values():
            nodes += map(Evaluate, (*each.full.values(), *each.controls.values()))
        return [*nodes, *self.bias_models.values()]


def with_latencies(recipe: Recipe, engine: Engine) -> Recipe:
    """The recipe with the latency tables that its budgets need: stored ones, or measured now."""
    searches = [(point.backbone, point.search.pruner) for point in recipe.shown if point.search]
    timed = [(on, each) for on, each in searches if isinstance(each, OfUnits) and each.needs_latency]
    needed = dict.fromkeys((backbone, each.timed_on) for backbone, each in timed)
    found = {(backbone, timed_on): latency_of(backbone, engine, timed_on) for backbone, timed_on in needed}
    if not found:
        return recipe
    return replace(recipe, profile=replace(recipe.profile, latencies={**recipe.profile.latencies, **found}))


def _bias_models(node: Node) -> list[Bias]:
    """The bias models of every training behind a model."""
    return [node] if isinstance(node, Bias) else [bias for parent in node.parents for bias in _bias_models(parent)]


# --- plans ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Plan(Shown, says="summary"):
    """What a run would do."""

    steps: list[tuple[Node, bool]]
    """Every distinct step, and whether the store has it."""
    figures: list[str]
    """One line a figure."""
    estimate: Estimate
    fits: str = ""
    """What of a search fits into its budget, where this was measured."""
    written: Written | None = None
    """Bytes of the results to compute and of their checkpoints; None where a backbone's size is not known."""
    unshared: tuple[int, int] = (0, 0)
    """Trainings and their steps, if each figure on each task had its own."""
    is_outline: bool = False
    """Whether the tasks are published sizes without rows: then keys mean nothing, and what is stored is not known."""

    @property
    def summary(self) -> str:
        missing = sum(not stored for _, stored in self.steps)
        trainings = [stored for node, stored in self.steps if node.trains]
        if self.is_outline:
            counted = f"{len(trainings):,} distinct trainings, {missing:,} results"
            return f"{counted}, {self.estimate.steps:,} training steps; what is stored, and their pace, is not known"
        counted = f"{len(trainings):,} distinct trainings, {sum(trainings):,} of them stored; "
        counted += f"{missing:,} results to compute"
        return f"{counted}, {self.estimate}" if self.estimate.trainings else counted

    @property
    def sharing(self) -> str:
        """What figures share, in words; nothing if each has trainings of its own."""
        distinct, (trainings, steps) = sum(node.trains for node, _ in self.steps), self.unshared
        saved = f"figure by figure they would be {trainings:,} trainings, {steps:,} steps"
        return f"trainings are shared: {saved}" if trainings > distinct else ""

    def _rows(self) -> list[Any]:
        return [{"step": node.label, "key": node.key, "stored": stored} for node, stored in self.steps]


def plan(recipes: Sequence[Recipe], engine: Engine | None = None, *, measure: bool = False) -> Plan:
    """What `recipes` need, what the store of `engine` has, and how long the rest takes; `measure` times a few steps."""
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
    alone = [node for nodes in wanted for node in nodes.values() if node.trains]
    unshared = len(alone), sum(node.planned_steps for node in alone)  # type: ignore[attr-defined]
    steps, is_outline = [(node, key not in todo) for key, node in every.items()], any(map(_is_outline, recipes))
    return Plan(
        steps,
        figures,
        takes,
        written=count_written(missing) if missing else None,
        unshared=unshared,
        is_outline=is_outline,
    )


def _is_outline(recipe: Recipe) -> bool:
    return isinstance(recipe.task, Outline)
