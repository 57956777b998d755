"""Objectives: a registered loss, its options, and a node for each input that it learns from."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from srnet.config.fields import Described
from srnet.config.values import Share
from srnet.core.errors import UserError, choose
from srnet.experiment.nodes.base import Node
from srnet.experiment.nodes.models import Evaluate, ModelNode, answers_of
from srnet.experiment.store import TOKENS, Store, bias_predictions, read_logits
from srnet.objectives.base import OBJECTIVES, RegisteredLoss, parse_objective
from srnet.objectives.distillation import Temperature
from srnet.tasks.answers.pairs import PAIR_ONLY, PAIRS
from srnet.tasks.base import Task, TrainingData
from srnet.tasks.splits import Split


@dataclass(frozen=True)
class ObjectiveSources:
    """The nodes from which an objective's inputs are made."""

    bias: Callable[[], Node]
    """The bias model of the task."""
    full: Callable[[], Any]
    """The full model of the same seed, trained with CE: a `FineTune`, or a `FineTuned` one."""
    teacher: ModelNode | None = None
    """None: the full model."""


# --- needs: the inputs of losses besides logits and labels -----------------------------------------------------------


class Need(ABC):
    """An input of losses besides logits and labels: its source, and its values for the training data."""

    what: ClassVar[str | None] = None
    """The node that gives it, in words; None if only the data are needed."""
    covers_ood: ClassVar[bool] = True
    """Whether it is available for OOD training data."""

    def node(self, sources: ObjectiveSources, loss: Any) -> Node | None:
        """The node that gives it; `loss` has the objective's options."""
        return None  # the data alone give it

    def check(self, objective: str, task: Task) -> None:  # noqa: B027 (optional)
        """Refuse a task that cannot give it."""

    @abstractmethod
    def values(self, node: Any, splits: Sequence[Split], task: Task, store: Store) -> np.ndarray:
        """One row per example, in the order of the training data."""


class _Bias(Need):
    what = "bias model"

    def node(self, sources: ObjectiveSources, loss: Any) -> Node:
        return sources.bias()

    def check(self, objective: str, task: Task) -> None:
        task.need_classes(objective)

    def values(self, node: Node, splits: Sequence[Split], task: Task, store: Store) -> np.ndarray:
        return np.concatenate([bias_predictions(store, node.key, split.name).for_ids(split.ids) for split in splits])


class _PermutedBias(_Bias):
    """The bias model's answers in random order, always the same one."""

    def values(self, node: Node, splits: Sequence[Split], task: Task, store: Store) -> np.ndarray:
        values = super().values(node, splits, task, store)
        return np.asarray(np.random.default_rng(0).permutation(values))


class _Teacher(Need):
    what = "teacher"
    covers_ood = False

    def node(self, sources: ObjectiveSources, loss: Any) -> Node:
        return answers_of(sources.teacher or sources.full())

    def values(self, node: Evaluate, splits: Sequence[Split], task: Task, store: Store) -> np.ndarray:
        logits, answer = read_logits(store, node.key), task.answer_kind
        parts = [logits[TOKENS.format(split.name) if answer.per_token else split.name] for split in splits]
        return np.concatenate([answer.teacher(part) for part in parts])


class _Early(_Teacher):
    """The answers of the full model after `loss.early_share` of its training."""

    what = "briefly trained model"

    def node(self, sources: ObjectiveSources, loss: Any) -> Node:
        full = sources.full()
        if not hasattr(full, "training"):  # it was fine-tuned elsewhere: its own errors count
            return answers_of(full)
        return answers_of(dataclasses.replace(full, training=full.training.lengthened(loss.early_share)))

    def check(self, objective: str, task: Task) -> None:
        task.need_classes(objective)


class _Group(Need):
    """The index of each training example's sub-case."""

    def check(self, objective: str, task: Task) -> None:
        task.need_classes(objective)
        if len(set(task.train.groups)) < 2:
            raise UserError(
                f"{objective} needs groups, and the training data of '{task.name}' have none",
                "name a column of the training file in the task's YAML file: group: COLUMN",
            )

    def values(self, node: None, splits: Sequence[Split], task: Task, store: Store) -> np.ndarray:
        groups = np.concatenate([split.groups for split in splits])
        return np.unique(groups, return_inverse=True)[1]


class _Pairs(Need):
    """The row of each pair's second sentence: its own."""

    def check(self, objective: str, task: Task) -> None:
        if task.answer_kind is not PAIRS or (task.train.labels < PAIR_ONLY).any():
            raise UserError(f"{objective} needs pairs of sentences, and '{task.name}' has none", "give a task of pairs")

    def values(self, node: None, splits: Sequence[Split], task: Task, store: Store) -> np.ndarray:
        return np.arange(sum(map(len, splits)))


class _PermutedPairs(_Pairs):
    """The row of another pair's second sentence, always the same one."""

    def values(self, node: None, splits: Sequence[Split], task: Task, store: Store) -> np.ndarray:
        order = np.random.default_rng(0).permutation(sum(map(len, splits)))
        found = np.empty_like(order)
        found[order] = np.roll(order, 1)  # no row keeps its own
        return found


