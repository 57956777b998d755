"""Commands about the store of results."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Column, Table

import srnet
from srnet.cli.app import Given, StoreFolder, app, out
from srnet.cli.options import Command
from srnet.cli.program import runnable
from srnet.errors import UserError

group = typer.Typer(help="Look at, check and clean the store of results.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(group, name="store")
Days = Annotated[float | None, typer.Option(help="Also remove artifacts older than this many days.")]


def _opened(folder: Given) -> Any:
    return srnet.Store(folder.get("store")).require()


@group.command(cls=Command)
def ls(*, folder: StoreFolder) -> None:
    """List what has been computed, oldest first."""
    store = _opened(folder)
    table = Table(Column("key", no_wrap=True, min_width=16), "type", "what", "size", "seconds", "made")
    for entry in store.entries():
        size = f"{entry.bytes / 1e6:.1f} MB"
        table.add_row(entry.key, entry.type, runnable(entry.label), size, f"{entry.seconds:.0f}", entry.created)
    out.print(table, str(store.root), sep="\n")


@group.command(cls=Command)
def show(*, key: Annotated[str, typer.Argument(help="A key, or its beginning.")], folder: StoreFolder) -> None:
    """Print everything known about an artifact: its expression, files and checksums."""
    store = _opened(folder)
    out.print_json(data=store.manifest(store.find(key)))


@group.command(cls=Command)
def verify(*, folder: StoreFolder) -> None:
    """Check every file against its checksum."""
    store = _opened(folder)
    problems, total = store.verify(), len(store.keys())
    for key, problem in problems.items():
        out.print(f"{key}: {problem}")
    if problems:
        raise UserError(f"{len(problems)} damaged of {total} artifacts", "they are computed again when needed")
    out.print(f"{total} artifacts, all whole")


@group.command(cls=Command)
def gc(*, older_than: Days = None, folder: StoreFolder) -> None:
    """Remove leftovers of interrupted runs and damaged artifacts."""
    for path in _opened(folder).gc(older_than):
        out.print(f"removed {path}")
