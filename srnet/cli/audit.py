"""The command that compares any two classifiers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from srnet.cli.app import Bias, Data, JsonOption, Reading, app, bias_of, out, task_of
from srnet.cli.options import Instance, command

SHOWN = 5
"""Disagreements that are printed; the page and the csv have the others."""
TEXT = 160
"""Characters of a text that are printed."""


Model = typer.Argument(metavar="A", help="A key of the store, a folder (subnetwork, checkpoint, ONNX) or a hub name.")
Folder = typer.Option("--out", help="Folder for the page, the JSON and the csv.")


@command(app)
def audit(
    *,
    a: Annotated[
        str,
        typer.Argument(metavar="A", help="A key of the store, a folder (subnetwork, checkpoint, ONNX), a hub name."),
    ],
    b: Annotated[str | None, typer.Argument(metavar="B", help="The model to compare with A.")] = None,
    task: Annotated[str, typer.Option(help="The task: as in `srnet finetune`.")],
    folder: Annotated[Path, typer.Option("--out", help="Folder for the page, the JSON and the csv.")] = Path(
        "srnet-audit"
    ),
    options: Annotated[Any, Instance("Audit", "srnet.audit:AuditOptions")],
    bias: Bias,
    data: Data,
    run: Reading,
    as_json: JsonOption = False,
) -> None:
    """Compare any two classifiers on a task, or look at one.

    Scores in and out of distribution with paired intervals, sub-cases, how the answers depend on the shortcut and on
    word overlap, loyalty of B to A, calibration, and the rows on which they disagree, worst first. Nothing needs to
    come from srnet: labels are matched by name. Writes audit.html (offline), audit.json and examples.csv to --out.
    """
    from srnet import api

    found = api.audit_models(
        a, b, task=task_of(task, data), options=options, bias=bias_of(bias), out=folder, engine=run.start()
    )
    if as_json:
        out.print_json(json.dumps(found.to_json()))
        return
    _print_audit(found)
    out.print(f"{folder / 'audit.html'}", markup=False)


def _print_audit(found: Any) -> None:
    from srnet.audit import tables_of

    for letter, name in zip(found.letters, found.models, strict=True):
        out.print(f"{letter}: {name}", markup=False)
    for each in tables_of(found):
        if not each.detail:
            out.print(_table(each))
            if each.note:
                out.print(each.note, markup=False, style="dim")
    _print_worst(found)
    for note in found.notes:
        out.print(f"note: {note}", markup=False)


def _table(given: Any) -> Table:
    table = Table(title=escape(given.title), title_justify="left", box=SIMPLE_HEAD)
    for number, name in enumerate(given.columns):
        # wide enough for the longest number: a header may be folded, a number never
        width = max((len(part) for row in given.rows for part in row[number].split()), default=1)
        table.add_column(
            escape(name), justify="right" if number else "left", no_wrap=not number, min_width=width, overflow="fold"
        )
    for row in given.rows:
        table.add_row(*map(escape, row))
    return table


def _print_worst(found: Any) -> None:
    from itertools import islice

    from srnet.audit import disagreements

    total = sum(found.disagreements.values())
    what = "disagreements" if len(found.models) > 1 else "errors"
    out.print(f"{total:,} {what}; the worst:" if total else f"no {what}", markup=False)
    for each in islice(disagreements(found.splits), SHOWN):
        split, classes = each.judged.split, each.judged.classes
        answers = ", ".join(
            f"{letter} {classes[model.answers[each.row]]} {100 * model.confidence[each.row]:.1f} %"
            for letter, model in zip(found.letters, each.judged.models, strict=True)
        )
        out.print(f"  {split.name} {split.ids[each.row]}: {classes[split.labels[each.row]]}; {answers}", markup=False)
        for text in filter(None, (split.text_a[each.row], split.text_b[each.row])):
            out.print(f"    {_printable(text)}", markup=False, style="dim")


def _printable(text: str) -> str:
    from srnet.errors import shortened

    return shortened(text, TEXT)
