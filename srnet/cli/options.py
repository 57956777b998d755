"""Commands whose options are the fields of dataclasses. A dataclass is imported when its command is parsed."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, replace
from functools import partial, update_wrapper
from itertools import pairwise
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperCommand

from srnet.config.fields import Option, Values, arguments, options_of
from srnet.config.values import EMPTY_PATH, FLAG, TEXT
from srnet.core.errors import UserError, choose

HELP_ALL = "--help-all"
LINE = "srnet.line"
"""Where the context of a command has its line, as it was typed."""


@dataclass(frozen=True)
class _Group:
    """Options that make one parameter of a command."""

    heading: str
    options: list[Option]
    make: Callable[[Values], Any]
    entries: Mapping[str, Any] = field(default_factory=dict)
    """What there is to choose from, by name, for the help."""
    explain: Callable[[str], None] = lambda option: None
    """Called with the name of an option that the command does not have."""


@dataclass(frozen=True)
class Fields:
    """A parameter that stands for the fields of a dataclass. Its value is a dict of those that were given."""

    heading: str
    where: type | str
    """The dataclass, or where to import it from: "srnet.recipes.tasks:DataOptions"."""
    only: tuple[str, ...] = ()
    """These fields; none: all."""
    without: tuple[str, ...] = ()
    show_defaults: bool = True
    """False where a command has defaults of its own."""

    def group(self, args: list[str]) -> _Group:
        cls = resolve_name(self.where) if isinstance(self.where, str) else self.where
        names = set(self.only or (each.path[0] for each in options_of(cls))) - set(self.without)
        options = [each for each in options_of(cls) if each.path[0] in names]
        if not self.show_defaults:
            options = [replace(each, default=None) for each in options]
        return _Group(self.heading, options, partial(arguments, cls))


@dataclass(frozen=True)
class Choice:
    """A parameter that stands for `--WHAT NAME` and the fields of the entry that `registry` has under that name.

    An entry is a dataclass, and the parameter's value an instance of it. Or its attribute `loss` has the fields, and
    the value is the text that `entry.text` makes of them.
    """

    what: str
    registry: str
    default: str | None
    """None: nothing is chosen unless it is named, and the value is None."""

    def group(self, args: list[str]) -> _Group:
        entries = resolve_name(self.registry)
        classes = {name: getattr(entry, "loss", entry) for name, entry in entries.items()}
        named = _value_in(args, f"--{self.what}")
        base, _, option = (named or "").partition(":")
        if base in entries and option:  # as in a recipe: poe:strength=0.5
            fix = f"give --{self.what} {base} --{option.partition('=')[0].replace('_', '-')} VALUE"
            raise UserError(f"on the command line, options of {base} are options of their own", fix)
        name = choose(self.what, named or self.default or "", entries) if named or self.default else None
        options = options_of(classes[name]) if name else []
        heading = self.what.capitalize() + (f" {named}" if named and options else "")
        about = f"One of: {', '.join(entries)}. `--{self.what} NAME --help` shows the options of one."
        about += f" {name}: {_first_line(classes[name])}" if name and named else ""
        selector = Option((), (f"--{self.what}",), TEXT, about, self.default)

        def make(values: Values) -> Any:
            if name is None:
                return None
            entry, given = entries[name], arguments(classes[name], values)
            return entry(**given) if isinstance(entry, type) else entry.text(given)

        def explain(option: str) -> None:
            owners = [each for each, cls in classes.items() if option in {own.name for own in options_of(cls)}]
            if owners and name not in owners:
                fix = f"give --{self.what} {' or '.join(owners)}"
                wrong = f"{self.what} '{name}' has no option {option}" if name else f"{option} needs a {self.what}"
                raise UserError(wrong, fix)

        return _Group(heading, [selector, *options], make, {} if named else classes, explain)


def _first_line(entry: Any) -> str:
    return (inspect.getdoc(entry) or "").partition("\n")[0]


def _value_in(args: list[str], option: str) -> str | None:
    """The value that `option` has on a command line which is not yet parsed."""
    words = [part for word in args for part in word.split("=", 1)]
    found = [after for word, after in pairwise(words) if word == option]
    return found[-1] if found else None


class Command(TyperCommand):
    """A function with keyword-only parameters as a command: `@app.command(cls=Command)`.

    Its options are made when it is parsed, and shown under headings.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[LINE] = shlex.join(["srnet", *names_of(ctx), *args])
        function = inspect.unwrap(self.callback)  # type: ignore[arg-type]
        parameters = inspect.signature(function, eval_str=True).parameters.values()
        self.groups = {
            each.name: marker.group(args)
            for each in parameters
            for marker in getattr(each.annotation, "__metadata__", ())
            if isinstance(marker, Fields | Choice)
        }
        app = typer.Typer(add_completion=False)
        app.command()(_with_options(function, parameters, self.groups))
        self.params, self.callback = typer.main.get_command(app).params, function
        paths = {each.name for each in parameters if _is_path(each.annotation)}
        _refuse_empty([each.opts[0] for each in self.params if each.name in paths], args)
        names = [name for each in self.params if each.param_type_name == "option" for name in each.opts]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise TypeError(f"two fields make the option {twice[0]}; give one of them another name: option(name=...)")
        hidden = {_key(name, each) for name, group in self.groups.items() for each in group.options if each.expert}
        self.left_out = set() if HELP_ALL in args else hidden
        try:
            rest = super().parse_args(ctx, ["--help" if word == HELP_ALL else word for word in args])
        except typer.TyperException as error:
            for group in self.groups.values():
                group.explain(getattr(error, "option_name", ""))
            raise
        for name, group in self.groups.items():
            found = [(each, ctx.params.pop(_key(name, each))) for each in group.options]
            given = {each.path: each.read(value) for each, value in found if value not in (None, ())}
            ctx.params[name] = group.make(given)
        ctx.params |= {each.name: ctx for each in parameters if each.annotation is typer.Context}
        return rest

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in (each for each in self.get_params(ctx) if each.name not in self.left_out):
            default = "Arguments" if parameter.param_type_name == "argument" else "Options"
            heading = getattr(parameter, "rich_help_panel", None) or default
            sections.setdefault(heading, []).extend(filter(None, [parameter.get_help_record(ctx)]))
        for group in self.groups.values():
            for name, entry in group.entries.items():
                sections.setdefault(f"{group.heading}s", []).append((name, _first_line(entry)))
        if self.left_out:
            further = f"Show {len(self.left_out)} further options and exit."
            sections.setdefault("Options", []).append((HELP_ALL, further))
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


