"""Checked values from YAML: every key and every value is checked, and an error names the file and the place."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from srnet.errors import UserError

T = TypeVar("T")


def build(make: Callable[..., T], values: Any, where: str, **defaults: Any) -> T:
    """Call `make`, a dataclass or a function, with a mapping; each value is converted to its parameter's type."""
    parameters = inspect.signature(make).parameters
    if not isinstance(values, Mapping):
        raise UserError(f"{where}: a mapping is needed, not {values!r}")
    check_keys(values, parameters, where)
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in values and name not in defaults:
            raise UserError(f"{where}: key '{name}' is missing")
    given = convert_fields(make, values, where)
    return located(where, lambda: make(**{**defaults, **given}))


def convert_fields(make: Callable[..., Any], values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Each value as the type of the field or parameter of its name."""
    hints = get_type_hints(make)
    return {key: convert(value, hints[key], f"{where}: {key}") for key, value in values.items()}


def located(where: str, make: Callable[[], T]) -> T:
    """Whatever `make` objects to is said with its place."""
    try:
        return make()
    except UserError as error:
        message = str(error)
        raise UserError(message if message.startswith(where) else f"{where}: {message}") from None


def check_keys(values: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    unknown = [str(key) for key in values if key not in known]
    if unknown:
        raise UserError(f"{where}: unknown key '{unknown[0]}'", f"known: {', '.join(known)}")


def convert(value: Any, hint: Any, where: str) -> Any:
    """`value`, as YAML gave it, as the type a field asks for."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any or (origin is Literal and value in arguments):
        return value
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return build(hint, value, where)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _first_that_fits(value, [a for a in arguments if a is not type(None)], where)
    if origin is tuple:
        return _tuple(value, arguments, where)
    if hint is float and isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            return float(value)  # YAML reads 5e-5 as text, for want of a dot
        except (ValueError, OverflowError):
            raise UserError(f"{where}: '{value}' is not a number") from None
    if hint in (int, str, bool) and isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    names = {int: "a whole number", float: "a number", str: "text (quote it)", bool: "true or false"}
    wanted = f"one of {', '.join(map(repr, arguments))}" if origin is Literal else names.get(hint, str(hint))
    raise UserError(f"{where}: {value!r} is not {wanted}")


def _first_that_fits(value: Any, hints: list[Any], where: str) -> Any:
    if isinstance(value, Mapping):  # what is wrong inside it should be said, not that it is no text
        hints = [hint for hint in hints if dataclasses.is_dataclass(hint)] or hints
    for hint in hints[:-1]:
        with contextlib.suppress(UserError):
            return convert(value, hint, where)
    return convert(value, hints[-1], where)


def _tuple(value: Any, arguments: tuple[Any, ...], where: str) -> tuple[Any, ...]:
    inner = arguments[0]
    if get_origin(inner) is tuple:  # pairs are written as a mapping
        if not isinstance(value, Mapping):
            raise UserError(f"{where}: a mapping is needed, not {value!r}")
        key, kind = get_args(inner)
        return tuple(
            (str(name) if key is str else convert(name, key, where), convert(each, kind, f"{where}: {name}"))
            for name, each in value.items()
        )
    if not isinstance(value, list):
        raise UserError(f"{where}: a list is needed, not {value!r}")
    return tuple(convert(each, inner, where) for each in value)
