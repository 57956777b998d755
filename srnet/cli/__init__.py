"""The command line: parses, calls a function of `srnet.api`, prints."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from rich.console import Console

from srnet import __version__
from srnet.cli import data, exchange, models, recipes, speed, store  # noqa: F401  each adds its commands
from srnet.cli.app import app, out
from srnet.errors import LONGEST, UserError, shortened
from srnet.files import explained
from srnet.progress import helps

INTERRUPTED = 130


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        out.print(__version__)
        raise typer.Exit


def main() -> None:
    """Entry point: one line and exit code 2 for what a user can mend."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        code = app(standalone_mode=False) or 0
        if code == INTERRUPTED:
            _stopped()
        sys.exit(code)
    except UserError as error:
        _fail(str(error))
    except typer.TyperException as error:
        _usage(error)
    except OSError as error:
        known = explained(error, "the result")
        if known is None:
            raise
        _fail(str(known))
    except (KeyboardInterrupt, typer.Abort):
        _stopped()


def _stopped() -> None:
    Console(stderr=True).print("stopped; run the same command again to continue", markup=False)
    sys.exit(INTERRUPTED)


def _usage(error: Any) -> None:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError" and context is not None:
        out.print(context.get_help(), markup=False)
        sys.exit(2)
    _fail(error.format_message(), f"{context.command_path} --help" if context is not None else "srnet --help")


def _fail(message: str, help: str | None = None) -> None:
    text = shortened(" ".join(message.split()), 2 * LONGEST) + (f" (see `{help}`)" if help else "")
    Console(stderr=True, soft_wrap=True, highlight=False, quiet=helps()).print(f"srnet: {text}", markup=False)
    sys.exit(2)
