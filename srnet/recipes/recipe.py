"""A recipe: a figure on a profile. It says which models there are and what has to be computed for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from srnet.errors import UserError
from srnet.experiment import Bias, Evaluate, FineTune, ModelNode, Node
from srnet.experiment.nodes import TaskSpec
from srnet.names import file_name
from srnet.recipes.paradigms import CONTROL, FULL_CE, as_long, longest_search, with_controls
from srnet.recipes.points import Axis, Point
from srnet.recipes.profile import Profile

Figure = Callable[[Profile], Sequence[Point]]


@dataclass(frozen=True)
class Reference:
    """The full CE models of one backbone, by seed, with which its subnetworks are compared."""

    label: str
    full: dict[int, FineTune]
    controls: dict[int, FineTune]
    """The same models trained as long as the longest search. None without a control, or if no search is longer."""

    @property
    def control_label(self) -> str:
        return CONTROL.format(self.label)

    @property
    def models(self) -> list[FineTune]:
        return [*self.full.values(), *self.controls.values()]


@dataclass(frozen=True)
class Recipe:
    name: str
    profile: Profile
    figure: Figure
    axis: Axis = "sparsity"
    title: str = ""
    """What the figure shows, in a few words."""
    control: bool = True
    """Whether full CE models trained as long as the longest search are shown."""

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

    @cached_property
    def points(self) -> tuple[Point, ...]:
        points = self.figure(self.profile)
        places = {(point.label, point.place, point.seed) for point in points}
        if not points or len(places) != len(points):
            raise UserError(f"recipe '{self.name}' needs models, each with a label or a place of its own")
        return tuple(with_controls(self.profile, points) if self.control else points)

    @cached_property
    def references(self) -> dict[str, Reference]:
        """By backbone, for all that have points."""
        return {backbone: self._reference(backbone) for backbone in dict.fromkeys(p.backbone for p in self.points)}

    def _reference(self, backbone: str) -> Reference:
        full = {seed: self.profile.full(seed, backbone=backbone) for seed in self.seeds}
        label = next((p.label for p in self.points if p.node in full.values()), FULL_CE)
        if not self.control or not any(p.is_pruned and p.backbone == backbone for p in self.points):
            return Reference(label, full, {})
        longest = longest_search(self.points, backbone)
        longer = {seed: as_long(model, longest) for seed, model in full.items()}
        return Reference(label, full, {seed: model for seed, model in longer.items() if model != full[seed]})

    @cached_property
    def bias_models(self) -> dict[str, Bias]:
        """By the backbone that is debiased, where a point needs one."""
        return {point.backbone: bias for point in self.points for bias in _bias_models(point.node)}

    def nodes(self) -> list[Node]:
        """Everything that a report on the recipe reads: every point, the models it is compared with, bias models."""
        nodes: list[Node] = [node for point in self.points for node in (point.node, Evaluate(point.node))]
        nodes += [Evaluate(model) for reference in self.references.values() for model in reference.models]
        return [*nodes, *self.bias_models.values()]


def _bias_models(node: ModelNode) -> list[Bias]:
    """Of every training behind a model."""
    objective = getattr(node, "objective", None)
    own = [objective.bias] if objective is not None and objective.bias is not None else []
    return own + [bias for parent in node.parents if isinstance(parent, ModelNode) for bias in _bias_models(parent)]