def names_of(ctx: Any) -> list[str]:
    """Of the command, and of the groups that it is in; the first context is the program's."""
    return [] if ctx is None or ctx.parent is None else [*names_of(ctx.parent), ctx.info_name]


def _is_path(annotation: Any) -> bool:
    """Whether it is Annotated[Path, ...] or Annotated[Path | None, ...]."""
    hint = next(iter(get_args(annotation)), None)
    return Path in (hint, *get_args(hint))


def _refuse_empty(paths: Iterable[str], args: list[str]) -> None:
    """Options with a path that are parameters of their own; `srnet.config.fields` reads the others."""
    for name in paths:
        if _value_in(args, name) == "":
            raise UserError(f"{name}: {EMPTY_PATH}")


def _with_options(
    function: Callable[..., Any], parameters: Iterable[inspect.Parameter], groups: Mapping[str, _Group]
) -> Callable[..., Any]:
    """The function with the options of each group as parameters instead of the group's one, for typer to read."""
    every: list[inspect.Parameter] = []
    for own in parameters:
        group = groups.get(own.name)
        every += [_parameter(_key(own.name, each), each, group.heading) for each in group.options] if group else [own]
    shown = update_wrapper(partial(function), function)
    shown.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    return shown


def _key(group: str, option: Option) -> str:
    return "__".join((group, *option.path))


def _parameter(key: str, option: Option, heading: str) -> inspect.Parameter:
    flag = option.kind is FLAG
    settings = typer.Option(
        f"{option.name}/{option.negation}" if flag and not option.alone else option.name,
        *option.names[1:],
        metavar=None if flag else option.kind.metavar,
        help=option.help + (f" [default: {option.shown_default}]" if option.shown_default else ""),
        rich_help_panel=option.heading or heading,
    )
    hint: Any = bool if flag else list[str] if option.kind.repeats else str
    default = inspect.Parameter.empty if option.default is MISSING else None
    kind, annotation = inspect.Parameter.KEYWORD_ONLY, Annotated[hint | None, settings]
    return inspect.Parameter(key, kind, default=default, annotation=annotation)
