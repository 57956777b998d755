"""An objective by its name, with a node for each of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from srnet.config.fields import Described, option
from srnet.config.values import Share
from srnet.core.errors import UserError
from srnet.experiment.compute import TOKENS, bias_predictions, load_logits
from srnet.experiment.nodes.base import Node
from srnet.experiment.nodes.bias import BiasSpec
from srnet.experiment.nodes.models import Evaluate, ModelNode, Pretrained, answers_of
from srnet.experiment.nodes.objectives import NEEDS, Need, Objective, Temperature
from srnet.experiment.nodes.training import FineTune
from srnet.experiment.store import Store
from srnet.objectives.base import parse_objective
from srnet.tasks.base import Task
from srnet.tasks.splits import Split


@dataclass(frozen=True)
class Needs(Described):
    """What an objective learns from beside the data: keyword arguments of `finetune` and `prune`."""

    teacher: str | None = None
    """Key of a full model: for objective confreg one trained with CE, for --distil any model."""
    distil: Share | None = None
    """Share of the loss that imitates --teacher, e.g. 0.5."""
    temperature: Temperature = option(2.0, name="--distil-temperature")
    """Temperature of the distillation."""
    bias: BiasSpec = option(BiasSpec(), heading="Bias model")
    """How the shortcut is measured."""


@dataclass(frozen=True)
class ObjectiveSources:
    """What the inputs of an objective are made from."""

    raw: Pretrained
    full: Callable[[], FineTune]
    """The full model of the same seed, trained with CE."""
    bias: BiasSpec | None = None
    """How the shortcut is measured; None: the task's own shortcut, without word vectors."""
    teacher: ModelNode | None = None
    """None: the full model."""


def make_objective(text: str, sources: ObjectiveSources) -> Objective:
    """The objective that `text` names, with a node for each of its needs: `poe`, `jtt:upweight=20`."""
    registered, options = parse_objective(text)
    loss = registered.make(options)
    made = {need: NEEDS[need].node(sources, loss) for need in registered.needs if NEEDS[need].what is not None}
    bias, teacher = made.pop("bias", None), made.pop("teacher", None)
    return Objective(registered.name, bias, teacher, options=tuple(options.items()), inputs=tuple(made.items()))  # type: ignore[arg-type]


class _Bias(Need):
    what = "bias model"

    def node(self, sources: ObjectiveSources, loss: Any) -> Node:
        return (sources.bias or BiasSpec()).node(sources.raw.task, sources.raw.backbone)

    def check(self, objective: str, task: Task) -> None:
        task.need_classes(objective)

    def values(self, node: Node, splits: Sequence[Split], task: Task, store: Store) -> np.ndarray:
        return np.concatenate([bias_predictions(store, node, split.name).for_ids(split.ids) for split in splits])


class _Teacher(Need):
    what = "teacher"
    covers_ood = False

    def node(self, sources: ObjectiveSources, loss: Any) -> Node:
        return answers_of(sources.teacher or sources.full())

    def values(self, node: Evaluate, splits: Sequence[Split], task: Task, store: Store) -> np.ndarray:
        logits = load_logits(store, node)
        answer = task.answer_kind
        parts = [logits[TOKENS.format(split.name) if answer.per_token else split.name] for split in splits]
        return np.concatenate([answer.teacher(part) for part in parts])


class _Early(_Teacher):
    """The answers of the full model after `loss.early_share` of its training."""

    what = "briefly trained model"

    def node(self, sources: ObjectiveSources, loss: Any) -> Node:
        full = sources.full()
        return answers_of(replace(full, training=full.training.lengthened(loss.early_share)))

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


NEEDS |= {"bias": _Bias(), "teacher": _Teacher(), "early": _Early(), "group": _Group()}
