"""A recipe is data: which models to make on which task, at which sparsities, with which seeds, and how to draw them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from srnet.errors import UserError, choose
from srnet.experiment import (
    Bias,
    BiasSpec,
    Distilled,
    FineTune,
    ModelNode,
    Moment,
    Objective,
    Pretrained,
    Prune,
    Rewind,
    Trajectory,
    load_task,
)
from srnet.experiment.cost import planned_steps
from srnet.experiment.nodes import TaskSpec
from srnet.experiment.objective import Sources, make_objective
from srnet.names import EMBEDDED
from srnet.objectives import get_objective
from srnet.pruners import Pruner, get_pruner
from srnet.tasks.base import TrainingData
from srnet.training import TrainingSettings

Paradigm = Literal["full", "a", "b", "c"]
"""`full`: no pruning. (a) prune a fine-tuned model. (b) prune, rewind, fine-tune in isolation. (c) no fine-tuning."""

Axis = Literal["sparsity", "kept", "start", "length"]
"""What a figure varies along its lines. `kept` is the sparsity told the other way, on a scale where 3 % has room."""

Start = float | Literal["auto"]
"""When the search begins: after this share of the fine-tuning, or `auto`, when ID dev no longer rises."""

_UNUSED: dict[Paradigm, tuple[str, ...]] = {
    "full": (
        "prune",
        "isolated",
        "sparsities",
        "options",
        "starts",
        "lengths",
        "data",
        "distil",
        "options_at",
        "lengths_at",
    ),
    "a": ("isolated", "as_long"),
    "b": ("starts", "lengths", "as_long"),
    "c": ("finetune", "isolated", "starts", "as_long"),
}
"""What a paradigm has no use for. Saying it anyway is an error, not a wish that nobody hears."""


@dataclass(frozen=True)
class Line:
    """One curve of a figure: the same method at several sparsities, starts or lengths."""

    label: str
    paradigm: Paradigm = "full"
    finetune: str = "ce"
    """The objective of the fine-tuning before pruning; in paradigm c there is none."""
    pruner: str | None = None
    prune: str | None = None
    """The objective of the pruning."""
    isolated: str | None = None
    """Paradigm b: the objective of the fine-tuning after rewinding; ce if not said."""
    sparsities: tuple[float, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    """Further options of the pruner."""
    starts: tuple[Start, ...] = (1.0,)
    """Paradigm a: when the search begins, as shares of the fine-tuning."""
    lengths: tuple[float, ...] = (1.0,)
    """How long the pruning trains, in terms of the recipe's `pruning`."""
    data: TrainingData = "id"
    """What the pruning trains on; `id+ood` gives an upper bound."""
    backbone: str | None = None
    """Another backbone than the recipe's."""
    options_at: tuple[tuple[float, tuple[tuple[str, Any], ...]], ...] = ()
    """Still further ones, at one sparsity each."""
    lengths_at: tuple[tuple[float, float], ...] = ()
    """How much longer the pruning trains at a sparsity."""
    distil: bool = False
    """Whether the pruning also imitates the full CE model of the same seed."""
    as_long: bool = False
    """A full model: whether it trains as many steps as the longest search of the recipe, as a control."""

    def __post_init__(self) -> None:
        choose("paradigm", self.paradigm, ("full", "a", "b", "c"))
        choose("training data", self.data, ("id", "id+ood"))
        for objective in (self.finetune, self.isolated, self.prune):
            if objective is not None:
                get_objective(objective)
        if (self.paradigm == "full") != (self.pruner is None):
            raise UserError(f"line '{self.label}': a pruner goes with paradigm a, b or c, and only with them")
        defaults = {f.name: f.default for f in fields(self)}
        for name in _UNUSED[self.paradigm]:
            if getattr(self, name) != defaults[name]:
                raise UserError(
                    f"line '{self.label}': paradigm {self.paradigm} has no use for '{name}'", "leave it out"
                )
        self._check_values()
        if self.pruner is not None:
            self._check_pruner()

    def _check_values(self) -> None:
        for name in ("sparsities", "starts", "lengths"):
            values = getattr(self, name)
            if len(set(values)) != len(values):
                raise UserError(f"line '{self.label}' names one of its {name} twice: {list(values)}")
        if not self.starts or not self.lengths:
            raise UserError(f"line '{self.label}' names no starts or no lengths", "leave them out for the usual ones")
        if not all(start == "auto" or _is_share(start) for start in self.starts):
            raise UserError(f"line '{self.label}': starts are shares of the fine-tuning, from 0 to 1, or auto")
        if not all(0.0 < length < math.inf for length in (*self.lengths, *dict(self.lengths_at).values())):
            raise UserError(f"line '{self.label}': lengths must be positive and finite")
        for name in ("options_at", "lengths_at"):
            unknown = [sparsity for sparsity, _ in getattr(self, name) if sparsity not in self.sparsities]
            if unknown:
                raise UserError(f"line '{self.label}': {name} names {unknown[0]:g}, which is none of its sparsities")

    def _check_pruner(self) -> None:
        pruner = get_pruner(self.pruner or "")
        if not self.sparsities:
            raise UserError(f"line '{self.label}' names no sparsities", "add e.g. sparsities: [0.5, 0.7]")
        if pruner.trains != (self.prune is not None):
            raise UserError(
                f"line '{self.label}': pruner '{self.pruner}' {'needs' if pruner.trains else 'takes no'} objective"
            )
        if self.paradigm == "b" and self.pruner == "imp-rw" and self.finetune != "ce":
            raise UserError(
                f"line '{self.label}': imp-rw in paradigm b starts from the raw model", "leave finetune out"
            )
        if not pruner.trains and (self.data != "id" or self.lengths != (1.0,) or self.lengths_at or self.distil):
            raise UserError(
                f"line '{self.label}': pruner '{self.pruner}' does not train", "leave out data, lengths and distil"
            )
        for sparsity in self.sparsities:
            self.make_pruner(sparsity)

    def make_pruner(self, sparsity: float) -> Pruner:
        try:
            options = {**dict(self.options), **dict(dict(self.options_at).get(sparsity, ()))}
            return get_pruner(self.pruner or "")(sparsity=sparsity, **options)
        except TypeError as error:
            raise UserError(f"line '{self.label}': {str(error).split('() ')[-1]}") from None


