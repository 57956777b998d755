"""An experiment is an expression. Nothing runs when it is built; `execute` runs what the store does not have yet.

pt     = Pretrained("srnet-tiny", SyntheticTask("inference"), seed=0)
ft     = FineTune(pt, CE())                                   # A_std(f(pt))
subnet = Prune(ft, MaskTraining(sparsity=0.7), PoE(bias))     # P_poe^mask(f(ft))
ticket = FineTune(Rewind(subnet, pt), CE())                   # A_std(f(M(.) * pt))
scores = Evaluate(subnet)                                     # E_ID, E_OOD
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Protocol

from srnet.backbones import Head, backbone_hash
from srnet.bias.vector_files import files_of, is_vector_file
from srnet.errors import UserError, choose
from srnet.experiment.identity import BY_CONTENT, key_of
from srnet.files import sha256
from srnet.objectives import get_objective
from srnet.pruners import MaskTraining, Pruner
from srnet.tasks.answers import CLASSES, AnswerKind, get_answer
from srnet.tasks.base import Shortcut, Task, TrainingData
from srnet.training import TrainingSettings


class TaskSpec(Protocol):
    """A small frozen description from which a task can be loaded, again and again the same."""

    @property
    def name(self) -> str: ...

    def load(self) -> Task: ...

    def __hash__(self) -> int: ...


@lru_cache(maxsize=8)
def load_task(spec: TaskSpec) -> Task:
    return spec.load()


def check_no_scores(training: TrainingSettings, what: str) -> None:
    if training.score_rate is not None:
        raise UserError(f"{what} has no scores to train", "leave score_rate out")


def answer_of_spec(spec: TaskSpec) -> AnswerKind:
    """What kind of answer a task asks for, without loading it; most ask for classes and do not say so."""
    return get_answer(getattr(spec, "answer", CLASSES.name))


@dataclass(frozen=True)
class Node:
    """A step of an experiment, identified by what it says."""

    @cached_property
    def key(self) -> str:
        return key_of(self)

    @property
    def parents(self) -> tuple[Node, ...]:
        values = (getattr(self, f.name) for f in dataclasses.fields(self))
        return tuple(node for value in values for node in _nodes_in(value))

    @property
    def label(self) -> str:
        """What a person calls this step."""
        return type(self).__name__.lower()

    @property
    def formula(self) -> str:
        """The step in the paper's algebra: A trains, P prunes, M is the mask, E evaluates, pt is the raw model."""
        return type(self).__name__


def _nodes_in(value: Any) -> list[Node]:
    if isinstance(value, Node):
        return [value]
    return [node for node in (value.bias, value.teacher) if node is not None] if isinstance(value, Objective) else []


# --- the shortcut --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BiasModel(Node):
    """A cross-fitted linear model that sees nothing but the shortcut."""

    task: TaskSpec = field(metadata=BY_CONTENT)
    shortcut: Shortcut | None = field(default=None, metadata=BY_CONTENT)
    """Which features; the task's own suspicion if not given."""
    vectors: str | None = field(default=None, metadata=BY_CONTENT)
    """A file of word vectors, or a backbone whose input embeddings serve as such; None uses words alone."""
    folds: int = 5
    extended: bool = False
    """Overlap: two more features, as in the original authors' tool."""

    def __post_init__(self) -> None:
        if (self.shortcut or load_task(self.task).shortcut) == "unknown":
            raise UserError("a linear model needs a shortcut that has a name", "use a weak model: shortcut unknown")

    def content(self) -> dict[str, str]:
        task = load_task(self.task)
        content = {"data": task.fingerprint, "suspected": self.shortcut or task.shortcut}
        return content if self.vectors is None else content | {"vectors_sha256": _vectors_hash(self.vectors)}

    @property
    def features(self) -> str:
        """What it reads, in words: another bias model is another experiment."""
        vectors = "no word vectors" if self.vectors is None else _vectors_name(self.vectors)
        if (self.shortcut or load_task(self.task).shortcut) == "overlap":
            count = (3 if self.vectors is None else 5) + self.extended * (1 if self.vectors is None else 2)
            what = f"word overlap ({count} features, {vectors})"
        else:
            bag = "a bag of words, " if self.vectors is None else "the maximum in each dimension, "
            what = f"the second text alone ({bag}{vectors})"
        return f"{what}, cross-fitted in {self.folds} folds"

    @property
    def formula(self) -> str:
        return "bias"

    @property
    def label(self) -> str:
        return f"bias model for {self.task.name}"


def _vectors_name(source: str) -> str:
    named = Path(files_of(source)[0]).name if is_vector_file(source) else f"the backbone {source}"
    return f"word vectors of {named}"


