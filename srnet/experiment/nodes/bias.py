"""Nodes that measure a shortcut, and the settings from which they are made."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from srnet.bias.shortcuts import base as kinds
from srnet.bias.shortcuts.base import Part, is_given, parse_shortcut
from srnet.bias.shortcuts.unknown import Unknown
from srnet.bias.vectors import absolute, is_vector_file
from srnet.config.fields import Described, option
from srnet.config.values import Count, Rate, Share
from srnet.core.errors import UserError
from srnet.core.files import content_hash
from srnet.core.lists import quoted, with_commas
from srnet.core.names import EMBEDDED
from srnet.experiment.identity import BY_CONTENT
from srnet.experiment.nodes.base import Node, TaskSpec, load_task, shortcut_of_spec
from srnet.experiment.nodes.models import Pretrained
from srnet.experiment.nodes.objectives import CE
from srnet.experiment.nodes.training import FineTune
from srnet.models.backbones import backbone_hash
from srnet.objectives.distillation import Temperature
from srnet.tasks.base import Task
from srnet.tasks.files import metadata_columns, with_metadata
from srnet.tasks.shortcut import Shortcut, canonical, with_file_paths
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.settings import TrainingSettings


@dataclass(frozen=True)
class BiasModel(Node):
    """A linear model on the features of the shortcut of `task`, cross-fitted in so many `folds`."""

    task: TaskSpec = field(metadata=BY_CONTENT)
    shortcut: Shortcut | None = field(default=None, metadata=BY_CONTENT)
    """Which features; by default those of the task's own shortcut."""
    vectors: str | None = field(default=None, metadata=BY_CONTENT)
    """A file of word vectors, or a backbone whose input embeddings are used; None uses words alone."""
    folds: int = 5
    extended: bool = False
    """Overlap: two more features, as in the original authors' tool."""
    formula = "bias"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shortcut is not None:  # what is stored can be read from any folder
            object.__setattr__(self, "shortcut", _absolute(self.shortcut))
            _check_named(self.shortcut)
        if self.vectors is not None:
            object.__setattr__(self, "vectors", absolute(self.vectors))

    def check(self) -> None:
        _check_named(self.suspected)
        load_task(self.task).need_classes("a bias model")
        _check_measurable(self.task, self.suspected, _file_hashes(self.suspected))

    def content(self) -> dict[str, Any]:
        identity = _identity(self.task, self.suspected, _file_hashes(self.suspected))
        content = {"data": load_task(self.task).fingerprint, "suspected": identity}
        return content if self.vectors is None else content | {"vectors_sha256": _vectors_hash(self.vectors)}

    @property
    def task_spec(self) -> TaskSpec:
        return self.task

    @property
    def suspected(self) -> Shortcut:
        return self.shortcut or shortcut_of_spec(self.task)

    @property
    def parts(self) -> tuple[Part, ...]:
        return parse_shortcut(self.suspected)

    def load_measured(self) -> Task:
        """The task with the metadata that the shortcut reads."""
        return load_measured(self.task, self.suspected)

    @property
    def features(self) -> str:
        """Its features in words."""
        vectors = None if self.vectors is None else _vectors_name(self.vectors)
        parts = [part.kind.described(part.argument, vectors, self.extended) for part in self.parts]
        fitted = "" if is_given(self.parts) else f", cross-fitted in {self.folds} folds"
        return " and ".join(parts) + fitted

    @property
    def remarks(self) -> list[str]:
        """What a user should know about the features on this task."""
        task, parts = self.load_measured(), self.parts
        hints = [part.kind.without_vectors for part in parts if self.vectors is None and part.kind.without_vectors]
        return [*hints, *(note for part in parts for note in part.kind.notes(task, part.argument))]

    @property
    def label(self) -> str:
        return f"bias model for {self.task.name}"


def _check_named(shortcut: Shortcut) -> None:
    if not all(part.kind.is_linear for part in parse_shortcut(shortcut)):
        raise UserError("a linear bias model needs a named shortcut", "use a weak model: shortcut unknown")


def _absolute(shortcut: Shortcut, folder: Path = Path()) -> Shortcut:
    return with_file_paths(canonical(shortcut), lambda path: str((folder / path).resolve()))


def load_measured(spec: TaskSpec, shortcut: Shortcut) -> Task:
    """A task with the metadata that a shortcut reads."""
    columns = tuple(name for part in parse_shortcut(shortcut) for name in part.columns)
    if not columns:
        return load_task(spec)
    task = load_task(with_metadata(spec, columns))
    for name in columns:
        if not any(name in split.columns for split in task.splits.values()):
            here = ", ".join(map(quoted, metadata_columns(spec))) or "none"
            raise UserError(
                f"unknown shortcut '{name}' for task '{spec.name}'",
                f"kinds: {kinds.kinds_in_words()}; further columns of the data: {here}",
            )
    return task


def _file_hashes(shortcut: Shortcut) -> tuple[str, ...]:
    """The content of the files that a shortcut reads, so that what is remembered of them is not older than they are."""
    return tuple(content_hash(Path(file)) for part in parse_shortcut(shortcut) for file in part.files)


@lru_cache(maxsize=32)
def _check_measurable(spec: TaskSpec, shortcut: Shortcut, files: tuple[str, ...]) -> None:
    """Once for each task and content of files: plans are made often, and every row is looked at."""
    kinds.check_measurable(load_measured(spec, shortcut), parse_shortcut(shortcut))


