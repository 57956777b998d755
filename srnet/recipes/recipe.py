"""A recipe is data: which models to make on which task, at which sparsities, with which seeds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from srnet.errors import UserError, choose
from srnet.experiment import BiasModel, ConfReg, FineTune, ModelNode, Objective, Pretrained, Prune, Rewind, default_bias
from srnet.experiment.nodes import TaskSpec
from srnet.names import EMBEDDED
from srnet.objectives import get_objective
from srnet.pruners import get_pruner
from srnet.training import TrainingSettings

Paradigm = Literal["full", "a", "b", "c"]
"""`full`: no pruning. (a) prune a fine-tuned model. (b) prune, rewind, fine-tune in isolation. (c) no fine-tuning."""


@dataclass(frozen=True)
class Line:
    """One curve of a figure: the same method at several sparsities."""

    label: str
    paradigm: Paradigm = "full"
    finetune: str = "ce"
    """The objective of the fine-tuning before pruning; in paradigm c there is none."""
    pruner: str | None = None
    prune: str | None = None
    """The objective of the pruning."""
    isolated: str = "ce"
    """Paradigm b: the objective of the fine-tuning after rewinding."""
    sparsities: tuple[float, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    """Further options of the pruner."""

    def __post_init__(self) -> None:
        choose("paradigm", self.paradigm, ("full", "a", "b", "c"))
        for objective in (self.finetune, self.isolated, *([] if self.prune is None else [self.prune])):
            get_objective(objective)
        if len(set(self.sparsities)) != len(self.sparsities):
            raise UserError(f"line '{self.label}' names a sparsity twice: {list(self.sparsities)}")
        if (self.paradigm == "full") != (self.pruner is None):
            raise UserError(f"line '{self.label}': a pruner goes with paradigm a, b or c, and only with them")
        if self.pruner is None:
            return
        pruner = get_pruner(self.pruner)
        if not self.sparsities:
            raise UserError(f"line '{self.label}' names no sparsities", "add e.g. sparsities: [0.5, 0.7]")
        if pruner.trains != (self.prune is not None):
            raise UserError(
                f"line '{self.label}': pruner '{self.pruner}' {'needs' if pruner.trains else 'takes no'} objective"
            )
        for sparsity in self.sparsities:
            _make_pruner(self, sparsity)


def _make_pruner(line: Line, sparsity: float) -> Any:
    try:
        return get_pruner(line.pruner or "")(sparsity=sparsity, **dict(line.options))
    except TypeError as error:
        raise UserError(f"line '{line.label}': {str(error).split('() ')[-1]}") from None


@dataclass(frozen=True)
class Point:
    """One model of a recipe: a line, a sparsity, a seed."""

    line: Line
    seed: int
    sparsity: float
    node: ModelNode


@dataclass(frozen=True)
class Recipe:
    name: str
    task: TaskSpec
    lines: tuple[Line, ...]
    backbone: str = EMBEDDED
    seeds: tuple[int, ...] = (0,)
    finetuning: TrainingSettings = field(default_factory=TrainingSettings)
    pruning: TrainingSettings = field(default_factory=TrainingSettings)
    rates: tuple[tuple[str, float], ...] = ()
    """The learning rate of a pruner where it differs from `pruning`: scores are not weights."""
    bias: BiasModel | None = None
    """How the shortcut is measured; the task's own suspicion if not given."""

    def __post_init__(self) -> None:
        labels = [line.label for line in self.lines]
        if not labels or len(set(labels)) != len(labels):
            raise UserError(f"recipe '{self.name}' needs lines with labels of their own, not {labels}")
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise UserError(f"recipe '{self.name}' needs at least one seed, each once")

    def points(self) -> list[Point]:
        return [point for line in self.lines for seed in self.seeds for point in self._points(line, seed)]

    def bias_model(self) -> BiasModel:
        return self.bias or default_bias(self.task, self.backbone)

    def full_model(self, seed: int, objective: str = "ce") -> ModelNode:
        raw = Pretrained(self.backbone, self.task, seed)
        return FineTune(raw, self._objective(objective, seed), replace(self.finetuning, seed=seed))

    def _points(self, line: Line, seed: int) -> list[Point]:
        if line.pruner is None:
            return [Point(line, seed, 0.0, self.full_model(seed, line.finetune))]
        return [Point(line, seed, sparsity, self._subnetwork(line, seed, sparsity)) for sparsity in line.sparsities]

    def _subnetwork(self, line: Line, seed: int, sparsity: float) -> ModelNode:
        raw = Pretrained(self.backbone, self.task, seed)
        pruner = _make_pruner(line, sparsity)
        # IMP in paradigm b trains from the raw weights; mask training learns the structure from the fine-tuned model
        from_raw = line.paradigm == "c" or (line.paradigm == "b" and pruner.name == "imp-rw")
        start = raw if from_raw else self.full_model(seed, line.finetune)
        if line.prune is None:
            subnetwork = Prune(start, pruner)
        else:
            rate = dict(self.rates).get(pruner.name, self.pruning.learning_rate)
            subnetwork = Prune(
                start, pruner, self._objective(line.prune, seed), replace(self.pruning, seed=seed, learning_rate=rate)
            )
        if line.paradigm != "b":
            return subnetwork
        return FineTune(
            Rewind(subnetwork, raw), self._objective(line.isolated, seed), replace(self.finetuning, seed=seed)
        )

    def _objective(self, name: str, seed: int) -> Objective:
        loss = get_objective(name)
        if loss.needs_teacher:
            return ConfReg(self.bias_model(), self.full_model(seed))
        return Objective(name, self.bias_model() if loss.needs_bias else None)