@lru_cache(maxsize=8)
def _vectors_hash(source: str) -> str:
    """Of the files that `source` names, or of the backbone."""
    if not is_vector_file(source):
        return backbone_hash(source)
    missing = [file for file in files_of(source) if not Path(file).is_file()]
    if missing:
        raise UserError(f"word vectors {missing[0]} do not exist", "check the path")
    return "+".join(sha256(Path(file)) for file in files_of(source))


@dataclass(frozen=True)
class WeakModel(Node):
    """Utama et al. (2020b): what a model learns from very few examples is the shortcut, whatever it may be.

    Each of two models was fine-tuned on examples that the other did not see, so that every training example is judged
    by a model to which it is new.
    """

    first: FineTune
    second: FineTune

    def __post_init__(self) -> None:
        one, other = self.first.part, self.second.part
        if one is None or other is None or not (one[1] <= other[0] or other[1] <= one[0]):
            raise UserError("the two weak models must be trained on different parts of the data", f"not {one}, {other}")
        if self.first.task_spec != self.second.task_spec:
            raise UserError("the two weak models must be of one task")

    @property
    def task(self) -> TaskSpec:
        return self.first.task_spec

    @property
    def features(self) -> str:
        """What it reads, in words."""
        start, end = self.first.part or (0, 0)
        return (
            f"no features, but the answers of two models of {self.first.pretrained.backbone} fine-tuned on "
            f"{end - start:,} examples each, every example judged by one that did not see it"
        )

    @property
    def formula(self) -> str:
        return "weak"

    @property
    def label(self) -> str:
        return f"weak model for {self.task.name}"


Bias = BiasModel | WeakModel


# --- objectives ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Objective:
    """A registered loss together with the nodes it learns from."""

    name: str
    bias: Bias | None = None
    teacher: Evaluate | None = None
    distillation: float | None = None
    """The share of the loss that imitates the teacher, beside whatever the loss is; None: no distillation."""
    temperature: float = 2.0
    """Of the distillation."""

    def __post_init__(self) -> None:
        loss = get_objective(self.name)
        if self.distillation is not None and not 0.0 < self.distillation <= 1.0:
            raise UserError(
                f"distillation {self.distillation:g} is out of range", "it is a share of the loss: above 0, at most 1"
            )
        if not 0.0 < self.temperature < float("inf"):
            raise UserError(f"temperature {self.temperature:g} must be positive and finite")
        for needed, given, what in (
            (loss.needs_bias, self.bias, "bias model"),
            (loss.needs_teacher or self.distillation is not None, self.teacher, "teacher"),
        ):
            if needed != (given is not None):
                raise UserError(f"objective '{self.label}' {'needs a' if needed else 'takes no'} {what}")

    @property
    def label(self) -> str:
        return self.name if self.distillation is None else f"{self.name}+kd"


def CE() -> Objective:
    return Objective("ce")


def PoE(bias: Bias) -> Objective:
    return Objective("poe", bias)


def Reweight(bias: Bias) -> Objective:
    return Objective("reweight", bias)


def ConfReg(bias: Bias, teacher: ModelNode) -> Objective:
    """`teacher` is a model trained with CE; its predictions on the training data are computed once and kept."""
    return Objective("confreg", bias, answers_of(teacher))


def Distilled(objective: Objective, teacher: ModelNode, share: float = 0.5, temperature: float = 2.0) -> Objective:
    """`objective`, of which `share` gives way to imitating `teacher`; its answers are computed once and kept."""
    own = objective.teacher
    if own is not None and own != answers_of(teacher):
        raise UserError(f"objective '{objective.name}' has a teacher already", "distil from the same one")
    return dataclasses.replace(objective, teacher=answers_of(teacher), distillation=share, temperature=temperature)


def answers_of(teacher: ModelNode) -> Evaluate:
    """A teacher's answers on the training data."""
    return Evaluate(teacher, (load_task(teacher.task_spec).train.name,))


