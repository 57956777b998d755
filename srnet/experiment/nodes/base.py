"""What every step of an experiment has in common."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Protocol

from srnet.experiment.identity import key_of
from srnet.tasks.answers import CLASSES, AnswerKind, get_answer
from srnet.tasks.base import Shortcut, Task

NODES: dict[str, type[Node]] = {}
"""Every class of nodes by its name, from which stored expressions are rebuilt."""


class TaskSpec(Protocol):
    """A small frozen description from which a task can be loaded, again and again the same."""

    @property
    def name(self) -> str: ...

    def load(self) -> Task: ...

    def __hash__(self) -> int: ...


@lru_cache(maxsize=8)
def load_task(spec: TaskSpec) -> Task:
    return spec.load()


def answer_of_spec(spec: TaskSpec) -> AnswerKind:
    """What kind of answer a task asks for, without loading it; most ask for classes and do not say so."""
    return get_answer(getattr(spec, "answer", CLASSES.name))


def shortcut_of_spec(spec: TaskSpec) -> Shortcut:
    """The shortcut that a task suspects; only a task that does not declare it is loaded."""
    shortcut: Shortcut | None = getattr(spec, "shortcut", None)
    return shortcut or load_task(spec).shortcut


@dataclass(frozen=True)
class Node:
    """A step of an experiment, identified by what it says. Building one reads no data.

    A new kind of node is a subclass and its `compute`. Defining the class registers it.
    """

    def __init_subclass__(cls) -> None:
        known = NODES.setdefault(cls.__name__, cls)
        if known.__module__ != cls.__module__:
            raise TypeError(f"{cls.__name__} is a node of {known.__module__} already: its name is part of its identity")
        NODES[cls.__name__] = cls

    @cached_property
    def key(self) -> str:
        return key_of(self)

    @property
    def parents(self) -> tuple[Node, ...]:
        return tuple(node for f in dataclasses.fields(self) for node in _nodes_in(getattr(self, f.name)))

    @property
    def task_spec(self) -> TaskSpec:
        return self.parents[0].task_spec

    @property
    def trains(self) -> bool:
        """Whether computing the node means training a model: what costs time."""
        return False

    def check(self) -> None:
        """Refuse what only the data can show to be impossible. Called when a plan is made, before anything runs."""

    @property
    def label(self) -> str:
        """What a person calls this step."""
        return type(self).__name__.lower()

    @property
    def formula(self) -> str:
        """The step in the paper's algebra: A trains, P prunes, M is the mask, E evaluates, pt is the raw model."""
        return type(self).__name__


def _nodes_in(value: Any) -> list[Node]:
    """The nodes in a field: itself one, or inside a tuple or a dataclass such as an objective."""
    if isinstance(value, Node):
        return [value]
    if dataclasses.is_dataclass(value):
        value = tuple(getattr(value, f.name) for f in dataclasses.fields(value))
    return [node for each in value for node in _nodes_in(each)] if isinstance(value, tuple) else []


def every_node(targets: Iterable[Node]) -> dict[str, Node]:
    """The targets and whatever they need, each once, parents first."""
    found: dict[str, Node] = {}
    for target in targets:
        if target.key not in found:
            found |= every_node(parent for parent in target.parents if parent.key not in found)
            found[target.key] = target
    return found
