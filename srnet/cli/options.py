"""Commands whose options are the fields of dataclasses. A dataclass is imported when its command is parsed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from importlib import import_module
from itertools import pairwise
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand

from srnet.errors import UserError, choose
from srnet.options import FLAG, TEXT, Option, Values, arguments, options_of


@dataclass(frozen=True)
class Group:
    """Options that make one parameter of a command."""

    heading: str
    options: list[Option]
    make: Callable[[Values], Any]
    listing: dict[str, str] = field(default_factory=dict)
    """Further lines for the help."""
    explain: Callable[[str], None] = lambda name: None
    """Called with the name of an option that the command does not have."""


@dataclass(frozen=True)
class Fields:
    """A parameter that stands for the fields of a dataclass. Its value is a dict of those that were given."""

    heading: str
    where: type | str
    """The dataclass, or where to import it from: "srnet.recipes:DataOptions"."""
    only: tuple[str, ...] = ()
    """These fields; none: all."""
    without: tuple[str, ...] = ()
    show_defaults: bool = True
    """False where a command has defaults of its own."""

    def group(self, args: list[str]) -> Group:
        cls = imported(self.where)
        names = set(self.only or (each.name for each in fields(cls))) - set(self.without)
        found = options_of(cls, only=names)
        shown = found if self.show_defaults else [replace(each, default=None) for each in found]
        return Group(self.heading, shown, lambda values: self.value(cls, values))

    def value(self, cls: type, values: Values) -> Any:
        return arguments(cls, values)


class Instance(Fields):
    """A parameter that stands for the fields of a dataclass. Its value is an instance."""

    def value(self, cls: type, values: Values) -> Any:
        return cls(**arguments(cls, values))


@dataclass(frozen=True)
class Choice:
    """A parameter that stands for `--WHAT NAME` and the fields of what `registry` has under that name.

    An entry of the registry is a dataclass, or has one as its attribute `options` (None: no options). The parameter's
    value is the name and a dict of the fields that were given.
    """

    what: str
    registry: str
    default: str

    def group(self, args: list[str]) -> Group:
        entries = imported(self.registry)
        known = {name: options_class(entry) for name, entry in entries.items()}
        named = value_in(args, f"--{self.what}")
        name = choose(self.what, named or self.default, known)
        overview = named is None and "--help" in args and any(map(options_of, known.values()))
        options = shared_options(known.values()) if overview else options_of(known[name])
        return Group(
            self.what.capitalize() + (f" {named}" if named and options else ""),
            [self._selector(known, overview), *options],
            lambda values: (name, arguments(known[name], values)),
            listing={each: summary(entry) for each, entry in entries.items()} if overview else {},
            explain=lambda option: self._explain(option, name, known),
        )

    def _selector(self, known: Iterable[str], overview: bool) -> Option:
        more = f" `--{self.what} NAME --help` shows the options of one." if overview else ""
        return Option((), (f"--{self.what}",), TEXT, f"One of: {', '.join(known)}.{more}", self.default)

    def _explain(self, option: str, name: str, known: Mapping[str, type]) -> None:
        owners = [each for each, cls in known.items() if option in {own.name for own in options_of(cls)}]
        if owners and name not in owners:
            raise UserError(f"{self.what} '{name}' has no option {option}", f"give --{self.what} {' or '.join(owners)}")


@dataclass(frozen=True)
class NoOptions:
    """"""


def imported(where: Any) -> Any:
    if not isinstance(where, str):
        return where
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


def options_class(entry: Any) -> type:
    found: type | None = entry if isinstance(entry, type) else entry.options
    return found or NoOptions


def summary(entry: Any) -> str:
    return (inspect.getdoc(entry if isinstance(entry, type) else entry.loss) or "").partition("\n")[0]


def shared_options(classes: Iterable[type]) -> list[Option]:
    """The options that all classes have. Where defaults differ, none is shown."""
    first, *others = ({each.name: each for each in options_of(cls)} for cls in classes)
    shared = [each for name, each in first.items() if all(name in other for other in others)]
    return [
        each if all(other[each.name].default == each.default for other in others) else replace(each, default=None)
        for each in shared
    ]


def value_in(args: list[str], option: str) -> str | None:
    """The value that `option` has on a command line which is not yet parsed."""
    found = [after for word, after in pairwise(args) if word == option]
    found += [word.partition("=")[2] for word in args if word.startswith(f"{option}=")]
    return found[-1] if found else None


# --- commands ------------------------------------------------------------------------------------------------------


class Command(TyperCommand):
    """Makes its options when it is parsed, and shows them under headings."""

    function: ClassVar[Callable[..., None]]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        self.groups = {p.name: marker.group(args) for p in parameters_of(self.function) if (marker := marker_of(p))}
        app = typer.Typer(add_completion=False)
        app.command()(expanded(self.function, self.groups))
        made = typer.main.get_command(app)
        self.params, self.callback = made.params, made.callback
        _check_names(self.params)
        try:
            return super().parse_args(ctx, args)
        except typer.TyperException as error:
            for group in self.groups.values():
                group.explain(getattr(error, "option_name", ""))
            raise

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            usual = "Arguments" if parameter.param_type_name == "argument" else "Options"
            heading = getattr(parameter, "rich_help_panel", None) or usual
            sections.setdefault(heading, []).extend(filter(None, [parameter.get_help_record(ctx)]))
        for group in self.groups.values():
            if group.listing:
                sections[f"{group.heading}s"] = list(group.listing.items())
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


def command(app: typer.Typer, name: str | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a command. `srnet --help` reads its docstring alone."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        def parsed() -> None:
            """Replaced when the command is parsed."""

        cls = type("Command", (Command,), {"function": staticmethod(function)})
        app.command(name or function.__name__, cls=cls, help=inspect.getdoc(function))(parsed)
        return function

    return register


def parameters_of(function: Callable[..., None]) -> Iterable[inspect.Parameter]:
    return inspect.signature(function, eval_str=True).parameters.values()


def marker_of(parameter: inspect.Parameter) -> Fields | Choice | None:
    known = (each for each in getattr(parameter.annotation, "__metadata__", ()) if isinstance(each, Fields | Choice))
    return next(known, None)


def expanded(function: Callable[..., None], groups: Mapping[str, Group]) -> Callable[..., None]:
    """The function with the options of each group as parameters instead of the group's one."""

    def call(**given: Any) -> None:
        made = {name: group.make(_values(name, group, given)) for name, group in groups.items()}
        function(**given, **made)

    parameters = [
        each
        for own in parameters_of(function)
        for each in (_parameters(own.name, groups[own.name]) if own.name in groups else [own])
    ]
    by_name = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    call.__signature__ = inspect.Signature(by_name)  # type: ignore[attr-defined]
    call.__annotations__ = {}
    return call