# --- models --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ModelNode(Node):
    """A node whose artifact is a model: a subnetwork folder."""

    @property
    def pretrained(self) -> Pretrained:
        """The raw model at the root of the expression."""
        return next(parent for parent in self.parents if isinstance(parent, ModelNode)).pretrained

    @property
    def task_spec(self) -> TaskSpec:
        return self.pretrained.task

    @property
    def fine_tuned(self) -> bool:
        """Whether the weights have been trained on the task."""
        return False

    def check_objective(self, objective: Objective) -> None:
        """A bias model or a teacher of another task would be matched by position, and mean nothing."""
        tasks = [node.task for node in [objective.bias] if node] + [
            node.model.task_spec for node in [objective.teacher] if node
        ]
        if any(task != self.task_spec for task in tasks):
            raise UserError(f"objective '{objective.label}' learns from another task than {self.task_spec.name}")
        if get_objective(objective.name).needs_bias:
            load_task(self.task_spec).need_classes(f"objective '{objective.name}'")

    def check_data(self, data: TrainingData, objective: Objective) -> None:
        choose("training data", data, ("id", "id+ood"))
        if data == "id+ood":
            load_task(self.task_spec).training_data(data)  # if there is none, say so before hours of work
            if objective.teacher is not None:
                raise UserError(f"objective '{objective.label}' has no teacher's answers for OOD training data")

    def check_to_the_end(self, training: TrainingSettings) -> None:
        """Only plain fine-tuning may stop early: a mask on its way is not at its sparsity yet."""
        if training.patience is not None:
            raise UserError("patience is for fine-tuning; this has to run to its end", "leave patience out")

    @property
    def max_length(self) -> int:
        """Where texts are cut: as in the training that made the model."""
        training: TrainingSettings = self.training  # type: ignore[attr-defined]
        return training.max_length


@dataclass(frozen=True)
class Pretrained(ModelNode):
    """f(pt): the backbone with a head drawn from `seed`, or with its own language-model head on `words`."""

    backbone: str
    task: TaskSpec = field(metadata=BY_CONTENT)
    seed: int = 0
    words: tuple[str, ...] = ()
    """One word a label; none: an ordinary classifier."""

    def content(self) -> dict[str, str]:
        return {"backbone_sha256": backbone_hash(self.backbone, self.head), "data": load_task(self.task).fingerprint}

    @property
    def max_length(self) -> int:
        return answer_of_spec(self.task).max_length

    @property
    def head(self) -> Head:
        return Head(self.words, per_token=answer_of_spec(self.task).per_token)

    @property
    def pretrained(self) -> Pretrained:
        return self

    @property
    def formula(self) -> str:
        return "pt"

    @property
    def label(self) -> str:
        return f"{self.backbone} on {self.task.name}"


@dataclass(frozen=True)
class FineTune(ModelNode):
    """A_L(f): train every weight, under the parent's mask if it has one."""

    parent: ModelNode
    objective: Objective = field(default_factory=CE)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    data: TrainingData = "id"
    part: tuple[int, int] | None = None
    """Train on these rows of one fixed shuffling of the training data only."""

    def __post_init__(self) -> None:
        self.check_objective(self.objective)
        self.check_data(self.data, self.objective)
        check_no_scores(self.training, "fine-tuning")
        if self.part is not None and (self.data != "id" or self.objective != CE()):
            raise UserError("a part of the training data is for plain CE on ID data")

    @property
    def fine_tuned(self) -> bool:
        return True

    @property
    def formula(self) -> str:
        until = "^auto" if self.training.patience is not None else ""
        return f"A_{_subscript(self.objective, self.data)}{until}({self.parent.formula})"

    @property
    def label(self) -> str:
        until = ", until it stalls" if self.training.patience is not None else ""
        part = f" on {self.part[1] - self.part[0]:,} examples" if self.part else ""
        return f"fine-tune ({self.objective.label}{_with(self.data)}){part}{until}, seed {self.training.seed}"


def _subscript(objective: Objective, data: TrainingData) -> str:
    return objective.label if data == "id" else f"{objective.label}+ood"


def _with(data: TrainingData) -> str:
    return ", with OOD data" if data == "id+ood" else ""


@dataclass(frozen=True)
class Trajectory(ModelNode):
    """One fine-tuning that keeps the model as it was at several steps; `Moment` picks from it."""

    parent: ModelNode
    objective: Objective
    training: TrainingSettings
    steps: tuple[int, ...]

    def __post_init__(self) -> None:
        self.check_objective(self.objective)
        if not self.steps or min(self.steps) < 1:
            raise UserError(f"moments of a fine-tuning are steps from 1 on, not {list(self.steps)}")
        self.check_to_the_end(self.training)
        check_no_scores(self.training, "fine-tuning")

    @property
    def formula(self) -> str:
        return f"A_{self.objective.label}^{','.join(map(str, self.steps))}({self.parent.formula})"

    @property
    def label(self) -> str:
        return f"fine-tune ({self.objective.label}) to step {max(self.steps)}, seed {self.training.seed}"


@dataclass(frozen=True)
class Moment(ModelNode):
    """f(theta_t): the model as it was at one step of a fine-tuning, whatever its score."""

    trajectory: Trajectory
    step: int

    def __post_init__(self) -> None:
        if self.step not in self.trajectory.steps:
            raise UserError(f"step {self.step} was not kept", f"kept: {list(self.trajectory.steps)}")

    @property
    def fine_tuned(self) -> bool:
        return True

    @property
    def training(self) -> TrainingSettings:
        return self.trajectory.training

    @property
    def formula(self) -> str:
        return f"A_{self.trajectory.objective.label}^{self.step}({self.trajectory.parent.formula})"

    @property
    def label(self) -> str:
        return f"step {self.step} of {self.trajectory.label}"


