"""The command that looks for shortcuts in data."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

import srnet
from srnet.cli.data import TaskName
from srnet.cli.options import Command
from srnet.cli.program import Data, Json, app, out, runnable
from srnet.core.errors import shortened

_CHARACTERS = 160
"""Characters of a text that are printed."""
Folder = Annotated[
    Path | None, typer.Option("--out", help="Folder for shortcuts.html and shortcuts.json. Default: none.")
]


@app.command("shortcuts", cls=Command)
def _shortcuts(*, task: TaskName = None, folder: Folder = None, data: Data, json: Json = False) -> None:
    """Which cheap features predict the label? In seconds, before any model is trained.

    Every kind of shortcut is fitted: word overlap, the words of a text alone, length, every column beside the texts.
    They are ranked by what a fit on 2,000 training rows explains of the labels of dev, because a shortcut is what is
    learned first. OOD sets are only scored. Prints what carries the first one, and rows that show it.
    """
    found = srnet.shortcuts(srnet.DataOptions(**data).task(task), out=folder)
    if json:
        out.print_json(data=found.to_json())
        return
    _print_survey(found)
    if folder is not None:
        out.print(str(folder / "shortcuts.html"))


def _print_survey(found: Any) -> None:
    from srnet.bias.survey_tables import tables_of

    out.print(found.sentence)
    for each in tables_of(found):
        if not each.detail:
            out.print(each)
    for each in found.examples:
        _print_row(each)
    for each in found.left_out:
        out.print(f"not measured: {each.name}: {each.why}")
    for note in found.notes:
        out.print(f"note: {note}")
    if found.best is not None:
        out.print(runnable(f"`srnet find ... --shortcut {shlex.quote(found.best)}` trains against it"))


def _print_row(row: Any) -> None:
    verdict = "right" if row.is_right else "misled"
    because = f", because of {', '.join(row.because)}" if row.because else ""
    out.print(f"{verdict}, {row.split} {row.id}: {row.label}; answer {row.answer} {row.probability:.1f} %{because}")
    for text in filter(None, (row.text_a, row.text_b)):
        out.print(f"    {shortened(text, _CHARACTERS)}", style="dim")
