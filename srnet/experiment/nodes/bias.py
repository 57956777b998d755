"""Nodes that measure a shortcut, and the settings from which they are made."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from srnet.bias.vectors import absolute, is_vector_file
from srnet.config.fields import Described, option
from srnet.config.values import Count, Rate, Share
from srnet.core.errors import UserError
from srnet.core.files import require_readable, sha256
from srnet.core.names import EMBEDDED
from srnet.experiment.identity import BY_CONTENT
from srnet.experiment.nodes.base import Node, TaskSpec, load_task, shortcut_of_spec
from srnet.experiment.nodes.models import Pretrained
from srnet.experiment.nodes.objectives import CE, Temperature
from srnet.experiment.nodes.training import FineTune
from srnet.models.backbones import backbone_hash
from srnet.tasks.base import Shortcut
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.settings import TrainingSettings


@dataclass(frozen=True)
class BiasModel(Node):
    """A cross-fitted linear model on the features of the shortcut."""

    task: TaskSpec = field(metadata=BY_CONTENT)
    shortcut: Shortcut | None = field(default=None, metadata=BY_CONTENT)
    """Which features; by default those of the task's own shortcut."""
    vectors: str | None = field(default=None, metadata=BY_CONTENT)
    """A file of word vectors, or a backbone whose input embeddings are used; None uses words alone."""
    folds: int = 5
    extended: bool = False
    """Overlap: two more features, as in the original authors' tool."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_named(self.shortcut)
        if self.vectors is not None:  # what is stored can be read from any folder
            object.__setattr__(self, "vectors", absolute(self.vectors))

    def check(self) -> None:
        _check_named(self.suspected)
        load_task(self.task).need_classes("a bias model")

    def content(self) -> dict[str, str]:
        content = {"data": load_task(self.task).fingerprint, "suspected": self.suspected}
        return content if self.vectors is None else content | {"vectors_sha256": _vectors_hash(self.vectors)}

    @property
    def task_spec(self) -> TaskSpec:
        return self.task

    @property
    def suspected(self) -> Shortcut:
        return self.shortcut or shortcut_of_spec(self.task)

    @property
    def features(self) -> str:
        """Its features in words."""
        vectors = "no word vectors" if self.vectors is None else _vectors_name(self.vectors)
        if self.suspected == "overlap":
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


def _check_named(shortcut: Shortcut | None) -> None:
    if shortcut == "unknown":
        raise UserError("a linear bias model needs a named shortcut", "use a weak model: shortcut unknown")


def _vectors_name(source: str) -> str:
    named = Path(source).name if is_vector_file(source) else f"the backbone {source}"
    return f"word vectors of {named}"


@lru_cache(maxsize=8)
def _vectors_hash(source: str) -> str:
    """The hash of the file, or of the backbone."""
    if not is_vector_file(source):
        return backbone_hash(source)
    require_readable(Path(source))
    if not Path(source).is_file():
        raise UserError(f"word vectors {source} do not exist", "check the path")
    return sha256(Path(source))


@dataclass(frozen=True)
class WeakModel(Node):
    """Utama et al. (2020b): a model trained on very few examples learns the shortcut, also an unknown one.

    Two models are fine-tuned on different examples, so that every training example is scored by a model that was not
    trained on it.
    """

    first: FineTune
    second: FineTune

    def __post_init__(self) -> None:
        super().__post_init__()
        one, other = self.first.part, self.second.part
        if one is None or other is None or not (one[1] <= other[0] or other[1] <= one[0]):
            raise UserError("the two weak models must be trained on different parts of the data", f"not {one}, {other}")
        if self.first.task_spec != self.second.task_spec:
            raise UserError("the two weak models must be of one task")

    def check(self) -> None:
        task, parts = load_task(self.task), [each.part or (0, 0) for each in (self.first, self.second)]
        task.need_classes("a bias model")
        needed = max(end for _, end in parts)
        if needed > len(task.train):
            raise UserError(
                f"two weak models on {parts[0][1] - parts[0][0]:,} examples each need {needed:,}",
                f"'{self.task.name}' has {len(task.train):,}: choose fewer",
            )

    @property
    def task(self) -> TaskSpec:
        return self.first.task_spec

    @property
    def features(self) -> str:
        """Its features in words."""
        start, end = self.first.part or (0, 0)
        return (
            f"no features, but the answers of two models of {self.first.pretrained.backbone} fine-tuned on "
            f"{end - start:,} examples each, every example scored by one that was not trained on it"
        )

    @property
    def formula(self) -> str:
        return "weak"

    @property
    def label(self) -> str:
        return f"weak model for {self.task.name}"


Bias = BiasModel | WeakModel


# --- settings of a user, from which nodes are made: they depend on the task and the backbone -----------------------


@dataclass(frozen=True)
class BiasSpec(Described):
    """How a shortcut is measured, independent of task and backbone."""

    shortcut: Shortcut | None = None
    """What the bias model reads: overlap, claim, or unknown (a weak model). Default: the task's own."""
    vectors: str | None = None
    """overlap, claim: word vectors: .vec, .txt (.gz), .npz, or a backbone. Default: words alone."""
    folds: int = option(5, expert=True)
    """overlap, claim: parts of the cross-fitting."""
    extended: bool = option(False, expert=True)
    """overlap: two more features, as in the original authors' tool."""
    examples: Count = option(2000, name="--weak-examples")
    """unknown: training examples of each weak model."""
    epochs: float = option(3.0, name="--weak-epochs", expert=True)
    """unknown: training epochs of the weak models."""
    learning_rate: Rate = option(5e-5, name="--weak-learning-rate", expert=True)
    """unknown: learning rate of the weak models."""
    backbone: str | None = option(None, name="--weak-backbone")
    """unknown: a smaller backbone for the weak models. Default: the one that is debiased."""

    def resolved(self, folder: Path) -> BiasSpec:
        """The same with absolute paths; relative ones start at `folder`."""
        return self if self.vectors is None else dataclasses.replace(self, vectors=absolute(self.vectors, folder))

    def node(self, task: TaskSpec, backbone: str | None) -> Bias:
        """The node for a model of this backbone; None for a model that was fine-tuned on the task elsewhere."""
        shortcut = self.shortcut or shortcut_of_spec(task)
        given = [f.name for f in dataclasses.fields(self) if getattr(self, f.name) != f.default]
        unused = [name for name in given if name not in ("shortcut", *_BIAS_OPTIONS[shortcut])]
        if unused:
            raise UserError(f"shortcut '{shortcut}' does not use '{unused[0]}'", "leave it out")
        if shortcut != "unknown":
            return BiasModel(task, self.shortcut, self.vectors, self.folds, self.extended)
        return self._weak(task, self.backbone or backbone)

    def node_alone(self, task: TaskSpec) -> Bias:
        """The node where it debiases no model: weak models then need a backbone of their own."""
        weak = (self.shortcut or shortcut_of_spec(task)) == "unknown"
        if weak and self.backbone is None and not isinstance(task, SyntheticTask):
            raise UserError("weak models need a backbone", "give --weak-backbone: the one that is to be debiased")
        return self.node(task, EMBEDDED)

    def _weak(self, task: TaskSpec, backbone: str | None) -> WeakModel:
        if backbone is None:
            raise UserError(
                "weak models need a backbone that was not fine-tuned on the task",
                "give --weak-backbone: the one that your model was fine-tuned from",
            )
        raw = Pretrained(backbone, task, fresh=True)
        training = TrainingSettings(learning_rate=self.learning_rate, epochs=self.epochs, eval_every=10**6)
        first, second = (
            FineTune(raw, CE(), training, part=(start, start + self.examples)) for start in (0, self.examples)
        )
        return WeakModel(first, second)


_BIAS_OPTIONS: dict[Shortcut, tuple[str, ...]] = {
    "overlap": ("vectors", "folds", "extended"),
    "claim": ("vectors", "folds"),
    "unknown": ("examples", "epochs", "learning_rate", "backbone"),
}


@dataclass(frozen=True)
class Needs(Described):
    """What an objective learns from besides the data: keyword arguments of `finetune` and `prune`."""

    teacher: str | None = None
    """Key of a full model: for objective confreg one trained with CE, for --distil any model."""
    distil: Share | None = None
    """Share of the loss that imitates --teacher, e.g. 0.5."""
    temperature: Temperature = option(2.0, name="--distil-temperature")
    """Temperature of the distillation."""
    bias: BiasSpec = option(BiasSpec(), heading="Bias model")
    """How the shortcut is measured."""
