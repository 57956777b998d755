"""The application: its entry point, the parameters that several commands share, and how the user starts the program."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer
from typer.core import TyperGroup

import srnet
from srnet.cli.options import Fields, names_of
from srnet.config.fields import option
from srnet.config.values import REPEATED, Count
from srnet.core.errors import LONGEST, UserError, shortened
from srnet.core.files import writing
from srnet.core.progress import Reporter, Terminal, is_secondary_rank

_COMMAND = re.compile(r"(?:^|(?<=`))srnet (?=[a-z-])")


def runnable(text: str) -> str:
    """`text` with its commands as they work in the user's shell: one at its beginning, and those in backticks.

    Only what is printed: a stored file is for other people and machines, and has plain `srnet ...`.
    """
    return _COMMAND.sub(lambda _: f"{program()} ", text)


def program() -> str:
    """`srnet`, `.venv/bin/srnet` where PATH does not have it, or `python -m srnet`: as this process was started."""
    started = Path(sys.argv[0])
    if started.absolute() == Path(srnet.__file__).absolute().with_name("__main__.py"):
        return f"{_typed(Path(sys.executable))} -m srnet"
    return _typed(started) if started.is_file() and started.stem == "srnet" else "srnet"


def _typed(path: Path) -> str:
    """The name if PATH leads to this very file, else the absolute or the relative path, whichever is shorter.

    Links are not followed: in a virtual environment `python` is a link to one that has no srnet.
    """
    found = shutil.which(path.name)
    if found is not None and Path(found).absolute() == path.absolute():
        return shlex.quote(path.name)
    paths = [str(path.absolute())]
    with contextlib.suppress(ValueError):  # another drive
        below = os.path.relpath(path)
        paths.append(below if os.sep in below else os.path.join(os.curdir, below))
    return shlex.quote(min(paths, key=len))


# --- the application ---

INTERRUPTED = 130
# transformers and torch take seconds to import, so commands use names like `srnet.Engine`, imported when first used

COMMANDS = {
    "Start": ("demo", "shortcuts", "find", "audit", "page", "verdict"),
    "Build": ("data", "bias", "finetune", "prune", "evaluate", "store"),
    "Deploy": ("export", "speed", "import"),
    "Paper": ("reproduce", "claims", "run", "pretrain"),
}
"""The commands in the order of `srnet --help`, by heading."""


class _CommandGroup(TyperGroup):
    """The commands under headings, each with the whole first line of its help."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        headings = COMMANDS if ctx.parent is None else {"Commands": tuple(self.commands)}
        for heading, names in headings.items():
            with formatter.section(heading):
                formatter.write_dl([(name, (self.commands[name].help or "").partition("\n")[0]) for name in names])


app = typer.Typer(
    name="srnet",
    cls=_CommandGroup,
    help="Find, train, check and deliver sparse and robust subnetworks inside pre-trained language models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def group(name: str, help: str) -> typer.Typer:
    """A group of commands: `srnet NAME COMMAND`."""
    made = typer.Typer(cls=_CommandGroup, help=help, no_args_is_help=True, rich_markup_mode=None)
    app.add_typer(made, name=name)
    return made


out = Terminal(soft_wrap=True, quiet=is_secondary_rank())


@dataclass(frozen=True)
class Run:
    """How a command runs and where it keeps results."""

    engine: Literal["local", "pool", "ray"] = "local"
    """local (this process), pool (processes that share the cores) or ray. Default: local; pool for the demo."""
    workers: Count | None = None
    """Trainings at once, for pool and ray. Default: one per GPU, which is the most, or per core without GPUs."""
    device: str = "auto"
    """Where models run: cpu, cuda (with pool and ray: all GPUs), or cuda:1 for the second one. auto: GPUs if there are
    any, unless ACCELERATE_USE_CPU=1. CUDA_VISIBLE_DEVICES limits them."""
    store: Path | None = None
    """Folder of results; also SRNET_STORE. Default: your cache folder."""
    report_to: tuple[str, ...] = option((), kind=REPEATED)
    """Trackers for the trainings: tensorboard, wandb, ... Repeatable."""
    quiet: bool = option(False, short="-q", alone=True)
    """No progress."""

    def start(self) -> Any:
        srnet.use_device(self.device, elsewhere=self.engine == "ray" and bool(os.environ.get("RAY_ADDRESS")))
        return srnet.Engine(srnet.Store(self.store), Reporter(self.quiet), self.report_to, self.engine, self.workers)


Given = dict[str, Any]
"""Fields that were given on the command line."""
Data = Annotated[Given, Fields("Data", "srnet.recipes.tasks:DataOptions")]
StoreFolder = Annotated[Given, Fields("Options", Run, only=("store",))]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        out.print(srnet.__version__)
        raise typer.Exit


def main() -> None:
    """Entry point: a user's mistake is answered with one line and exit code 2."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name that the terminal cannot show must not lose a result
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        _require_unicode(sys.argv)
        with writing("the result"):
            code = app(standalone_mode=False) or 0
    except UserError as error:
        _fail(str(error))
    except typer.TyperException as error:
        _fail_usage(error)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    if code == INTERRUPTED:
        Terminal(stderr=True).print("stopped; run the same command again to continue")
    sys.exit(code)


def _require_unicode(words: list[str]) -> None:
    """Refuse bytes that are no text: some of the libraries that open files take only names that are."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UserError(f"'{word}' is not valid Unicode", "give the file or the folder another name") from None


def _fail_usage(error: Any) -> NoReturn:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError" and context is not None:
        out.print(context.get_help())
        sys.exit(2)
    _fail(error.format_message(), " ".join(["srnet", *names_of(context), "--help"]))


def _fail(message: str, help: str | None = None) -> NoReturn:
    text = runnable(shortened(" ".join(message.split()), 2 * LONGEST) + (f" (see `{help}`)" if help else ""))
    Terminal(stderr=True, soft_wrap=True, quiet=is_secondary_rank()).print(f"srnet: {text}")
    sys.exit(2)
