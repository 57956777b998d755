"""Full models and the paper's three paradigms: functions from a profile to the points of one series.

A line of a YAML recipe is a call of one of these functions. Its keys are the fields of `Search` and the function's own
parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from srnet.errors import UserError, choose
from srnet.experiment import FineTune, ModelNode
from srnet.experiment.cost import planned_steps
from srnet.objectives import get_objective
from srnet.pruners import Pruner, get_pruner
from srnet.recipes.points import Place, Point, Start
from srnet.recipes.profile import LengthsAt, Options, OptionsAt, Profile
from srnet.tasks.base import TrainingData

FULL_CE, FULL_POE = "full model (CE)", "full model (PoE)"
CONTROL = "{}, trained as long"


@dataclass(frozen=True)
class Search:
    """Which masks are searched for, and how."""

    pruner: str
    prune: str | None = None
    """The objective; None for a pruner that does not train."""
    sparsities: tuple[float, ...] = ()
    options: Options = ()
    """Further options of the pruner."""
    options_at: OptionsAt = ()
    lengths: tuple[float, ...] = (1.0,)
    """Of the search, relative to the profile's."""
    lengths_at: LengthsAt = ()
    """Factors at one sparsity each."""
    data: TrainingData = "id"
    """`id+ood` gives an upper bound."""
    distil: bool = False
    """Whether the search also imitates the full CE model of the same seed."""

    def __post_init__(self) -> None:
        if not self.sparsities:
            raise UserError("no sparsities are named", "add e.g. sparsities: [0.5, 0.7]")
        choose("training data", self.data, ("id", "id+ood"))
        each_once("sparsities", self.sparsities)
        each_once("lengths", self.lengths)
        if not all(0.0 < length < math.inf for length in (*self.lengths, *dict(self.lengths_at).values())):
            raise UserError("lengths must be positive and finite")
        for name in ("options_at", "lengths_at"):
            unknown = [sparsity for sparsity, _ in getattr(self, name) if sparsity not in self.sparsities]
            if unknown:
                raise UserError(f"{name} names {unknown[0]:g}, which is none of the sparsities")
        self._check_objective()
        for sparsity in self.sparsities:
            self.at(sparsity)

    def _check_objective(self) -> None:
        trains = get_pruner(self.pruner).trains
        if trains != (self.prune is not None):
            raise UserError(f"pruner '{self.pruner}' {'needs' if trains else 'takes no'} objective")
        if self.prune is not None:
            get_objective(self.prune)
        elif self.data != "id" or self.lengths != (1.0,) or self.lengths_at or self.distil:
            raise UserError(f"pruner '{self.pruner}' does not train", "leave out data, lengths and distil")

    def at(self, sparsity: float) -> Pruner:
        try:
            options = {**dict(self.options), **dict(dict(self.options_at).get(sparsity, ()))}
            return get_pruner(self.pruner)(sparsity=sparsity, **options)
        except TypeError as error:
            raise UserError(str(error).split("() ")[-1]) from None

    def of(self, profile: Profile, model: ModelNode) -> dict[Place, ModelNode]:
        """The subnetworks of `model`, by place."""
        longer = dict(self.lengths_at)
        return {
            Place(sparsity, None, length): profile.pruned(
                model, self.at(sparsity), self.prune, self.data, length, longer.get(sparsity, 1.0), self.distil
            )
            for sparsity in self.sparsities
            for length in self.lengths
        }


def each_once(name: str, values: Sequence[object]) -> None:
    if not values:
        raise UserError(f"no {name} are named", "leave them out for the usual ones")
    if len(set(values)) != len(values):
        raise UserError(f"{name} has a value twice: {list(values)}")


# --- series --------------------------------------------------------------------------------------------------------


def full(profile: Profile, label: str, *, finetune: str = "ce", backbone: str | None = None) -> list[Point]:
    """A full model, fine-tuned with the objective `finetune`."""
    return [Point(label, Place(), seed, profile.full(seed, finetune, backbone)) for seed in profile.seeds]


