"""Checked values from YAML: every key and every value is checked, and an error says where it is."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from srnet.core.errors import UserError

T = TypeVar("T")
_hints = functools.cache(get_type_hints)
_SCALARS = {int: "a whole number", float: "a number", str: "text (quote it)", bool: "true or false"}


@contextlib.contextmanager
def located(place: object) -> Iterator[None]:
    """Errors raised inside begin with their place: a file, a line, a key."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{place}: {error}") from None


def build(make: Callable[..., T], values: Any) -> T:
    """Call `make`, a dataclass or a function, with a mapping of its arguments."""
    given = arguments_of(make, values)
    for name, parameter in inspect.signature(make).parameters.items():
        if parameter.default is parameter.empty and name not in given:
            raise UserError(f"key '{name}' is missing")
    return make(**given)


def arguments_of(make: Callable[..., Any], values: Any, only: tuple[str, ...] = ()) -> dict[str, Any]:
    """The values of a mapping, each converted to the type of the parameter of its name, or of `only` some of these."""
    hints, known, found = _hints(make), only or tuple(inspect.signature(make).parameters), {}
    for key, value in _mapping(values).items():
        if key not in known:
            raise UserError(f"unknown key '{key}'", f"known: {', '.join(known)}")
        with located(key):
            found[key] = convert(value, hints[key])
    return found


def convert(value: Any, hint: Any) -> Any:
    """`value`, as YAML gave it, as the type `hint`. Instances of dataclasses stay as they are."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return value if isinstance(value, hint) else build(hint, value)
    if origin in (Union, UnionType):
        return _first_that_fits(value, arguments)
    if origin in (dict, Mapping):
        return _dict(value, *arguments)
    if origin is tuple and get_origin(arguments[0]) is tuple:  # pairs are written as a mapping
        return tuple(_dict(value, *get_args(arguments[0])).items())
    if origin is tuple and isinstance(value, list):
        return tuple(convert(each, arguments[0]) for each in value)
    if hint is float and isinstance(value, (int, float, str)) and not isinstance(value, bool):
        with contextlib.suppress(ValueError, OverflowError):
            return float(value)  # YAML reads 5e-5 as text, because it has no dot
    if type(value) is hint or (origin is Literal and value in arguments):
        return value
    wanted = "a list" if origin is tuple else _SCALARS.get(hint) or f"one of {', '.join(map(repr, arguments))}"
    raise UserError(f"{value!r:.80} is not {wanted}")


def _first_that_fits(value: Any, hints: tuple[Any, ...]) -> Any:
    if value is None and NoneType in hints:
        return None
    # if none fits, the error of the last is shown: for a mapping, what is wrong in it
    known = [hint for hint in hints if hint is not NoneType]
    *others, last = sorted(known, key=lambda hint: isinstance(value, Mapping) and dataclasses.is_dataclass(hint))
    for hint in others:
        with contextlib.suppress(UserError):
            return convert(value, hint)
    return convert(value, last)


def _dict(value: Any, key: Any, kind: Any) -> dict[Any, Any]:
    found = {}
    for name, each in _mapping(value).items():
        with located(name):
            found[str(name) if key is str else convert(name, key)] = convert(each, kind)
    return found


def _mapping(value: Any) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise UserError(f"{value!r:.80} is not a mapping")
    return value
