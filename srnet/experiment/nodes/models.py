"""Nodes whose artifact is a model that needs no training: those at the root, rewinding, rounding; and its scores."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar

from srnet.config.values import MaxLength
from srnet.core.errors import UserError, shortened
from srnet.core.names import how_to_name
from srnet.experiment.identity import BY_CONTENT
from srnet.experiment.nodes.base import Node, TaskSpec, answer_of_spec, load_task
from srnet.models.backbones import (
    LoadedBackbone,
    Names,
    OwnClassifier,
    backbone_hash,
    find_own_classifier,
    load_backbone,
)
from srnet.models.checkpoints import LONGEST_READ
from srnet.models.exported import encodes_as_is
from srnet.models.heads import Head
from srnet.tasks.outline import Outline
from srnet.training.settings import Precision

TRAIN, DEV = "train", "dev"
"""The names of every task's training data, and of the data that choose checkpoints."""
_own_classifier_of = lru_cache(maxsize=32)(find_own_classifier)  # it loads the checkpoint


@dataclass(frozen=True)
class ModelNode(Node):
    """A node whose artifact is a model: a subnetwork folder."""

    holds_several_models: ClassVar[bool] = False
    """Whether the artifact has several models, from which other nodes select."""

    @cached_property
    def origin(self) -> ModelNode:
        """The model that this one is made from."""
        return next(parent for parent in self.parents if isinstance(parent, ModelNode))

    @cached_property
    def pretrained(self) -> Pretrained:
        """The raw model at the root of the expression."""
        return self.origin.pretrained

    @property
    def task_spec(self) -> TaskSpec:
        return self.pretrained.task

    @property
    def own_folder(self) -> Path | None:
        """Where the whole model is, if not in the store, which then has only its head."""
        return None

    @property
    def fine_tuned(self) -> bool:
        """Whether the weights have been trained on the task."""
        return self.origin.fine_tuned

    @property
    def max_length(self) -> int:
        """The length at which texts are truncated, the same as in the model's training."""
        return self.origin.max_length

    @property
    def eval_precision(self) -> Precision:
        """The precision in which the model is evaluated, as its training has it."""
        return self.origin.eval_precision

    def cost(self, steps_of: Callable[[Any], int]) -> int:
        """Optimisation steps from the raw model to this one; `steps_of` gives those of one training."""
        before = sum(parent.cost(steps_of) for parent in self.parents if isinstance(parent, ModelNode))
        return before + (steps_of(self) if self.trains else 0)


@dataclass(frozen=True)
class Pretrained(ModelNode):
    """f(pt): the backbone with a head for the task's labels.

    `backbone` is a shipped one, a folder or a hub name. Its head is the checkpoint's own classifier where that has the
    labels of `task`, else a random one, from `seed`; with `words` it is the language-model head.
    """

    backbone: str
    task: TaskSpec = field(metadata=BY_CONTENT)
    seed: int = 0
    words: tuple[str, ...] = ()
    """One word per label; none: an ordinary classifier."""
    fresh: bool = field(default=False, metadata=BY_CONTENT)
    """Whether the head is randomly initialised also where the checkpoint has a classifier for these labels."""
    formula = "pt"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.words and answer_of_spec(self.task).language:
            raise UserError(f"task '{self.task.name}' has no labels, so it takes no label words", "leave them out")

    def content(self) -> dict[str, str]:
        if isinstance(self.task, Outline):  # a plan without data, and perhaps without the backbone
            return {"outline": self.task.name}
        known = {"backbone_sha256": backbone_hash(self.backbone, self.head), "data": load_task(self.task).fingerprint}
        if self.head.language:
            return known
        own = self.own_classifier  # no part of the backbone's hash, so that one with another head is the same backbone
        return {**known, "classifier_sha256": own.sha256} if own.kept else known

    @property
    def own_classifier(self) -> OwnClassifier:
        """The classifier of the checkpoint, if its labels are those of the task."""
        if isinstance(self.task, Outline):
            return OwnClassifier("the checkpoint was not read")
        if self.fresh and not self.head.language:
            return OwnClassifier("the model must not know the task")
        return _own_classifier_of(self.backbone, load_task(self.task).labels, self.head)

    @property
    def fine_tuned(self) -> bool:
        return self.own_classifier.kept

    @property
    def max_length(self) -> int:
        return answer_of_spec(self.task).max_length

    @property
    def eval_precision(self) -> Precision:
        return "float32"

    @property
    def head(self) -> Head:
        answer = answer_of_spec(self.task)
        return Head(self.words, per_token=answer.per_token, language=answer.language)

    @property
    def head_text(self) -> str:
        """Which head the model has, and why."""
        if self.head.language:
            return "the checkpoint's language model"
        if self.words:
            return f"the checkpoint's language model, with the label words {', '.join(self.words)}"
        return str(self.own_classifier)

    @property
    def is_full(self) -> bool:
        """Whether it is a full model without any fine-tuning."""
        return self.head.language

    @property
    def weak_backbone(self) -> str | None:
        """The backbone of weak models, which must not have been trained on the task; None if it is not known."""
        return self.backbone

    @property
    def pretrained(self) -> Pretrained:
        return self

    @property
    def label(self) -> str:
        return f"{self.backbone} on {self.task.name}"