@dataclass(frozen=True)
class PruneRun(ModelNode):
    """One run of a method that yields every sparsity on its way; `Prune` picks from it."""

    parent: ModelNode
    pruner: Pruner
    objective: Objective
    training: TrainingSettings
    data: TrainingData = "id"

    @property
    def formula(self) -> str:
        return f"P_{_subscript(self.objective, self.data)}^{self.pruner.name}({self.parent.formula})"

    @property
    def label(self) -> str:
        return f"{self.pruner.name} ({self.objective.label}{_with(self.data)}), every level, seed {self.training.seed}"


@dataclass(frozen=True)
class Prune(ModelNode):
    """P_L^p(f): find a mask."""

    parent: ModelNode
    pruner: Pruner = field(default_factory=MaskTraining)
    objective: Objective = field(default_factory=CE)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    data: TrainingData = "id"

    def __post_init__(self) -> None:
        if not self.pruner.trains and self.objective != CE():
            raise UserError(f"pruner '{self.pruner.name}' does not train, so it takes no objective")
        if not self.pruner.trains and self.data != "id":
            raise UserError(f"pruner '{self.pruner.name}' does not train, so it takes no training data")
        self.check_to_the_end(self.training)
        self.check_objective(self.objective)
        self.check_data(self.data, self.objective)
        if self.training.steps is not None:
            self.pruner.check_steps(self.training.steps)
        if not self.pruner.has_scores:
            check_no_scores(self.training, f"pruner '{self.pruner.name}'")

    @property
    def levels(self) -> PruneRun | None:
        """The shared run this level is picked from, for pruners that have one."""
        if not hasattr(self.pruner, "levels"):
            return None
        return PruneRun(self.parent, self.pruner.shared_run(), self.objective, self.training, self.data)

    @property
    def parents(self) -> tuple[Node, ...]:
        return (self.levels,) if self.levels is not None else super().parents

    @property
    def fine_tuned(self) -> bool:
        return self.parent.fine_tuned

    @property
    def max_length(self) -> int:
        return self.training.max_length if self.pruner.trains else self.parent.max_length

    @property
    def formula(self) -> str:
        loss = f"_{_subscript(self.objective, self.data)}" if self.pruner.trains else ""
        return f"P{loss}^{self.pruner.name} {self.pruner.aim}({self.parent.formula})"

    @property
    def label(self) -> str:
        how = f" ({self.objective.label}{_with(self.data)})" if self.pruner.trains else ""
        seed = self.training.seed if self.pruner.trains else self.pretrained.seed
        return f"{self.pruner.name}{how} at {self.pruner.aim}, seed {seed}"


@dataclass(frozen=True)
class Rewind(ModelNode):
    """M(f) * theta: the mask of `subnetwork` on the weights of `to`."""

    subnetwork: ModelNode
    to: ModelNode

    def __post_init__(self) -> None:
        if self.subnetwork.pretrained != self.to.pretrained:
            raise UserError("a mask can only be rewound to a model on the same backbone, task and seed")

    @property
    def fine_tuned(self) -> bool:
        return self.to.fine_tuned

    @property
    def max_length(self) -> int:
        return self.to.max_length

    @property
    def formula(self) -> str:
        return f"M({self.subnetwork.formula}) * {self.to.formula}"

    @property
    def label(self) -> str:
        return f"rewind {self.subnetwork.label}"


# --- scores --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Evaluate(Node):
    """E_d(f): logits and scores of a model on splits of its task; the scored ones if none are named."""

    model: ModelNode
    splits: tuple[str, ...] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        task = load_task(self.model.task_spec)
        for name in self.splits or ():
            if name not in task.splits:
                raise UserError(f"task '{task.name}' has no split '{name}'", f"it has: {', '.join(task.splits)}")
        return self.splits or task.scored

    @property
    def formula(self) -> str:
        return f"E({self.model.formula})"

    @property
    def label(self) -> str:
        return f"evaluate {self.model.label}"


def every_node(targets: Iterable[Node]) -> dict[str, Node]:
    """The targets and whatever they need, each once, parents first."""
    found: dict[str, Node] = {}
    for target in targets:
        if target.key not in found:
            found |= every_node(parent for parent in target.parents if parent.key not in found)
            found[target.key] = target
    return found


def is_training(node: Node) -> bool:
    """Whether computing the node means training a model: what costs time."""
    if isinstance(node, Prune):
        return node.pruner.trains and node.levels is None
    return isinstance(node, (FineTune, Trajectory, PruneRun))