@lru_cache(maxsize=32)
def _identity(spec: TaskSpec, shortcut: Shortcut, files: tuple[str, ...]) -> str | list[str]:
    """A shortcut as part of a key. Columns and files are in it by their content."""
    task = load_measured(spec, shortcut)
    texts = [part.kind.identity(task, part.argument) for part in parse_shortcut(shortcut)]
    return texts[0] if len(texts) == 1 else texts


def _vectors_name(source: str) -> str:
    named = Path(source).name if is_vector_file(source) else f"the backbone {source}"
    return f"word vectors of {named}"


def _vectors_hash(source: str) -> str:
    """The hash of the file, or of the backbone."""
    return content_hash(Path(source)) if is_vector_file(source) else backbone_hash(source)


@dataclass(frozen=True)
class WeakModel(Node):
    """Utama et al. (2020b): a model trained on very few examples learns the shortcut, also an unknown one.

    Two models, `first` and `second`, are fine-tuned on different examples, so that every training example is scored by
    a model that was not trained on it.
    """

    first: FineTune
    second: FineTune
    formula = "weak"
    suspected = Unknown.name

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
    def remarks(self) -> list[str]:
        """What a user should know: `features` says it all."""
        return []

    @property
    def label(self) -> str:
        return f"weak model for {self.task.name}"


Bias = BiasModel | WeakModel


# --- settings of a user, from which nodes are made: they depend on the task and the backbone -----------------------


@dataclass(frozen=True)
class BiasSpec(Described):
    """How a shortcut is measured, independent of task and backbone."""

    shortcut: Shortcut | None = None
    """What the bias model reads: overlap (of the words of two texts), claim (the words of the second), words, length,
    a column of the data by its name, scores:COLUMN or scores:FILE (probabilities of your own), or unknown (a weak
    model). Several with commas; one that has a comma itself is in double quotes. Default: the task's own."""
    vectors: str | None = None
    """overlap, claim, words: word vectors: .vec, .txt (.gz), .npz, or a backbone. Default: words alone."""
    folds: int = option(5, expert=True)
    """Parts of the cross-fitting, for every shortcut but unknown and scores."""
    extended: bool = option(False, expert=True)
    """overlap: two more features, as in the original authors' tool."""
    examples: Count | None = option(None, name="--weak-examples")
    """unknown: training examples of each weak model. Default: 2000, or a quarter of the rows where they are fewer than
    4000."""
    epochs: float = option(3.0, name="--weak-epochs", expert=True)
    """unknown: training epochs of the weak models."""
    learning_rate: Rate = option(5e-5, name="--weak-learning-rate", expert=True)
    """unknown: learning rate of the weak models."""
    backbone: str | None = option(None, name="--weak-backbone")
    """unknown: a smaller backbone for the weak models. Default: the one that is debiased."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shortcut is not None:
            object.__setattr__(self, "shortcut", canonical(self.shortcut))
            parse_shortcut(self.shortcut)

    def resolved(self, folder: Path) -> BiasSpec:
        """The same with absolute paths; relative ones start at `folder`."""
        return dataclasses.replace(
            self,
            vectors=None if self.vectors is None else absolute(self.vectors, folder),
            shortcut=None if self.shortcut is None else _absolute(self.shortcut, folder),
        )

    def parts(self, task: TaskSpec) -> tuple[Part, ...]:
        """The parts of the shortcut: this one's, or the task's own."""
        return parse_shortcut(self.shortcut or shortcut_of_spec(task))

    def is_weak(self, task: TaskSpec) -> bool:
        """Whether the shortcut is measured by weak models."""
        return not all(part.kind.is_linear for part in self.parts(task))

    def node(self, task: TaskSpec, backbone: str | None) -> Bias:
        """The node for a model of this backbone; None for a model that was fine-tuned on the task elsewhere."""
        parts = self.parts(task)
        used = {name for part in parts for name in part.kind.options}
        used |= {"shortcut"} | (set() if self.is_weak(task) or is_given(parts) else {"folds"})
        given = [f.name for f in dataclasses.fields(self) if getattr(self, f.name) != f.default]
        unused = [name for name in given if name not in used]
        if unused:
            written = with_commas(part.text for part in parts)
            raise UserError(f"shortcut '{written}' does not use '{unused[0]}'", "leave it out")
        if not self.is_weak(task):
            return BiasModel(task, self.shortcut, self.vectors, self.folds, self.extended)
        return self._weak(task, self.backbone or backbone)

    def node_alone(self, task: TaskSpec) -> Bias:
        """The node where it debiases no model: weak models then need a backbone of their own."""
        if self.is_weak(task) and self.backbone is None and not isinstance(task, SyntheticTask):
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
        count = self.examples or _weak_examples(load_task(task))
        first, second = (FineTune(raw, CE(), training, part=(start, start + count)) for start in (0, count))
        return WeakModel(first, second)


_WEAK_EXAMPLES, _FEWEST = 2000, 50
"""Training examples of a weak model: as in the paper where there are enough rows, and at least so many."""


def _weak_examples(task: Task) -> int:
    """As in the paper where the rows suffice for both models, or else a quarter: a weak model must stay weak."""
    task.need_classes("a bias model")
    rows = len(task.train)
    if rows < 4 * _FEWEST:
        raise UserError(
            f"shortcut 'unknown' needs {4 * _FEWEST} training rows, and '{task.name}' has {rows:,}",
            "give another shortcut, or --weak-examples",
        )
    return _WEAK_EXAMPLES if rows >= 2 * _WEAK_EXAMPLES else rows // 4


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