AS_LONG = "{}, trained as long"


def with_controls(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Beside the full CE model of each backbone, the same model trained as long as the longest search.

    Without this control nobody can tell what a search finds from what longer training finds.
    """
    found = list(lines)
    for backbone in dict.fromkeys(line.backbone for line in lines if line.pruner is not None):
        full = [line for line in found if (line.paradigm, line.finetune, line.backbone) == ("full", "ce", backbone)]
        if any(line.as_long for line in full):
            continue
        label = full[0].label if full else "full model (CE)" + (f" on {backbone}" if backbone else "")
        control = Line(AS_LONG.format(label), backbone=backbone, as_long=True)
        found.insert(found.index(full[0]) + 1 if full else 0, control)
    return tuple(found)


def _only_if_debiased(settings: TrainingSettings, objective: str) -> TrainingSettings:
    """With the default `selection` where it has no effect, so that the same training has the same key."""
    return settings if get_objective(objective).debiases else replace(settings, selection="late")


def _is_share(value: object) -> bool:
    return isinstance(value, (int, float)) and 0.0 <= value <= 1.0


@dataclass(frozen=True)
class Point:
    """One model of a recipe: a line, a seed, and where on the line."""

    line: Line
    seed: int
    sparsity: float
    node: ModelNode
    start: Start = 1.0
    length: float = 1.0


@dataclass(frozen=True)
class Recipe:
    name: str
    task: TaskSpec
    lines: tuple[Line, ...]
    backbone: str = EMBEDDED
    seeds: tuple[int, ...] = (0,)
    finetuning: TrainingSettings = field(default_factory=TrainingSettings)
    pruning: TrainingSettings = field(default_factory=TrainingSettings)
    pruning_of: tuple[tuple[str, TrainingSettings], ...] = ()
    """By pruner, where it trains otherwise than with `pruning`: scores are not weights."""
    bias: BiasSpec = field(default_factory=BiasSpec)
    """How the shortcut is measured; by default what the task suspects, on words alone."""
    finetuning_of: tuple[tuple[str, TrainingSettings], ...] = ()
    """By objective, where it is fine-tuned otherwise than with `finetuning`."""
    stopping: TrainingSettings | None = None
    """The fine-tuning of lines that start `auto`: with `patience`."""
    with_ood: TrainingSettings | None = None
    """The pruning of lines with OOD training data, if it differs from `pruning`."""
    axis: Axis = "sparsity"
    title: str = ""
    """What the figure shows, in a few words."""
    words: tuple[str, ...] = ()
    """One word a label: models have the backbone's own language-model head instead of a classifier."""

    def __post_init__(self) -> None:
        labels = [line.label for line in self.lines]
        if not labels or len(set(labels)) != len(labels):
            raise UserError(f"recipe '{self.name}' needs lines with labels of their own, not {labels}")
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise UserError(f"recipe '{self.name}' needs at least one seed, each once")
        starts_itself = any("auto" in line.starts for line in self.lines)
        if starts_itself and (self.stopping is None or self.stopping.patience is None):
            raise UserError(
                f"recipe '{self.name}': a line starts auto, but nothing says when", "set stopping: patience"
            )

    def points(self) -> list[Point]:
        return [point for line in self.lines for seed in self.seeds for point in self._points(line, seed)]

    def bias_model(self, backbone: str | None = None) -> Bias:
        return self.bias.node(self.task, backbone or self.backbone)

    def raw_model(self, seed: int, backbone: str | None = None) -> Pretrained:
        return Pretrained(backbone or self.backbone, self.task, seed, self.words)

    def full_model(self, seed: int, objective: str = "ce", backbone: str | None = None) -> FineTune:
        raw = self.raw_model(seed, backbone)
        return FineTune(raw, self._objective(objective, raw), self._finetuning(objective, seed))

    def control(self, seed: int, backbone: str | None = None) -> ModelNode | None:
        """The full CE model trained as long as the longest search on this backbone; None where no line asks for it."""
        if not any(line.as_long and line.backbone == backbone for line in self.lines):
            return None
        return self._as_long(self.full_model(seed, backbone=backbone), backbone)

    def _as_long(self, model: FineTune, backbone: str | None) -> FineTune:
        """Without `patience`, which would end it early. Where nothing takes longer it is `model`, not a copy of it."""
        training, steps = replace(model.training, patience=None), self._longest_search(backbone)
        return replace(model, training=training if steps <= planned_steps(model) else replace(training, steps=steps))

    def _longest_search(self, backbone: str | None) -> int:
        """Optimisation steps from the raw model to the subnetwork that takes most of them."""
        searches = [line for line in self.lines if line.pruner is not None and line.backbone == backbone]
        points = [point for line in searches for point in self._points(line, self.seeds[0])]
        return max((planned_steps(point.node) for point in points), default=0)

    def _points(self, line: Line, seed: int) -> list[Point]:
        if line.pruner is None:
            model = self.full_model(seed, line.finetune, line.backbone)
            if not line.as_long:
                return [Point(line, seed, 0.0, model)]
            control = self._as_long(model, line.backbone)
            return [] if control == model else [Point(line, seed, 0.0, control)]  # no search is longer: nothing to show
        return [
            Point(line, seed, sparsity, self._subnetwork(line, seed, sparsity, start, length), start, length)
            for sparsity in line.sparsities
            for start in line.starts
            for length in line.lengths
        ]

    def _subnetwork(self, line: Line, seed: int, sparsity: float, start: Start, length: float) -> ModelNode:
        raw = self.raw_model(seed, line.backbone)
        pruner = line.make_pruner(sparsity)
        # IMP in paradigm b trains from the raw weights; mask training learns the structure from the fine-tuned model
        from_raw = line.paradigm == "c" or (line.paradigm == "b" and pruner.name == "imp-rw")
        model = raw if from_raw else self._start(line, raw, start)
        if line.prune is None:
            subnetwork = Prune(model, pruner)
        else:
            longer = dict(line.lengths_at).get(sparsity, 1.0)
            training = self._pruning(line, pruner, seed, length * longer)
            # a run that is longer at one sparsity warms up for as many steps as at the others
            training = replace(training, warmup=training.warmup / max(1.0, longer))
            objective = self._objective(line.prune, raw)
            if line.distil:
                objective = Distilled(objective, self.full_model(seed, backbone=line.backbone))
            subnetwork = Prune(model, pruner, objective, training, line.data)
        if line.paradigm != "b":
            return subnetwork
        isolated = line.isolated or "ce"
        return FineTune(Rewind(subnetwork, raw), self._objective(isolated, raw), self._finetuning(isolated, raw.seed))

    def _start(self, line: Line, raw: Pretrained, start: Start) -> ModelNode:
        """The model that is pruned: raw, somewhere on its way, or fine-tuned."""
        objective = self._objective(line.finetune, raw)
        if start == "auto":
            return FineTune(raw, objective, replace(self.stopping or self.finetuning, seed=raw.seed))
        training = self._finetuning(line.finetune, raw.seed)
        steps = {s: self.step_at(s, training) for s in line.starts if s != "auto" and 0.0 < s < 1.0}
        if start not in steps:
            return FineTune(raw, objective, training) if start == 1.0 else raw
        return Moment(Trajectory(raw, objective, training, tuple(sorted(set(steps.values())))), steps[start])

    def step_at(self, share: float, training: TrainingSettings) -> int:
        return max(1, round(share * training.total_steps(len(load_task(self.task).train))))

    def _finetuning(self, objective: str, seed: int) -> TrainingSettings:
        return _only_if_debiased(
            replace(dict(self.finetuning_of).get(objective, self.finetuning), seed=seed), objective
        )

    def _pruning(self, line: Line, pruner: Pruner, seed: int, length: float) -> TrainingSettings:
        usual = dict(self.pruning_of).get(pruner.name, self.pruning)
        usual = self.with_ood or usual if line.data == "id+ood" else usual
        if usual.steps is not None:
            usual = replace(usual, steps=max(1, round(length * usual.steps)))
        else:
            usual = replace(usual, epochs=length * usual.epochs)
        rate = usual.score_rate if pruner.has_scores else None  # `pruning` is for several pruners
        return _only_if_debiased(replace(usual, seed=seed, score_rate=rate), line.prune or "ce")

    def _objective(self, name: str, raw: Pretrained) -> Objective:
        return make_objective(name, Sources(raw, lambda: self.full_model(raw.seed, backbone=raw.backbone), self.bias))