@dataclass(frozen=True)
class FineTuned(Pretrained):
    """f(ft): a model that was fine-tuned elsewhere, with its own classifier and its own way of reading texts.

    `backbone` is its folder or hub name. Its outputs are matched with the labels of `task` by name. Texts are encoded
    as its tokenizer alone does, and cut where the model or the tokenizer has its limit. `seed` is
    that of trainings from it.
    """

    backbone: str = field(metadata=BY_CONTENT)
    labels_are: Names = field(default=(), metadata=BY_CONTENT)
    """What its outputs are called in the task, where the names differ: (("LABEL_0", "negative"), ...)."""
    length: MaxLength | None = field(default=None, metadata=BY_CONTENT)
    """Tokens after which texts are cut. None: as many as it reads, and at most 8,192."""
    fine_tuned = True
    is_full = True
    formula = "ft"
    weak_backbone = None

    def __post_init__(self) -> None:
        if isinstance(self.backbone, Path):
            object.__setattr__(self, "backbone", str(self.backbone))
        if isinstance(self.labels_are, Mapping):
            object.__setattr__(self, "labels_are", tuple(self.labels_are.items()))
        super().__post_init__()
        if answer_of_spec(self.task).language:
            fix = f"give it as a backbone: --backbone {shlex.quote(self.backbone)}"
            raise UserError(f"task '{self.task.name}' takes the language model of a checkpoint as it is", fix)
        if self.words or self.fresh:
            raise UserError("a fine-tuned model has its own head", "leave out label words")
        if Path(self.backbone).is_dir():  # what is stored can be read from any folder
            object.__setattr__(self, "backbone", str(Path(self.backbone).resolve()))

    def content(self) -> dict[str, Any]:
        return {**super().content(), "max_length": self.max_length, "as_is": self.head.as_is}

    def check(self) -> None:
        self.own_classifier  # noqa: B018  an error unless it fits

    @property
    def own_classifier(self) -> OwnClassifier:
        """The classifier of the checkpoint. An error if it has none, or one for other labels."""
        from srnet.models.open import check_trainable  # not at the top: it imports torch

        check_trainable(self.backbone)
        labels, spellings = load_task(self.task).labels, tuple(dict(getattr(self.task, "spellings", ())).items())
        given = {"labels_are": self.labels_are, "spellings": spellings}
        own = _own_classifier_of(self.backbone, labels, self.head, **given)
        if own.kept:
            return own
        if not own.outputs:
            fix = f"a raw backbone is given as such: --backbone {shlex.quote(self.backbone)}"
            raise UserError(f"{self.backbone} is no fine-tuned model: {own.why}", fix)
        listed = [shortened(", ".join(each), 80) for each in (own.outputs, labels)]
        same = len(own.outputs) == len(labels)
        raise UserError(
            f"the labels of {self.backbone} are {listed[0]}, those of task '{self.task.name}' are {listed[1]}",
            f"say which is which: {how_to_name(own.outputs, labels)}" if same else "give a model with these labels",
        )

    @property
    def max_length(self) -> int:
        return min(self.length or LONGEST_READ, self.own_classifier.longest)

    @property
    def head(self) -> Head:
        return replace(super().head, as_is=encodes_as_is(self.backbone))

    @property
    def own_folder(self) -> Path:
        return Path(self.backbone)

    @property
    def head_text(self) -> str:
        own, labels = self.own_classifier, load_task(self.task).labels
        pairs = ", ".join(f"{own.outputs[place]} is {label}" for place, label in zip(own.order, labels, strict=True))
        return f"its own, {shortened(pairs, 200)}; texts are cut at {self.max_length:,} tokens"

    @property
    def label(self) -> str:
        return f"{Path(self.backbone).name}, fine-tuned, on {self.task.name}"