def _key(group: str, option: Option) -> str:
    return "__".join((group, *option.path))


def _values(name: str, group: Group, given: dict[str, Any]) -> Values:
    """What was given for a group, taken out of `given`."""
    found = [(option, given.pop(_key(name, option))) for option in group.options]
    return {option.path: option.read(value) for option, value in found if value is not None}


def _parameters(name: str, group: Group) -> list[inspect.Parameter]:
    def parameter(option: Option) -> inspect.Parameter:
        default = inspect.Parameter.empty if option.default is MISSING else None
        hint = _annotation(option, group)
        return inspect.Parameter(_key(name, option), inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)

    return [parameter(each) for each in group.options]


def _annotation(option: Option, group: Group) -> Any:
    flag = option.kind is FLAG
    long = f"{option.name}/{option.negation}" if flag and not option.alone else option.name
    settings = typer.Option(
        long,
        *option.names[1:],
        metavar=None if flag else option.kind.metavar,
        help=option.help + (f" [default: {option.shown_default}]" if option.shown_default else ""),
        rich_help_panel=option.heading or group.heading,
    )
    return Annotated[bool | None if flag else list[str] | None if option.kind.repeats else str | None, settings]  # type: ignore[misc]


def _check_names(parameters: Iterable[Any]) -> None:
    names = [name for each in parameters if each.param_type_name == "option" for name in each.opts]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise TypeError(f"two fields make the option {twice[0]}; give one of them another name: option(name=...)")