class _Text(Need):
    """Neutral text; its number of rows is its own."""

    def check(self, objective: str, task: Task) -> None:
        if not getattr(task.train, "neutral", ()):
            problem = f"{objective} needs neutral text, and '{task.name}' names none"
            raise UserError(problem, "name a file in the task's YAML file: neutral: FILE.txt")

    def values(self, node: None, splits: Sequence[Split], task: Task, store: Store) -> np.ndarray:
        return np.array([text for split in splits for text in getattr(split, "neutral", ())], dtype=object)


NEEDS: dict[str, Need] = {
    "bias": _Bias(),
    "permuted_bias": _PermutedBias(),
    "teacher": _Teacher(),
    "early": _Early(),
    "group": _Group(),
    "pairs": _Pairs(),
    "permuted_pairs": _PermutedPairs(),
    "text": _Text(),
}
"""By the names that losses declare."""


# --- objectives ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Objective(Described):
    name: str
    bias: Node | None = None
    teacher: Evaluate | None = None
    distillation: Share | None = None
    """The share of the loss that imitates the teacher; None: no distillation."""
    temperature: Temperature = 2.0
    """Of the distillation."""
    options: tuple[tuple[str, Any], ...] = ()
    """Those of the loss that differ from its defaults."""
    inputs: tuple[tuple[str, Node], ...] = ()
    """The nodes of its inputs other than a bias model and a teacher, by need."""

    def __post_init__(self) -> None:
        super().__post_init__()
        loss, given = parse_objective(self.name)
        object.__setattr__(self, "name", loss.name)
        object.__setattr__(self, "options", tuple(loss.changed(given | dict(self.options)).items()))
        for name in (*self.needs, *self.nodes):
            what = NEEDS[choose("need", name, NEEDS)].what
            needed = name in self.needs and what is not None
            if needed != (name in self.nodes):
                raise UserError(f"objective '{self.label}' {'needs a' if needed else 'takes no'} {what or name}")

    @property
    def loss(self) -> RegisteredLoss:
        return OBJECTIVES[self.name]

    @property
    def needs(self) -> tuple[str, ...]:
        """The inputs of the loss and the distillation besides logits and labels."""
        return tuple(dict.fromkeys((*self.loss.needs, *(() if self.distillation is None else ("teacher",)))))

    @property
    def nodes(self) -> dict[str, Node]:
        """The nodes of its inputs, by need."""
        given = {"bias": self.bias, "teacher": self.teacher, **dict(self.inputs)}
        return {need: node for need, node in given.items() if node is not None}

    @property
    def label(self) -> str:
        text = self.loss.text(dict(self.options))
        return text if self.distillation is None else f"{text}+kd"

    def check_data(self, data: TrainingData) -> None:
        missing = [NEEDS[need].what for need in self.needs if not NEEDS[need].covers_ood]
        if data == "id+ood" and missing:
            raise UserError(f"objective '{self.label}' has no {missing[0]}'s answers for OOD training data")

    def check(self, task: Task) -> None:
        for need in self.needs:
            NEEDS[need].check(f"objective '{self.name}'", task)


def CE() -> Objective:
    """Cross-entropy."""
    return Objective("ce")


def PoE(bias: Node, strength: float = 1.0) -> Objective:
    """Product of experts: the log-probabilities of `bias`, times `strength`, are added to the model's in training."""
    return Objective("poe", bias, options=() if strength == 1.0 else (("strength", strength),))


def Reweight(bias: Node) -> Objective:
    """Cross-entropy in which an example counts less the surer `bias` is of its label."""
    return Objective("reweight", bias)


def ConfReg(bias: Node, teacher: ModelNode) -> Objective:
    """Imitate `teacher`, a model trained with CE, made the less certain the surer `bias` is of the label."""
    return Objective("confreg", bias, answers_of(teacher))


def Distilled(objective: Objective, teacher: ModelNode, share: float = 0.5, temperature: float = 2.0) -> Objective:
    """The loss of `objective`, of which `share` is replaced by imitating `teacher`, softened by `temperature`."""
    own = objective.teacher
    if own is not None and own != answers_of(teacher):
        raise UserError(f"objective '{objective.name}' has a teacher already", "distil from the same one")
    return dataclasses.replace(objective, teacher=answers_of(teacher), distillation=share, temperature=temperature)


def make_objective(text: str, sources: ObjectiveSources) -> Objective:
    """The objective that `text` names, with a node for each of its needs: `poe`, `jtt:upweight=20`."""
    registered, options = parse_objective(text)
    loss = registered.make(options)
    made = {need: NEEDS[need].node(sources, loss) for need in registered.needs if NEEDS[need].what is not None}
    bias, teacher = made.pop("bias", None), made.pop("teacher", None)
    return Objective(registered.name, bias, teacher, options=tuple(options.items()), inputs=tuple(made.items()))  # type: ignore[arg-type]
