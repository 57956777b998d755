"""The commands that compare systems: `audit` and `page` two models, `verdict` any systems by their predictions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

import srnet
from srnet.cli.models import Bias, ShortRun, Subcases, task_spec
from srnet.cli.options import Command, Fields
from srnet.cli.program import Data, Given, Json, Run, app, out
from srnet.config.values import Share
from srnet.core.errors import shortened
from srnet.evaluation import KEEPS_ID

_PRINTED = 5
"""Disagreements that are printed; the page and the csv have the others."""
_CHARACTERS = 160
"""Characters of a text that are printed."""
First = Annotated[
    str, typer.Argument(metavar="A", help="A key of the store, a folder (subnetwork, checkpoint, ONNX) or a hub name.")
]
Second = Annotated[str | None, typer.Argument(metavar="B", help="The model to compare with A.")]
Task = Annotated[str | None, typer.Option(help="As in `srnet finetune`. Default: that of A, if A is a key.")]
Folder = Annotated[Path, typer.Option("--out", help="Folder for the page, the JSON and the csv.")]


@app.command("audit", cls=Command)
def _audit(
    *,
    a: First,
    b: Second = None,
    task: Task = None,
    folder: Folder = Path("srnet-audit"),
    options: Annotated[Given, Fields("Audit", "srnet.audit.options:AuditOptions")],
    bias: Bias,
    data: Data,
    run: ShortRun,
    json: Json = False,
) -> None:
    """Compare any two classifiers on a task, or look at one.

    Scores in and out of distribution with paired intervals, sub-cases, how the answers depend on the shortcut and on
    word overlap, loyalty of B to A, calibration, and the rows on which they disagree, worst first. Nothing needs to
    come from srnet: labels are matched by name. Writes audit.html (offline), audit.json and examples.csv to --out.
    """
    engine = Run(**run).start()
    found = srnet.audit_models(
        a,
        b,
        task=task_spec(task, data, engine),
        options=srnet.AuditOptions(**options),
        bias=srnet.BiasSpec(**bias) if bias else None,
        out=folder,
        engine=engine,
    )
    if json:
        out.print_json(data=found.to_json())
        return
    _print_audit(found)
    out.print(str(folder / "audit.html"))


def _print_audit(found: Any) -> None:
    from srnet.audit.tables import tables_of

    for line in (*found.lead, *found.conclusion):
        out.print(line)
    for letter, name in zip(found.letters, found.models, strict=True):
        out.print(f"{letter}: {name}")
    for note in found.label_notes:
        out.print(f"note: {note}")
    for each in tables_of(found):
        if not each.detail:
            out.print(each)
    _print_worst(found)
    for note in found.notes:
        if note not in found.label_notes:
            out.print(f"note: {note}")


def _print_worst(found: Any) -> None:
    from srnet.audit.rows import disagreements

    total = sum(found.disagreements.values())
    what = "disagreements" if len(found.models) > 1 else "errors"
    out.print(f"{total:,} {what}; the worst:" if total else f"no {what}")
    for each in islice(disagreements(found.splits), _PRINTED):
        split, classes = each.judged.split, each.judged.classes
        answers = ", ".join(
            f"{letter} {classes[model.answers[each.row]]} {100 * model.confidence[each.row]:.1f} %"
            for letter, model in zip(found.letters, each.judged.models, strict=True)
        )
        out.print(f"  {split.name} {split.ids[each.row]}: {classes[split.labels[each.row]]}; {answers}")
        for text in filter(None, (split.text_a[each.row], split.text_b[each.row])):
            out.print(f"    {shortened(text, _CHARACTERS)}", style="dim")


@app.command("page", cls=Command)
def _page(
    *,
    a: First,
    b: Annotated[str, typer.Argument(metavar="B", help="The model to compare with A.")],
    task: Task = None,
    options: Annotated[Given, Fields("Page", "srnet.page.options:PageOptions")],
    bias: Bias,
    data: Data,
    run: ShortRun,
) -> None:
    """Open a local page with two models side by side.

    Type a text or a pair of texts, or step through the rows on which the models disagree: the page shows both answers,
    what the shortcut alone would say, the words that the texts share or that a model does not know, and the nearest
    rows of the training data. Of language models: how each continues a text, which of two sentences each finds
    likelier, and the pairs on which they disagree; two decoders need no task. It listens on 127.0.0.1 and fetches
    nothing. Needs starlette and uvicorn. Ctrl-C ends it.
    """
    engine = Run(**run).start()
    srnet.open_page(
        a,
        b,
        task=task_spec(task, data, engine),
        options=srnet.PageOptions(**options),
        bias=srnet.BiasSpec(**bias) if bias else None,
        engine=engine,
        ready=lambda address: out.print(f"Page: {address} (Ctrl-C ends it)"),
    )
    out.print("closed")


@dataclass(frozen=True)
class _Question:
    """What is asked of predictions."""

    reference: str | None = None
    """The system that others are compared with, such as the full model. Default: the one called full or baseline."""
    id: str | None = None
    """The split in distribution. Default: the one called dev, validation or id."""
    ood: tuple[str, ...] = ()
    """The splits out of distribution, with commas; others are scored and not judged. Default: all but --id."""
    metric: str = "accuracy"
    """accuracy, f1, matthews, positive_f1; of numbers pearson, spearman."""
    keep_id: Share = KEEPS_ID
    """Share of the reference's ID score that a system must keep."""


@app.command("verdict", cls=Command)
def _verdict(
    *,
    tables: Annotated[list[str], typer.Argument(metavar="FILE...", help="csv, tsv, jsonl or parquet files.")],
    question: Annotated[Given, Fields("Options", _Question)],
    folder: Annotated[Path | None, typer.Option("--out", help="Folder for the page, Markdown and JSON.")] = None,
    subcases: Subcases = False,
    json: Json = False,
) -> None:
    """Judge any systems by their predictions: which keeps the ID score and beats the reference OOD?

    No model is needed. A row has system, seed, split, id, label, and prediction or a probability for each label in
    columns p:LABEL; group is optional. `srnet evaluate MODEL --predictions FILE` writes such files. Intervals come from
    seeds and examples, corrected for the number of systems; warnings say what is doubtful.
    """
    found = srnet.verdict(*tables, **question, out=folder)
    if json:
        out.print_json(data=found.to_json())
        return
    first, *details = found.tables
    narrow = replace(first, columns=first.columns[:-2], rows=[row[:-2] for row in first.rows])  # lines have the rest
    remarks = [f"warning: {each}" for each in found.warnings] + [f"note: {each}" for each in found.task.notes]
    page = [] if folder is None else [str(folder / "verdict.html")]
    for each in (*found.lines, narrow, *(details if subcases else []), *remarks, *page):
        out.print(each)
