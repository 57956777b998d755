"""Arguments of the public functions: checked by their annotations, so that a wrong type is an error of one line.

A task may be given by its name or its YAML file, as on the command line, and settings as a dict of those that differ
from their defaults.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import srnet
from srnet.config.values import Kind, can_be_checked, kind_of, located, shown
from srnet.core.errors import UserError
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.base import TaskSpec, load_task
from srnet.experiment.nodes.models import ModelNode
from srnet.pruners.base import Pruner
from srnet.recipes.recipe import Recipe
from srnet.recipes.tasks import read_task
from srnet.tasks.base import Task

F = TypeVar("F", bound=Callable[..., Any])
_FIXES: dict[Any, str] = {
    TaskSpec: "give a task: its name, its YAML file, or srnet.task_from(train=..., text=..., label=...)",
    Engine: "give srnet.Engine(...)",
    Pruner: "give a pruner, such as srnet.MaskTraining(sparsity=0.5)",
    ModelNode: "give the key of a model or an expression, such as srnet.Pretrained(...)",
    Recipe: "give srnet.load_recipe(FILE)",
}
_NAMES: dict[Any, str] = {
    TaskSpec: "a task", NoneType: "None", str: "text", Path: "a path", int: "a whole number", float: "a number",
    Sequence: "a list",
}  # fmt: skip


@functools.cache
def checked(function: F) -> F:
    """The function with its arguments checked. A call with too many or too few is Python's own TypeError."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"srnet.{function.__name__}(): {error}") from None
        hints = _hints(function)
        for name, value in bound.arguments.items():
            kind = signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                bound.arguments[name] = tuple(_argument(name, hints.get(name, Any), each) for each in value)
            elif kind is not inspect.Parameter.VAR_KEYWORD:
                bound.arguments[name] = _argument(name, hints.get(name, Any), value)
        return function(*bound.args, **bound.kwargs)

    return call  # type: ignore[return-value]


@functools.cache
def _hints(function: Any) -> dict[str, Any]:
    """The annotations by parameter. Those of types that are imported for a type checker alone may be unknown."""
    found: dict[str, Any] = {}
    for name, hint in function.__annotations__.items():
        found |= _hint(SimpleNamespace(__annotations__={name: hint}), function.__globals__)
    return found


def _hint(annotated: Any, module: dict[str, Any], further: Mapping[str, Any] | None = None) -> dict[str, Any]:
    known = dict(further or {})
    try:
        return get_type_hints(annotated, module, known, include_extras=True)
    except NameError as error:
        name = str(error.name)
        public = getattr(srnet, name, None)
        return {} if public is None else _hint(annotated, module, {**known, name: public})


def _argument(name: str, hint: Any, value: Any) -> Any:
    """A value of the annotated type, which is read where a text or a mapping stands for it."""
    types = _members(hint)
    if any(_is(type, value) for type in types):
        return value
    with located(name):
        if (TaskSpec in types or Task in types) and isinstance(value, str | Path | Mapping):
            task = read_task(value if isinstance(value, Mapping) else str(value), "task")
            return task if TaskSpec in types else load_task(task)
        if Task in types and _is(TaskSpec, value):
            return load_task(value)
        for type in types:
            kind = kind_of(type)
            if isinstance(value, kind.holds):
                return kind.convert(value)
        if any(kind_of(type).__class__ is Kind and get_origin(type) is not Callable for type in types):
            return value  # an annotation that is not understood
        fix = next((_FIXES[type] for type in types if type in _FIXES), None)
        raise UserError(f"{shown(value)} is not {' or '.join(map(_name, types))}", fix)


def _members(hint: Any) -> tuple[Any, ...]:
    """The types of a union, or the one type."""
    if get_origin(hint) in (Union, UnionType):
        return tuple(member for each in get_args(hint) for member in _members(each))
    return (hint,)


def _is(hint: Any, value: Any) -> bool:
    """Whether a value is of a type as it is. Where its items or its range matter, `kind_of` has to look at them."""
    if hint is Any:
        return True
    origin = get_origin(hint)
    if origin is Callable or hint is Callable:
        return callable(value)
    if origin is Mapping:
        return isinstance(value, Mapping)
    return (
        can_be_checked(hint) and isinstance(value, hint) and not isinstance(value, type) and not _is_flag(hint, value)
    )


def _is_flag(hint: type, value: Any) -> bool:
    return isinstance(value, bool) and hint in (int, float)


def _name(hint: Any) -> str:
    name = getattr(hint, "__name__", str(hint))
    return _NAMES.get(get_origin(hint) or hint) or f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"
