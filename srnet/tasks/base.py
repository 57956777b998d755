"""A task: examples in named splits, their labels, the metric and the presumed shortcut. Families of tasks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np

from srnet.config.fields import DESCRIBED, Described
from srnet.config.values import Count
from srnet.core.errors import UserError
from srnet.tasks.answers.base import AnswerKind, get_answer
from srnet.tasks.answers.classes import CLASSES
from srnet.tasks.shortcut import Shortcut, canonical
from srnet.tasks.splits import Split

Metric = str
"""The name of a metric. The available ones depend on the kind of answer."""
TrainingData = Literal["id", "id+ood"]
"""The training data: ID, or ID and OOD (for an upper bound)."""

CE_OPTIMAL, DEBIASED = "theory: CE-optimal", "theory: ideal debiased"
"""Ideal classifiers where the evidence is known: the best in distribution, and the best without the shortcut."""


def check_label_words(task: str, words: tuple[str, ...], labels: tuple[str, ...]) -> None:
    if words and (len(words) != len(labels) or len(set(words)) != len(words) or not all(map(str.strip, words))):
        raise UserError(
            f"task '{task}': label_words {list(words)} do not fit the labels {list(labels)}",
            "give one word per label, all different",
        )


def _has_twins(ids: tuple[str, ...]) -> bool:
    """A set of a million texts takes 64 MB, so it is made only where two hashes are equal."""
    hashes = np.sort(np.fromiter(map(hash, ids), np.int64, len(ids)))
    return bool((hashes[1:] == hashes[:-1]).any()) and len(set(ids)) != len(ids)


@dataclass(frozen=True)
class Task(Described):
    """The data of an experiment.

    `train` and `dev` are in distribution; only they are used for training and selection. `dev` and all of `ood` are
    scored.
    """

    name: str
    labels: tuple[str, ...]
    metric: Metric
    shortcut: Shortcut
    train: Split
    dev: Split
    ood: Mapping[str, Split]
    ood_train: Split | None = None
    """Out-of-distribution examples to train on, for an upper bound. Never scored."""
    ood_copies: Count = 1
    """How often they are repeated when they join the training data."""
    id_tests: Mapping[str, Split] = field(default_factory=dict)
    """Further test sets in distribution. They are scored, and never used for selection."""
    notes: tuple[str, ...] = ()
    """Notes for reports on this task: rows left out, how classes are counted."""
    answer: str = CLASSES.name
    """The name of a registered kind of answer."""
    label_words: tuple[str, ...] = ()
    """One word per label, whose logit in a masked language model can be the label's."""
    ideal: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)
    """The answers of ideal classifiers, where they are known, by their names (`CE_OPTIMAL`, ...) and split."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "shortcut", canonical(self.shortcut))
        tests = {**self.id_tests, **self.ood}
        names = [self.train.name, self.dev.name, *self.id_tests, *self.ood]
        names += [self.ood_train.name] if self.ood_train else []
        if len(set(names)) != len(names) or any(split.name != name for name, split in tests.items()):
            raise UserError(f"task '{self.name}': splits need different names, not {names}")
        self._check_answers()
        self.answer_kind.check_metric(self.name, self.metric, self.labels)
        check_label_words(self.name, self.label_words, self.labels)
        if self.train.coarse or self.dev.coarse or (self.ood_train and self.ood_train.coarse):
            raise UserError(f"task '{self.name}': train, dev and ood_train need the task's own labels")
        for split in (self.train, *([self.ood_train] if self.ood_train else [])):
            if _has_twins(split.ids):
                raise UserError(f"task '{self.name}': the {split.name} split repeats an example id", "make ids unique")

    def _check_answers(self) -> None:
        kind = self.answer_kind
        for split in self.splits.values():
            if problem := kind.problem(split.labels, self.classes_of(split)):
                raise UserError(f"task '{self.name}': split '{split.name}' {problem}", "check the task's answer")
            if split.coarse and not kind.has_classes:
                raise UserError(f"task '{self.name}': coarser classes are for classes, not {kind.plural}")
        if kind.outputs and self.labels != kind.outputs:
            raise UserError(f"task '{self.name}': labels of {kind.plural} are {kind.outputs}, not {self.labels}")

    @property
    def answer_kind(self) -> AnswerKind:
        return get_answer(self.answer)

    def need_classes(self, what: str) -> None:
        """An error unless the answers are classes; `what` needs them, such as "a bias model"."""
        if self.answer_kind.has_classes:
            return
        problem = f"{what} needs a task with classes; '{self.name}' has {self.answer_kind.plural}"
        if self.answer_kind.language:
            raise UserError(problem, "for language models: srnet prune, evaluate, page, or reproduce generation")
        raise UserError(problem)

    @property
    def splits(self) -> dict[str, Split]:
        """Every split by name, including the OOD training set."""
        extra = {} if self.ood_train is None else {self.ood_train.name: self.ood_train}
        return {self.train.name: self.train, self.dev.name: self.dev, **self.id_tests, **self.ood, **extra}

    @cached_property
    def has_pairs(self) -> bool:
        """Whether any example has a second text."""
        return any(any(split.text_b) for split in self.splits.values())

    def classes_of(self, split: Split) -> tuple[str, ...]:
        """The classes of a split's labels."""
        return split.coarse.classes if split.coarse else self.labels

    def training_data(self, data: TrainingData) -> tuple[Split, ...]:
        """The splits to train on, each as often as it is repeated."""
        if data == "id":
            return (self.train,)
        if self.ood_train is None:
            raise UserError(f"task '{self.name}' has no OOD training data", "give it an ood_train split")
        return (self.train, *[self.ood_train] * self.ood_copies)

    @property
    def scored(self) -> tuple[str, ...]:
        """The splits that results are reported on."""
        return (self.dev.name, *self.id_tests, *self.ood)

    @property
    def compared(self) -> tuple[str, ...]:
        """The scored splits that have the task's metric: pairs have no perplexity, and neutral text no preference."""
        kind = self.answer_kind
        return tuple(name for name in self.scored if kind.measured([self.metric], self.splits[name].labels))

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all examples, labels and the metric, without the presumed shortcut and the label words."""
        extra = (self.ood_train.name, self.ood_copies) if self.ood_train else None
        roles = (self.train.name, self.dev.name, tuple(self.id_tests), tuple(self.ood), extra)
        # only a non-default answer is hashed, so that older results keep their keys
        answer = () if self.answer_kind is CLASSES else (self.answer,)
        digest = hashlib.sha256(repr((self.name, self.labels, self.metric, roles, *answer)).encode())
        for split in self.splits.values():
            digest.update(split.fingerprint().encode())
        return digest.hexdigest()


# --- families of tasks ---------------------------------------------------------------------------------------------


@runtime_checkable
class TaskSpec(Protocol):
    """A small frozen description from which a task can be loaded, reproducibly."""

    @property
    def name(self) -> str: ...

    def load(self) -> Task: ...

    def __hash__(self) -> int: ...


T = TypeVar("T", bound=type[Any])


@dataclass(frozen=True)
class TaskFamily:
    """The tasks that are described by one type, `spec`: a frozen dataclass with `name` and `load()`."""

    spec: type[Any]
    names: Collection[str] = ()
    """The tasks that a name alone describes."""
    reads: Callable[[Mapping[str, Any]], bool] | None = None
    """Whether a mapping, such as `task` in a recipe, describes a task of the family. Default: it has one of `names`."""
    changeable: tuple[str, ...] = ()
    """The fields that options of the command line may change."""

    def describes(self, values: Mapping[str, Any]) -> bool:
        return values.get("name") in list(self.names) if self.reads is None else self.reads(values)


TASK_FAMILIES: dict[str, TaskFamily] = {}
"""By the name of the type, under which the store keeps a description."""
DATASETS: dict[str, Callable[..., Any]] = {}
"""Published datasets by name: functions of a `folder` (None: the Hub) and of OOD files that return a description."""


def register_task(**settings: Any) -> Callable[[T], T]:
    """A decorator that makes a type of descriptions known; `settings` are fields of `TaskFamily`."""

    def register(spec: T) -> T:
        DESCRIBED[spec.__name__] = spec
        TASK_FAMILIES[spec.__name__] = TaskFamily(spec, **settings)
        return spec

    return register
