"""The base class of all nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from srnet.config.fields import Described
from srnet.core.names import EMBEDDED
from srnet.experiment.identity import key_of
from srnet.tasks.answers.base import AnswerKind, get_answer
from srnet.tasks.answers.classes import CLASSES
from srnet.tasks.base import Task
from srnet.tasks.base import TaskSpec as TaskSpec
from srnet.tasks.shortcut import Shortcut
from srnet.training.settings import Precision


@lru_cache(maxsize=8)
def load_task(spec: TaskSpec) -> Task:
    return spec.load()


def answer_of_spec(spec: TaskSpec) -> AnswerKind:
    """A task's kind of answer, without loading it; classes by default."""
    return get_answer(getattr(spec, "answer", CLASSES.name))


def backbone_for(spec: TaskSpec, given: str) -> str:
    """The backbone that is given, or instead of the default the task's own: no other has its vocabulary."""
    return str(getattr(spec, "own_backbone", given)) if given == EMBEDDED else given


def shortcut_of_spec(spec: TaskSpec) -> Shortcut:
    """A task's presumed shortcut; the task is loaded only if it does not declare one."""
    declared: Shortcut | None = getattr(spec, "presumed_shortcut", None) or getattr(spec, "shortcut", None)
    return declared or load_task(spec).shortcut


@dataclass(frozen=True)
class Node(Described):
    """A step of an experiment, identified by its fields. Building one reads no data.

    A new kind of node is a subclass and its `compute`. Defining the class registers it.
    """

    @cached_property
    def key(self) -> str:
        return key_of(self)

    @cached_property
    def parents(self) -> tuple[Node, ...]:
        return tuple(node for f in dataclasses.fields(self) for node in _nodes_in(getattr(self, f.name)))

    @property
    def task_spec(self) -> TaskSpec:
        return self.parents[0].task_spec

    @property
    def trains(self) -> bool:
        """Whether computing the node trains a model, which takes most of the time."""
        return False

    @property
    def precisions(self) -> tuple[Precision, ...]:
        """The precisions that computing the node needs, which not every device has."""
        return ()

    def check(self) -> None:
        """Checks that need the data. Called when a plan is made, before anything runs."""

    @property
    def label(self) -> str:
        """The step in words."""
        return type(self).__name__.lower()

    @property
    def formula(self) -> str:
        """The step in the paper's algebra: A trains, P prunes, M is the mask, E evaluates, pt is the raw model."""
        return type(self).__name__


def _nodes_in(value: Any) -> list[Node]:
    """The nodes in a field: the value itself, or in a tuple or a dataclass such as an objective."""
    if isinstance(value, Node):
        return [value]
    if dataclasses.is_dataclass(value):
        value = tuple(getattr(value, f.name) for f in dataclasses.fields(value))
    return [node for each in value for node in _nodes_in(each)] if isinstance(value, tuple) else []


def every_node(targets: Iterable[Node], leave_out: Callable[[Node], bool] = lambda node: False) -> dict[str, Node]:
    """The targets and all nodes that they need, each once, parents first; not those of what is left out."""
    found: dict[str, Node] = {}

    def visit(node: Node) -> None:
        if node.key not in found and not leave_out(node):
            for parent in node.parents:
                visit(parent)
            found[node.key] = node

    for target in targets:
        visit(target)
    return found
