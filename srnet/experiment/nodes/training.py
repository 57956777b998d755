"""Nodes that train: fine-tuning and pruning, and the models selected from such runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from srnet.config.values import Count
from srnet.core.errors import UserError
from srnet.experiment.nodes.base import Node, load_task
from srnet.experiment.nodes.models import FineTuned, ModelNode, shared_backbone
from srnet.experiment.nodes.objectives import CE, Objective
from srnet.masks.mask import Mask
from srnet.pruners.base import Pruner
from srnet.pruners.mask_training import MaskTraining
from srnet.tasks.base import TrainingData
from srnet.training.method import Method, SnapshotsAtSteps
from srnet.training.settings import Precision, TrainingSettings
from srnet.training.updates import update_method


class Training(ModelNode):
    """A node that trains `parent`. Subclasses are dataclasses with these fields."""

    parent: ModelNode
    objective: Objective
    training: TrainingSettings
    data: TrainingData = "id"

    def __post_init__(self) -> None:
        super().__post_init__()
        # predictions are matched by position, so those for another task would be meaningless
        if any(node.task_spec != self.task_spec for node in self.objective.nodes.values()):
            raise UserError(f"objective '{self.objective.label}' learns from another task than {self.task_spec.name}")
        self.objective.check_data(self.data)

    def check(self) -> None:
        task = load_task(self.task_spec)
        task.training_data(self.data)
        self.objective.check(task)

    def method(self, mask: Mask | None) -> Method:
        """What acts during the training of a parent with this mask."""
        raise NotImplementedError

    def check_no_patience(self) -> None:
        """Only plain fine-tuning may stop early: a mask reaches its sparsity only at the end."""
        if self.training.patience is not None:
            raise UserError("patience is for fine-tuning; this must run to its end", "leave patience out")

    def check_no_scores(self, what: str = "fine-tuning") -> None:
        if self.training.score_rate is not None:
            raise UserError(f"{what} has no scores to train", "leave score_rate out")

    def check_updates_all(self) -> None:
        """Only plain fine-tuning may update less than every weight."""
        if self.training.update != "all":
            raise UserError(f"'{self.training.update}' is for fine-tuning", "leave update out")

    @property
    def trains(self) -> bool:
        return True

    @property
    def max_length(self) -> int:
        return self.training.max_length

    @property
    def eval_precision(self) -> Precision:
        return self.training.eval_precision

    @property
    def precisions(self) -> tuple[Precision, ...]:
        return (self.training.precision,) if self.trains else ()

    @property
    def planned_steps(self) -> int:
        """Planned steps; the maximum where a training may stop early."""
        if self.training.steps is not None:
            return self.training.steps
        return self.training.total_steps(sum(map(len, load_task(self.task_spec).training_data(self.data))))

    @property
    def subscript(self) -> str:
        return self.objective.label if self.data == "id" else f"{self.objective.label}+ood"

    @property
    def how(self) -> str:
        """Objective and data, in words."""
        return self.objective.label + (", with OOD data" if self.data == "id+ood" else "")


@dataclass(frozen=True)
class FineTune(Training):
    """A_L(f): train the weights of `parent`, under its mask, for `objective`, as `training` says, on `data`."""

    parent: ModelNode
    objective: Objective = field(default_factory=CE)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    data: TrainingData = "id"
    part: tuple[int, int] | None = None
    """Train only on these rows of one fixed permutation of the training data."""
    fine_tuned = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_no_scores()
        if self.part is not None and (self.data != "id" or self.objective != CE()):
            raise UserError("a part of the training data is for plain CE on ID data")

    def method(self, mask: Mask | None) -> Method:
        return update_method(self.training.update, mask, self.training.seed)

    @property
    def how(self) -> str:
        what = {"all": "", "head": ", head only", "lora": ", LoRA"}[self.training.update]
        return super().how + what

    @property
    def formula(self) -> str:
        until = "^auto" if self.training.patience is not None else ""
        return f"A_{self.subscript}{until}({self.parent.formula})"

    @property
    def label(self) -> str:
        until = f", {self.training.length_text}" if self.training.patience is None else ", until it stalls"
        part = f" on {self.part[1] - self.part[0]:,} examples" if self.part else ""
        own = f"fine-tune ({self.how}){part}{until}"
        # a raw model says nothing, the others differ in what was done before
        is_raw = self.parent is self.pretrained and not isinstance(self.parent, FineTuned)
        return f"{own}, seed {self.training.seed}" if is_raw else f"{self.parent.label}: {own}"


@dataclass(frozen=True)
class Trajectory(Training):
    """One fine-tuning, as in `FineTune`, that keeps the model at several `steps`; `Moment` selects one."""

    holds_several_models: ClassVar[bool] = True
    parent: ModelNode
    objective: Objective
    training: TrainingSettings
    steps: tuple[Count, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.steps:
            raise UserError("a trajectory keeps at least one step")
        self.check_updates_all()
        self.check_no_patience()
        self.check_no_scores()

    def method(self, mask: Mask | None) -> Method:
        return SnapshotsAtSteps(self.steps)

    @property
    def planned_steps(self) -> int:
        return max(self.steps)

    @property
    def formula(self) -> str:
        return f"A_{self.objective.label}^{','.join(map(str, self.steps))}({self.parent.formula})"

    @property
    def label(self) -> str:
        return f"fine-tune ({self.objective.label}) to step {max(self.steps)}, seed {self.training.seed}"


@dataclass(frozen=True)
class Moment(ModelNode):
    """f(theta_t): the model of `trajectory` at one `step`, regardless of its score."""

    trajectory: Trajectory
    step: int
    fine_tuned = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step not in self.trajectory.steps:
            raise UserError(f"step {self.step} was not kept", f"kept: {list(self.trajectory.steps)}")

    def cost(self, steps_of: Callable[[Any], int]) -> int:
        return self.step + self.trajectory.parent.cost(steps_of)

    @property
    def formula(self) -> str:
        return f"A_{self.trajectory.objective.label}^{self.step}({self.trajectory.parent.formula})"

    @property
    def label(self) -> str:
        return f"step {self.step} of {self.trajectory.label}"


class _Pruning(Training):
    """A training with a pruner."""

    pruner: Pruner

    def method(self, mask: Mask | None) -> Method:
        return self.pruner.method(fine_tuned=self.parent.fine_tuned, eval_every=self.training.eval_every)


@dataclass(frozen=True)
class PruneRun(_Pruning):
    """One run of a method that yields every sparsity level; `Prune` selects one."""

    holds_several_models: ClassVar[bool] = True
    parent: ModelNode
    pruner: Pruner
    objective: Objective
    training: TrainingSettings
    data: TrainingData = "id"

    @property
    def formula(self) -> str:
        return f"P_{self.subscript}^{self.pruner.name}({self.parent.formula})"

    @property
    def label(self) -> str:
        return f"{self.pruner.name} ({self.how}), every level, seed {self.training.seed}"


@dataclass(frozen=True)
class Prune(_Pruning):
    """P_L^p(f): find a mask with `pruner`; all else is as in `FineTune`."""

    parent: ModelNode
    pruner: Pruner = field(default_factory=MaskTraining)
    objective: Objective = field(default_factory=CE)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    data: TrainingData = "id"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.pruner.trains and self.objective != CE():
            raise UserError(f"pruner '{self.pruner.name}' does not train, so it takes no objective")
        if not self.pruner.trains and self.data != "id":
            raise UserError(f"pruner '{self.pruner.name}' does not train, so it takes no training data")
        self.check_updates_all()
        self.check_no_patience()
        if self.training.steps is not None:
            self.pruner.check_steps(self.training.steps)
        if not self.pruner.has_scores:
            self.check_no_scores(f"pruner '{self.pruner.name}'")

    def check(self) -> None:
        super().check()
        if self.pruner.needs_units:
            self.pruner.check_model(self.raw_model())

    def raw_model(self) -> Any:
        """The model before any training, which has the shapes that a budget counts. Nothing may change it."""
        raw = self.pretrained
        return shared_backbone(raw.backbone, load_task(raw.task).labels, raw.head).model

    @property
    def trains(self) -> bool:
        return self.pruner.trains and self.levels is None

    @cached_property
    def levels(self) -> PruneRun | None:
        """The shared run that has this level, for pruners with one."""
        if not hasattr(self.pruner, "levels"):
            return None
        return PruneRun(self.parent, self.pruner.shared_run(), self.objective, self.training, self.data)

    @cached_property
    def parents(self) -> tuple[Node, ...]:
        return (self.levels,) if self.levels is not None else super().parents

    @property
    def max_length(self) -> int:
        return self.training.max_length if self.pruner.trains else self.parent.max_length

    @property
    def eval_precision(self) -> Precision:
        return self.training.eval_precision if self.pruner.trains else self.parent.eval_precision

    @property
    def formula(self) -> str:
        loss = f"_{self.subscript}" if self.pruner.trains else ""
        return f"P{loss}^{self.pruner.name} {self.pruner.aim}({self.parent.formula})"

    @property
    def label(self) -> str:
        how = f" ({self.how})" if self.pruner.trains else ""
        seed = self.training.seed if self.pruner.trains else self.pretrained.seed
        return f"{self.pruner.name}{how} at {self.pruner.aim}, seed {seed}"
