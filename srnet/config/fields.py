"""Command-line options made from the fields of dataclasses, and the command line that gives an instance again.

A field's annotation says how its value is written, the docstring below the field is the help text, the default is the
option's default. `option(...)` adds what these cannot say, such as another name. Imports nothing heavy.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Callable, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from srnet.core.errors import UserError, choose

T = TypeVar("T")
Values = Mapping[tuple[str, ...], Any]
"""Values of fields by their path: ("sparsity",), or ("targets", "modules") for a field of a field."""
EMPTY_PATH = "the path is empty; write . for this folder"
"""Read as a path it would be the current folder, and it is most often a variable that was not set."""
EMPTY = "none"
"""How an empty tuple is written."""


def option(default: T, **settings: Any) -> T:
    """A field with settings for its option.

    `name`: instead of the field's name; None: no option. `short`: a second, short name. `kind`: how values are written,
    instead of what the annotation says. `least`: the smallest whole number. `heading`: in the help.
    `instead_of`: a field that must not be given as well. `always` and `alone`: as in `Option`.
    """
    return dataclasses.field(default=default, metadata=settings)


# --- how values are written ----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Kind:
    """How values of one type are written. `repeats`: an option for each item; `read` and `write` are of one item."""

    metavar: str
    read: Callable[[str], Any] = str
    write: Callable[[Any], str] = str
    repeats: bool = False


def _reader(convert: Callable[[str], Any], what: str) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            return convert(text)
        except ValueError:
            raise UserError(f"'{text[:80]}' is not {what}") from None

    return read


def _read_path(text: str) -> Path:
    if not text:
        raise UserError(EMPTY_PATH)
    return Path(text)


TEXT, FLAG, PATH = Kind("TEXT"), Kind(""), Kind("PATH", _read_path)
WHOLE = Kind("INT", _reader(int, "a whole number"))
NUMBER = Kind("FLOAT", _reader(float, "a number"), repr)
SCALARS = {str: TEXT, int: WHOLE, float: NUMBER, bool: FLAG, Path: PATH}


def one_of(names: tuple[str, ...]) -> Kind:
    return Kind("|".join(names), lambda text: choose("value", text, names))


def with_commas(item: Kind) -> Kind:
    def read(text: str) -> tuple[Any, ...]:
        return () if text == EMPTY else tuple(item.read(part.strip()) for part in text.split(","))

    return Kind(f"{item.metavar},...", read, lambda values: ",".join(map(item.write, values)) or EMPTY)


def repeated(item: Kind) -> Kind:
    return dataclasses.replace(item, repeats=True)


def pair(value: Kind) -> Kind:
    metavar = f"NAME={'VALUE' if value is TEXT else value.metavar}"

    def read(text: str) -> tuple[str, Any]:
        name, _, given = text.partition("=")
        if not (name and given):
            raise UserError(f"'{text[:80]}' is not {metavar}")
        return name, value.read(given)

    return Kind(metavar, read, lambda item: f"{item[0]}={value.write(item[1])}")


def _read_selector(text: str) -> str | tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip()) if "," in text else text


def _write_selector(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else ",".join(value) + ("," if len(value) < 2 else "")


SELECTOR = Kind("TEXT|TEXT,...", _read_selector, _write_selector)
"""A text, or several with commas. A comma behind a text makes a tuple of one, a comma alone an empty tuple."""
COUNT = Kind("INT", lambda text: first_seeds(at_least(1, WHOLE).read(text)), lambda values: str(len(values)))
"""How many: 3 stands for (0, 1, 2)."""


MOST_SEEDS = 1000


def first_seeds(count: int) -> tuple[int, ...]:
    check_seed_count(count)
    return tuple(range(count))


def check_seed_count(count: int) -> None:
    if count > MOST_SEEDS:
        raise UserError(f"{count} seeds are too many", f"give at most {MOST_SEEDS:,}")


def at_least(least: int, kind: Kind) -> Kind:
    def read(text: str) -> Any:
        if (value := kind.read(text)) < least:
            raise UserError(f"{text} is too small", f"give at least {least}")
        return value

    return dataclasses.replace(kind, read=read)


def kind_of(hint: Any) -> Kind:
    """The kind of an annotation. Texts may contain commas, so pairs with texts are repeated."""
    origin, arguments = get_origin(hint), [each for each in get_args(hint) if each not in (NoneType, ...)]
    if origin in (Union, UnionType):
        return kind_of(arguments[0]) if len(arguments) == 1 else SELECTOR
    if origin is Literal:
        return one_of(tuple(arguments))
    if origin is tuple and get_origin(arguments[0]) is tuple:
        value = kind_of(get_args(arguments[0])[1])
        return repeated(pair(value)) if value is TEXT else with_commas(pair(value))
    if origin is tuple:
        return with_commas(kind_of(arguments[0]))
    if hint not in SCALARS:
        raise TypeError(f"no command-line option can hold a value of type {hint}")
    return SCALARS[hint]


# --- options -------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Option:
    """One option of a dataclass."""

    path: tuple[str, ...]
    names: tuple[str, ...]
    """The long name, then the short one if there is one."""
    kind: Kind
    help: str
    default: Any
    heading: str | None = None
    always: bool = False
    """Printed in commands even where it is the default."""
    alone: bool = False
    """A flag without a negation."""

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def negation(self) -> str:
        """What turns a flag off."""
        return f"--no-{self.name.removeprefix('--')}"

    def read(self, given: Any) -> Any:
        """The value that was written: a text, several for a repeated option, a bool for a flag."""
        if self.kind is FLAG:
            return given
        try:
            value = tuple(map(self.kind.read, given)) if self.kind.repeats else self.kind.read(given)
            _check_twice(value)
        except UserError as error:
            raise UserError(f"{self.name}: {error}") from None
        return value

    def write(self, value: Any) -> list[str]:
        if self.kind is FLAG:
            return [self.name if value else self.negation]
        items = value if self.kind.repeats else [value]
        return [part for item in items for part in (self.name, self.kind.write(item))]

    @property
    def shown_default(self) -> str:
        """The default as one writes it; empty if there is none to show."""
        absent = self.default in (None, (), dataclasses.MISSING) or self.kind is FLAG
        return "" if absent else " ".join(self.write(self.default)[1::2])


def _check_twice(value: Any) -> None:
    names = [item[0] for item in value if isinstance(item, tuple)] if isinstance(value, tuple) else []
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UserError(f"'{twice[0]}' is given twice", "keep one of them")


def options_of(cls: Any, default: Any = None) -> list[Option]:
    """Options for the fields of `cls`, none if it is no dataclass. Those of a field that is one stand in its place.

    `default`: an instance whose values are the defaults, instead of the fields' own.
    """
    if not dataclasses.is_dataclass(cls):
        return []
    hints, docs, found = get_type_hints(cls), docs_of(cls), list[Option]()  # type: ignore[arg-type]
    for field in dataclasses.fields(cls):
        if field.metadata.get("name", "") is None:
            continue
        value = default_of(field) if default is None else getattr(default, field.name)
        hint, heading = hints[field.name], field.metadata.get("heading")
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            inner = options_of(hint, value)
            found += [dataclasses.replace(o, path=(field.name, *o.path), heading=o.heading or heading) for o in inner]
        else:
            found.append(_option(field, hint, docs.get(field.name, ""), value))
    return found


def _option(field: dataclasses.Field[Any], hint: Any, help: str, default: Any) -> Option:
    settings = field.metadata
    names = (settings.get("name") or f"--{field.name.replace('_', '-')}", settings.get("short"))
    kind = settings.get("kind") or kind_of(hint)
    if "least" in settings:
        kind = at_least(settings["least"], kind)
    rest = {key: settings[key] for key in ("heading", "always", "alone") if key in settings}
    return Option((field.name,), tuple(filter(None, names)), kind, help, default, **rest)


def default_of(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


@cache
def docs_of(cls: type) -> dict[str, str]:
    """The docstrings below the fields of a dataclass and its bases, each on one line; none where there is no source."""
    found: dict[str, str] = {}
    for each in reversed([base for base in cls.__mro__ if dataclasses.is_dataclass(base)]):
        found |= _own_docs(each)
    return found


def _own_docs(cls: type) -> dict[str, str]:
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    except (OSError, TypeError):
        return {}
    return {
        above.target.id: " ".join(below.value.value.split())
        for above, below in pairwise(getattr(tree, "body", ()))
        if isinstance(above, ast.AnnAssign) and isinstance(above.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str)
    }


# --- from values to instances and back -----------------------------------------------------------------------------


def arguments(cls: type, values: Values) -> dict[str, Any]:
    """Keyword arguments of `cls`. A field that is a dataclass keeps the rest of its default."""
    _check_exclusive(cls, values)
    own = {path[0]: value for path, value in values.items() if len(path) == 1}
    for name in {path[0] for path in values if len(path) > 1}:
        default = next(default_of(field) for field in dataclasses.fields(cls) if field.name == name)
        inner = {path[1:]: value for path, value in values.items() if path[:1] == (name,)}
        own[name] = dataclasses.replace(default, **arguments(type(default), inner))
    return own


def _check_exclusive(cls: type, values: Values) -> None:
    for field in dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ():
        other = field.metadata.get("instead_of")
        if other and {(field.name,), (other,)} <= values.keys():
            names = {each.path: each.name for each in options_of(cls)}
            raise UserError(f"{names[field.name,]} and {names[other,]} exclude each other", "keep one of them")


def as_cli_args(instance: Any) -> list[str]:
    """The options that give `instance` again."""
    found = []
    for each in options_of(type(instance)):
        value = instance
        for name in each.path:
            value = getattr(value, name)
        if each.always or value != each.default:
            found += each.write(value)
    return found
