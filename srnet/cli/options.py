"""Commands whose options are the fields of dataclasses. A dataclass is imported when its command is parsed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, replace
from functools import wraps
from itertools import pairwise
from pkgutil import resolve_name
from typing import Annotated, Any

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
    listing: Mapping[str, str] = field(default_factory=dict)
    """What there is to choose from, by name; the help shows the first lines."""
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
        cls: type = resolve_name(self.where) if isinstance(self.where, str) else self.where
        found = [each for each in options_of(cls) if self._includes(each.path[0])]
        shown = found if self.show_defaults else [replace(each, default=None) for each in found]
        return Group(self.heading, shown, lambda values: arguments(cls, values))

    def _includes(self, name: str) -> bool:
        return name not in self.without and (not self.only or name in self.only)


@dataclass(frozen=True)
class Choice:
    """A parameter that stands for `--WHAT NAME` and the fields of the entry that `registry` has under that name.

    An entry is a dataclass, and the parameter's value an instance of it. Or its attribute `loss` has the fields, and
    the value is the text that `entry.text` makes of them.
    """

    what: str
    registry: str
    default: str

    def group(self, args: list[str]) -> Group:
        entries = resolve_name(self.registry)
        classes = {name: getattr(entry, "loss", entry) for name, entry in entries.items()}
        named = value_in(args, f"--{self.what}")
        name = choose(self.what, named or self.default, entries)
        options = options_of(classes[name])
        about = f"One of: {', '.join(entries)}. `--{self.what} NAME --help` shows the options of one."

        def make(values: Values) -> Any:
            entry, given = entries[name], arguments(classes[name], values)
            return entry(**given) if isinstance(entry, type) else entry.text(given)

        def explain(option: str) -> None:
            owners = [each for each, cls in classes.items() if option in {own.name for own in options_of(cls)}]
            if owners and name not in owners:
                fix = f"give --{self.what} {' or '.join(owners)}"
                raise UserError(f"{self.what} '{name}' has no option {option}", fix)

        return Group(
            self.what.capitalize() + (f" {named}" if named and options else ""),
            [Option((), (f"--{self.what}",), TEXT, about, self.default), *options],
            make,
            listing={} if named else {each: inspect.getdoc(cls) or "" for each, cls in classes.items()},
            explain=explain,
        )


def value_in(args: list[str], option: str) -> str | None:
    """The value that `option` has on a command line which is not yet parsed."""
    found = [after for word, after in pairwise(args) if word == option]
    found += [word.partition("=")[2] for word in args if word.startswith(f"{option}=")]
    return found[-1] if found else None


# --- commands ------------------------------------------------------------------------------------------------------


class Command(TyperCommand):
    """A function as a command: `@app.command(cls=Command)`. All parameters of the function are keyword-only.

    Its options are made when it is parsed, and shown under headings.
    """

    def make_options(self, args: list[str]) -> None:
        function = inspect.unwrap(self.callback)  # type: ignore[arg-type]
        markers = [(each.name, marker) for each in parameters_of(function) if (marker := marker_of(each))]
        self.groups = {name: marker.group(args) for name, marker in markers}
        app = typer.Typer(add_completion=False)
        app.command()(expanded(function, self.groups))
        made = typer.main.get_command(app)
        self.params, self.callback = made.params, made.callback
        names = [name for each in self.params if each.param_type_name == "option" for name in each.opts]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise TypeError(f"two fields make the option {twice[0]}; give one of them another name: option(name=...)")

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        self.make_options(args)
        try:
            return super().parse_args(ctx, args)
        except typer.TyperException as error:
            for group in self.groups.values():
                group.explain(getattr(error, "option_name", ""))
            raise

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            default = "Arguments" if parameter.param_type_name == "argument" else "Options"
            heading = getattr(parameter, "rich_help_panel", None) or default
            sections.setdefault(heading, []).extend(filter(None, [parameter.get_help_record(ctx)]))
        for group in self.groups.values():
            if group.listing:
                rows = [(name, text.partition("\n")[0]) for name, text in group.listing.items()]
                sections[f"{group.heading}s"] = rows
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


def parameters_of(function: Callable[..., Any]) -> Iterable[inspect.Parameter]:
    return inspect.signature(function, eval_str=True).parameters.values()


def marker_of(parameter: inspect.Parameter) -> Fields | Choice | None:
    metadata = getattr(parameter.annotation, "__metadata__", ())
    return next((each for each in metadata if isinstance(each, Fields | Choice)), None)


def expanded(function: Callable[..., Any], groups: Mapping[str, Group]) -> Callable[..., None]:
    """The function with the options of each group as parameters instead of the group's one."""

    @wraps(function)
    def call(**given: Any) -> None:
        for name, group in groups.items():
            found = [(option, given.pop(_key(name, option))) for option in group.options]
            given[name] = group.make({option.path: option.read(value) for option, value in found if value is not None})
        function(**given)

    parameters: list[inspect.Parameter] = []
    for own in parameters_of(function):
        group = groups.get(own.name)
        parameters += [_parameter(own.name, each, group.heading) for each in group.options] if group else [own]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call


def _key(group: str, option: Option) -> str:
    return "__".join((group, *option.path))


def _parameter(group: str, option: Option, heading: str) -> inspect.Parameter:
    flag = option.kind is FLAG
    settings = typer.Option(
        f"{option.name}/{option.negation}" if flag and not option.alone else option.name,
        *option.names[1:],
        metavar=None if flag else option.kind.metavar,
        help=option.help + (f" [default: {option.shown_default}]" if option.shown_default else ""),
        rich_help_panel=option.heading or heading,
    )
    hint: Any = bool if flag else list[str] if option.kind.repeats else str
    return inspect.Parameter(
        _key(group, option),
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if option.default is MISSING else None,
        annotation=Annotated[hint | None, settings],
    )