def of_fine_tuned(
    profile: Profile,
    label: str,
    search: Search,
    *,
    finetune: str = "ce",
    starts: tuple[Start, ...] = (1.0,),
    backbone: str | None = None,
) -> list[Point]:
    """(a) Prune the model as it is after each of `starts`, shares of its fine-tuning with `finetune`."""
    each_once("starts", starts)
    if not all(start == "auto" or 0.0 <= start <= 1.0 for start in starts):
        raise UserError("starts are shares of the fine-tuning, from 0 to 1, or auto")
    return [
        Point(label, place._replace(start=start), seed, node)
        for seed in profile.seeds
        for start in starts
        for place, node in search.of(
            profile, profile.started(profile.raw(seed, backbone), finetune, start, starts)
        ).items()
    ]


def in_isolation(
    profile: Profile,
    label: str,
    search: Search,
    *,
    finetune: str = "ce",
    isolated: str = "ce",
    backbone: str | None = None,
) -> list[Point]:
    """(b) Find a mask, apply it to the raw weights and fine-tune them with `isolated`.

    IMP with rewinding trains from the raw weights. Other pruners learn the structure from the fine-tuned model.
    """
    from_raw = search.pruner == "imp-rw"
    if from_raw and finetune != "ce":
        raise UserError("imp-rw in paradigm b starts from the raw model", "leave finetune out")
    found = of_raw(profile, label, search, backbone=backbone) if from_raw else of_fine_tuned(
        profile, label, search, finetune=finetune, backbone=backbone
    )  # fmt: skip
    return [
        replace(point, place=point.place._replace(start=None), node=profile.isolated(point.node, isolated))
        for point in found
    ]


def of_raw(profile: Profile, label: str, search: Search, *, backbone: str | None = None) -> list[Point]:
    """(c) Prune the raw model; nothing is fine-tuned."""
    return [
        Point(label, place, seed, node)
        for seed in profile.seeds
        for place, node in search.of(profile, profile.raw(seed, backbone)).items()
    ]


PARADIGMS: dict[str, Callable[..., list[Point]]] = {
    "full": full,
    "a": of_fine_tuned,
    "b": in_isolation,
    "c": of_raw,
}


# --- controls ------------------------------------------------------------------------------------------------------


def with_controls(profile: Profile, points: Sequence[Point]) -> list[Point]:
    """Beside the full CE model of each backbone, the same model trained as long as the longest search.

    Without this control, what a search finds cannot be told from what longer training finds.
    """
    found = list(points)
    for backbone in dict.fromkeys(point.backbone for point in points if point.is_pruned):
        models = {seed: profile.full(seed, backbone=backbone) for seed in profile.seeds}
        shown = [n for n, point in enumerate(found) if point.node in models.values()]
        label = found[shown[0]].label if shown else _full_label(profile, backbone)
        longest = longest_search(points, backbone)
        controls = [
            Point(CONTROL.format(label), Place(), seed, control)
            for seed, model in models.items()
            if (control := as_long(model, longest)) != model
        ]
        place = shown[-1] + 1 if shown else 0
        found[place:place] = controls
    return found


def _full_label(profile: Profile, backbone: str) -> str:
    return FULL_CE + ("" if backbone == profile.backbone else f" on {backbone}")


def longest_search(points: Sequence[Point], backbone: str) -> int:
    """Optimisation steps from the raw model to the subnetwork of this backbone that takes most of them."""
    return max(planned_steps(p.node) for p in points if p.is_pruned and p.backbone == backbone)


def as_long(model: FineTune, steps: int) -> FineTune:
    """Trained for `steps`, without `patience`, which would end it early; `model` itself if it is that long already."""
    if steps <= planned_steps(model) and model.training.patience is None:
        return model
    training = replace(model.training, patience=None)
    return replace(model, training=training if steps <= planned_steps(model) else replace(training, steps=steps))
