"""Types of fields: how their values are written on a command line and in YAML, and which values are valid.

An annotation describes a field completely: `float`, `Literal["hard", "soft"]`, `Annotated[float, Range(0, below=1)]`,
`Annotated[str, OneOf(REGISTRY)]`, and optional, repeated and nested ones. Imports nothing heavy.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from srnet.core.errors import UserError, choose, shortened
from srnet.core.lists import at_commas, with_commas

T = TypeVar("T")
hints_of = functools.cache(functools.partial(get_type_hints, include_extras=True))
"""The annotations of a class or a function, by name."""
EMPTY = "none"
"""The text of an empty tuple."""
EMPTY_PATH = "the path is empty; write . for this folder"
"""Read as a path it would be the current folder, and it is most often a variable that was not set."""


# --- what an annotation may say ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Range:
    """The limits of a number. NaN and infinity are in no range."""

    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf
    """Exclusive, as is `below`."""
    below: float = math.inf

    def __contains__(self, value: float) -> bool:
        return self.least <= value <= self.most and self.above < value < self.below

    def __str__(self) -> str:
        words = {"at least": self.least, "above": self.above, "at most": self.most, "below": self.below}
        return " and ".join(f"{word} {limit:.10g}" for word, limit in words.items() if math.isfinite(limit))


@dataclass(frozen=True, eq=False)
class OneOf:
    """The texts to choose from: a registry, which may grow at any time."""

    names: Collection[str]


Positive = Annotated[float, Range(above=0)]
NotNegative = Annotated[float, Range(0)]
Share = Annotated[float, Range(above=0, most=1)]
Fraction = Annotated[float, Range(0, below=1)]
Count = Annotated[int, Range(1, 1e9)]
Seed = Annotated[int, Range(0, 2**32 - 1)]
SeedCount = Annotated[int, Range(1, 1000)]
Rate = Annotated[float, Range(1e-12, 1e3)]
"""A learning rate."""
BatchSize = Annotated[int, Range(1, 2**16)]
MaxLength = Annotated[int, Range(8, 2**20)]
"""Tokens after which texts are truncated."""


# --- kinds of values -----------------------------------------------------------------------------------------------


class Kind:
    """How values of one type are written and checked. This one is of an unknown type: any value is valid."""

    metavar = ""
    """The placeholder in the help; empty if there is no text for such a value."""
    repeats = False
    """Whether an option is given once for each item."""
    holds: tuple[type, ...] = ()
    """The types of its values in YAML, by which the kinds of a union are told apart."""

    def parse(self, *texts: str) -> Any:
        """The value, as YAML would hold it, of a text of the command line; of several if it repeats."""
        return texts[0]

    def write(self, value: Any) -> list[str]:
        """The texts that give a value on the command line."""
        return [str(value)]

    def convert(self, value: Any) -> Any:
        """The valid value that YAML or Python gave."""
        return value


class _Text(Kind):
    metavar, holds = "TEXT", (str,)

    def convert(self, value: Any) -> str:
        if not isinstance(value, str) or "\0" in value:  # no file can have such a name
            raise UserError(f"{value!r:.80} is not text (quote it)")
        return value


class _Path(Kind):
    metavar, holds = "PATH", (str,)

    def convert(self, value: Any) -> Path:
        if not isinstance(value, str | Path):
            raise UserError(f"{shown(value)} is not a path")
        if not str(value):
            raise UserError(EMPTY_PATH)
        return Path(value)


class _Flag(Kind):
    holds = (bool,)

    def convert(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise UserError(f"{value!r:.80} is not true or false")
        return value


class _Number(Kind):
    holds = (int, float)

    def __init__(self, type: type, limits: Range | None = None) -> None:
        self.type, self.limits, self.metavar = type, limits, type.__name__.upper()
        self.what, self.abstract = ("a whole number", Integral) if type is int else ("a number", Real)

    def parse(self, *texts: str) -> Any:
        try:
            return self.type(texts[0])
        except ValueError:
            raise UserError(f"'{texts[0][:80]}' is not {self.what}") from None

    def write(self, value: Any) -> list[str]:
        return [repr(value)]

    def convert(self, value: Any) -> Any:
        if not isinstance(value, self.abstract) or isinstance(value, bool):
            raise UserError(f"{value!r:.80} is not {self.what}")
        number: Any = value
        if self.limits and number not in self.limits:
            said = f"{value:g}" if isinstance(value, float) else shortened(str(value), 80)
            raise UserError(f"{said} is out of range", f"it must be {str(self.limits) or 'finite'}")
        return self.type(value)


class _Choice(Kind):
    holds = (str,)

    def __init__(self, names: Collection[str]) -> None:
        self.names, self.metavar = names, "|".join(names)

    def convert(self, value: Any) -> str:
        return choose("value", value, self.names)


class _Many(Kind):
    """A tuple of any length, written with commas, or one option for each item."""

    holds = (list, tuple)

    def __init__(self, item: Kind, repeats: bool = False) -> None:
        self.item, self.repeats, self.metavar = item, repeats, item.metavar + (",..." if not repeats else "")

    def parse(self, *texts: str) -> Any:
        return [self.item.parse(text) for text in (texts if self.repeats else _with_commas(texts[0]))]

    def write(self, value: Any) -> list[str]:
        texts = [text for each in value for text in self.item.write(each)]
        return texts if self.repeats else [",".join(texts) or EMPTY]

    def convert(self, value: Any) -> tuple[Any, ...]:
        if not isinstance(value, self.holds):
            raise UserError(f"{value!r:.80} is not a list")
        return tuple(map(self.item.convert, value))


def _with_commas(text: str) -> list[str]:
    return [] if text == EMPTY else [part.strip() for part in text.split(",")]


class _Dict(Kind):
    holds: tuple[type, ...] = (Mapping,)

    def __init__(self, key: Kind, value: Kind) -> None:
        self.key, self.value = key, value

    def convert(self, value: Any) -> Any:
        found = {}
        for name, each in _mapping(value).items():
            with located(name):
                found[str(name) if self.key is TEXT else self.key.convert(name)] = self.value.convert(each)
        return found


class _Pairs(_Dict):
    """A tuple of names with values, a mapping in YAML. Texts may contain commas, so pairs with texts are repeated."""

    holds = (Mapping, list, tuple)

    def __init__(self, key: Kind, value: Kind) -> None:
        super().__init__(key, value)
        self.repeats, self.item = value is TEXT, f"NAME={'VALUE' if value is TEXT else value.metavar}"
        self.metavar = self.item + (",..." if not self.repeats else "")

    def parse(self, *texts: str) -> Any:
        found = {}
        for text in texts if self.repeats else _with_commas(texts[0]):
            name, _, given = text.partition("=")
            if not (name and given):
                raise UserError(f"'{text[:80]}' is not {self.item}")
            if name in found:
                raise UserError(f"'{name}' is given twice", "keep one of them")
            found[name] = self.value.parse(given)
        return found

    def write(self, value: Any) -> list[str]:
        texts = [f"{name}={text}" for name, each in value for text in self.value.write(each)]
        return texts if self.repeats else [",".join(texts) or EMPTY]

    def convert(self, value: Any) -> Any:
        if isinstance(value, list | tuple):
            if not all(isinstance(each, list | tuple) and len(each) == 2 for each in value):
                raise UserError(f"{shown(value)} is not a list of pairs")
            value = dict(value)
        return tuple(super().convert(value).items())


class _Names(_Pairs):
    """Names with texts, with commas or repeated. A comma within a text stays, as what follows it has no `=`."""

    def parse(self, *texts: str) -> Any:
        return super().parse(*(part for text in texts for part in re.split(r",(?=[^,]*=)", text)))


class _NamedFiles(_Pairs):
    """Names with files. A file without a name, which its suffix shows, is named by its own: hard.csv is hard."""

    def __init__(self) -> None:
        super().__init__(TEXT, TEXT)
        self.item = self.metavar = "NAME=FILE"

    def parse(self, *texts: str) -> Any:
        return super().parse(*(text if "=" in text else self._named(text) for text in texts))

    def _named(self, text: str) -> str:
        name, dot, _ = Path(text).name.partition(".")
        return f"{name}={text}" if dot else text


class _Instance(Kind):
    """An object of a class that is no dataclass, or that has what a protocol requires."""

    def __init__(self, type: type) -> None:
        self.type = type

    def convert(self, value: Any) -> Any:
        if not isinstance(value, self.type) or isinstance(value, type):
            raise UserError(f"{shown(value)} is not of type {self.type.__name__}")
        return value


class _Nested(_Instance):
    """An object of a dataclass, or a mapping of its fields."""

    holds = (Mapping,)

    def convert(self, value: Any) -> Any:
        return build(self.type, value) if isinstance(value, Mapping) else super().convert(value)


class _Either(Kind):
    """A value of one of several kinds, or None where it is optional."""

    def __init__(self, kinds: list[Kind], optional: bool) -> None:
        self.kinds, self.optional, self.repeats = kinds, optional, kinds[0].repeats
        self.metavar = "|".join(kind.metavar for kind in kinds)

    def parse(self, *texts: str) -> Any:
        """Where a list is possible, a comma makes one: behind a text a list of one, alone an empty list."""
        if len(self.kinds) > 1 and "," in texts[0]:
            return [part for part in at_commas(texts[0]) if part]
        return self.kinds[0].parse(*texts)

    def write(self, value: Any) -> list[str]:
        if len(self.kinds) > 1 and isinstance(value, tuple):
            return [with_commas(value) + ("," if len(value) < 2 else "")]
        return self.kinds[0].write(value)

    def convert(self, value: Any) -> Any:
        """By the first kind that accepts the value; otherwise the error is of one that holds such values."""
        if value is None and self.optional:
            return None
        *others, last = sorted(self.kinds, key=lambda kind: isinstance(value, kind.holds))
        for kind in others:
            with contextlib.suppress(UserError):
                return kind.convert(value)
        return last.convert(value)


TEXT, FLAG = _Text(), _Flag()
REPEATED = _Many(TEXT, repeats=True)
"""Texts that are one option each, because they may contain commas."""
NAMES = _Names(TEXT, TEXT)
"""Names of labels with what each of them means: LABEL_0=negative,LABEL_1=positive."""
NAMED_FILES = _NamedFiles()
"""Files by the names of their splits: hard=FILE, or hard.csv."""
_SCALARS: dict[Any, Kind] = {str: TEXT, bool: FLAG, Path: _Path(), int: _Number(int), float: _Number(float)}


def kind_of(hint: Any) -> Kind:
    """The kind of an annotation."""
    origin, inner = get_origin(hint), [each for each in get_args(hint) if each is not NoneType]
    if origin is Annotated:
        return _limited(inner[0], inner[-1])
    if origin in (Union, UnionType):
        return _Either([kind_of(each) for each in inner], NoneType in get_args(hint))
    if origin is Literal:
        return _Choice(inner)
    if origin is Sequence:
        return _Many(kind_of(inner[0]))
    if origin is tuple and inner[-1] is ...:
        pair = get_origin(inner[0]) is tuple
        return _Pairs(*map(kind_of, get_args(inner[0]))) if pair else _Many(kind_of(inner[0]))
    if origin in (dict, Mapping):
        return _Dict(*map(kind_of, inner))
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _Nested(hint)
    return _SCALARS.get(hint) or (_Instance(hint) if can_be_checked(hint) else Kind())


def can_be_checked(hint: Any) -> bool:
    """Whether it is a class, or a protocol that can be checked."""
    is_class = isinstance(hint, type) and hint is not Any
    return is_class and getattr(hint, "_is_runtime_protocol", not getattr(hint, "_is_protocol", False))


def shown(value: Any) -> str:
    """A value in a message: simple ones as they are, of others the type."""
    simple = isinstance(value, str | bytes | int | float | Path | None)
    return f"{value!r:.80}" if simple else f"a value of type {getattr(type(value), '__name__', '')}"


def _limited(hint: Any, limit: Any) -> Kind:
    if isinstance(limit, OneOf):
        return _Choice(limit.names)
    return _Number(hint, limit) if isinstance(limit, Range) else kind_of(hint)


# --- arguments from YAML -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def located(place: object) -> Iterator[None]:
    """Errors raised inside begin with their place: a file, a line, a key."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{place}: {error}") from None


def build(make: Callable[..., T], values: Any) -> T:
    """The result of `make`, a dataclass or a function, for a mapping of its arguments."""
    given = arguments_of(make, values)
    for name, parameter in inspect.signature(make).parameters.items():
        if parameter.default is parameter.empty and name not in given:
            raise UserError(f"key '{name}' is missing")
    return make(**given)


def arguments_of(make: Callable[..., Any], values: Any, only: tuple[str, ...] = ()) -> dict[str, Any]:
    """The values of a mapping, each converted to the type of the parameter of its name, or of `only` some of these."""
    hints, known, found = hints_of(make), only or tuple(inspect.signature(make).parameters), {}
    for key, value in _mapping(values).items():
        if key not in known:
            raise UserError(f"unknown key '{key}'", f"known: {', '.join(known)}")
        with located(key):
            found[key] = kind_of(hints[key]).convert(value)
    return found


def _mapping(value: Any) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise UserError(f"{value!r:.80} is not a mapping")
    return value