@lru_cache(maxsize=1)
def shared_backbone(name: str, labels: tuple[str, ...], head: Head) -> LoadedBackbone:
    """A backbone as its checkpoint has it, with any head. All nodes of a process share it, so nothing may change it.

    Only the latest one is kept: most nodes of an experiment have the same.
    """
    return load_backbone(name, labels, seed=0, head=head)


@dataclass(frozen=True)
class Rewind(ModelNode):
    """M(f) * theta: the mask of `subnetwork` on the weights of `to`."""

    subnetwork: ModelNode
    to: ModelNode

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.subnetwork.pretrained != self.to.pretrained:
            raise UserError("a mask can only be rewound to a model on the same backbone, task and seed")

    @property
    def origin(self) -> ModelNode:
        return self.to

    def cost(self, steps_of: Callable[[Any], int]) -> int:
        return self.subnetwork.cost(steps_of)

    @property
    def formula(self) -> str:
        return f"M({self.subnetwork.formula}) * {self.to.formula}"

    @property
    def label(self) -> str:
        return f"rewind {self.subnetwork.label}"


@dataclass(frozen=True)
class Quantised(ModelNode):
    """Q(f): `parent` with the weights of its linear layers rounded to 8 bits, symmetric, with one scale per output.

    Activations, embeddings, biases and norms stay float32. It is stored as float32 numbers, and computes with them.
    """

    parent: ModelNode

    @property
    def formula(self) -> str:
        return f"Q({self.parent.formula})"

    @property
    def label(self) -> str:
        return f"{self.parent.label}, int8 weights"


@dataclass(frozen=True)
class Evaluate(Node):
    """E_d(f): logits and scores of `model` on `splits` of its task; by default on all that are scored."""

    model: ModelNode
    splits: tuple[str, ...] | None = None

    def content(self) -> dict[str, str]:
        return {} if self.precision == "float32" else {"precision": self.precision}

    @property
    def precision(self) -> Precision:
        """What answers are computed in. Those that a training learns from (with `splits`) are always in float32."""
        return self.model.eval_precision if self.splits is None else "float32"

    @property
    def precisions(self) -> tuple[Precision, ...]:
        return (self.precision,)

    @property
    def names(self) -> tuple[str, ...]:
        return self.splits or load_task(self.task_spec).scored

    def check(self) -> None:
        task = load_task(self.task_spec)
        for name in self.splits or ():
            if name not in task.splits:
                raise UserError(f"task '{task.name}' has no split '{name}'", f"it has: {', '.join(task.splits)}")

    @property
    def formula(self) -> str:
        return f"E({self.model.formula})"

    @property
    def label(self) -> str:
        return f"evaluate {self.model.label}"


def answers_of(model: ModelNode) -> Evaluate:
    """A model's answers on the training data, or of a language model, which teaches from memory, on dev."""
    return Evaluate(model, (DEV if answer_of_spec(model.task_spec).language else TRAIN,))
