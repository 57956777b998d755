"""Dataclasses whose fields are described once: checked in Python, and made into command-line options and back.

A field's annotation says which values it has and how they are written, the docstring below it is the help text, its
default is the option's default. `option(...)` adds what these cannot say, such as another name. Imports nothing heavy.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

from srnet.config.values import FLAG, Kind, SeedCount, hints_of, kind_of, located
from srnet.core.errors import UserError

T = TypeVar("T")
Values = Mapping[tuple[str, ...], Any]
"""Values of fields by their path: ("sparsity",), or ("targets", "modules") for a field of a field."""
DESCRIBED: dict[str, type] = {}
"""The dataclasses that can be rebuilt from a stored description, by name."""


class Described:
    """A dataclass whose fields are checked by their annotations, whether Python, YAML or a command line gives them.

    A subclass that relates fields has a `__post_init__`, and calls this one first.
    """

    def __init_subclass__(cls) -> None:
        known = DESCRIBED.setdefault(cls.__name__, cls)
        if known.__module__ != cls.__module__:
            raise TypeError(f"{known.__module__} already has a {cls.__name__}: the name is part of its identity")
        DESCRIBED[cls.__name__] = cls

    def __post_init__(self) -> None:
        cls: Any = type(self)
        for name, kind in _kinds(cls).items():
            with located(name):
                kind.convert(getattr(self, name))


@cache
def _kinds(cls: Any) -> dict[str, Kind]:
    """The kinds of a dataclass's fields, by name."""
    return {field.name: kind_of(hints_of(cls)[field.name]) for field in dataclasses.fields(cls) if field.init}


def option(default: T, **settings: Any) -> T:
    """A field with settings for its option.

    `name`: instead of the field's name; None: no option. `short`: a second, short name. `kind`: how values are written,
    instead of what the annotation says. `heading`: in the help. `instead_of`: a field that must not be given as well.
    `always`, `alone` and `expert`: as in `Option`. `identifies`: False for what does not change a node's own result.
    """
    return dataclasses.field(default=default, metadata=settings)


class _FirstSeeds(Kind):
    """Seeds that are written as their number: 3 stands for (0, 1, 2)."""

    metavar = "INT"

    def parse(self, *texts: str) -> tuple[int, ...]:
        return first_seeds(kind_of(int).parse(*texts))

    def write(self, value: Any) -> list[str]:
        return [str(len(value))]


FIRST_SEEDS = _FirstSeeds()


def first_seeds(count: int) -> tuple[int, ...]:
    return tuple(range(kind_of(SeedCount).convert(count)))


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
    expert: bool = False
    """Shown by `--help-all` alone."""

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
        with located(self.name):
            return self.kind.convert(self.kind.parse(*(given if self.kind.repeats else [given])))

    def write(self, value: Any) -> list[str]:
        if self.kind is FLAG:
            return [self.name if value else self.negation]
        return [part for text in self.kind.write(value) for part in (self.name, text)]

    @property
    def shown_default(self) -> str:
        """The default as one writes it; empty if there is none to show."""
        absent = self.default in (None, (), dataclasses.MISSING) or self.kind is FLAG
        return "" if absent else " ".join(self.write(self.default)[1::2])


def options_of(cls: Any, default: Any = None) -> list[Option]:
    """Options for the fields of `cls`, none if it is no dataclass. Those of a field that is one stand in its place.

    `default`: an instance whose values are the defaults, instead of the fields' own.
    """
    if not dataclasses.is_dataclass(cls):
        return []
    owner: Any = cls
    docs, hints, found = _docs_of(owner), hints_of(owner), list[Option]()
    for field in dataclasses.fields(cls):
        if field.metadata.get("name", "") is None:
            continue
        value = default_of(field) if default is None else getattr(default, field.name)
        hint, heading = hints[field.name], field.metadata.get("heading")
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            inner = options_of(hint, value)
            found += [dataclasses.replace(o, path=(field.name, *o.path), heading=o.heading or heading) for o in inner]
        else:
            found.append(_option(field, kind_of(hint), docs.get(field.name, ""), value))
    return found


def _option(field: dataclasses.Field[Any], kind: Kind, help: str, default: Any) -> Option:
    settings = field.metadata
    names = (settings.get("name") or f"--{field.name.replace('_', '-')}", settings.get("short"))
    kind = settings.get("kind", kind)
    if not kind.metavar and kind is not FLAG:
        raise TypeError(f"no command-line option can hold the field '{field.name}'")
    rest = {key: settings[key] for key in ("heading", "always", "alone", "expert") if key in settings}
    return Option((field.name,), tuple(filter(None, names)), kind, help, default, **rest)


def default_of(field: dataclasses.Field[Any]) -> Any:
    """The default of a field; MISSING, which equals no value, if there is none."""
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


@cache
def _docs_of(cls: type) -> dict[str, str]:
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
