"""Commands about the store of results."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.table import Table

from srnet.cli.app import StoreOption, app, out
from srnet.errors import UserError

store_app = typer.Typer(
    help="Look at, check and clean the store of results.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(store_app, name="store")


@store_app.command("ls")
def store_ls(store: StoreOption = None) -> None:
    """List what has been computed, oldest first."""
    from srnet.experiment import Store

    opened = Store(store).require()
    table = Table()
    table.add_column("key", no_wrap=True, min_width=16)
    for name in ("type", "what", "size", "seconds", "made"):
        table.add_column(name)
    for entry in opened.entries():
        size = f"{entry.bytes / 1e6:.1f} MB"
        table.add_row(entry.key, entry.type, entry.label, size, f"{entry.seconds:.0f}", entry.created)
    out.print(table)
    out.print(f"{opened.root}", markup=False)


@store_app.command("show")
def store_show(key: Annotated[str, typer.Argument(help="A key, or its beginning.")], store: StoreOption = None) -> None:
    """Print everything known about an artifact: its expression, files and checksums."""
    from srnet.experiment import Store

    opened = Store(store).require()
    out.print_json(json.dumps(opened.manifest(opened.find(key))))


@store_app.command("verify")
def store_verify(store: StoreOption = None) -> None:
    """Check every file against its checksum."""
    from srnet.experiment import Store

    opened = Store(store).require()
    problems = opened.verify()
    for key, problem in problems.items():
        out.print(f"{key}: {problem}", markup=False)
    if problems:
        raise UserError(
            f"{len(problems)} damaged of {len(opened.keys())} artifacts", "they are computed again when needed"
        )
    out.print(f"{len(opened.keys())} artifacts, all whole", markup=False)


@store_app.command("gc")
def store_gc(
    older_than: Annotated[float | None, typer.Option(help="Also remove artifacts older than this many days.")] = None,
    store: StoreOption = None,
) -> None:
    """Remove leftovers of interrupted runs and damaged artifacts."""
    from srnet.experiment import Store

    for path in Store(store).require().gc(older_than):
        out.print(f"removed {path}", markup=False)
