"""Commands about data: look before you train, and describe your own files."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from srnet.cli.app import (
    JsonOption,
    app,
    data_options,
    options,
    out,
    pairs,
)

data_app = typer.Typer(help="Look at data before you train on them.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(data_app, name="data")
SHOWN = 10
"""Bad rows that are printed; --json has them all."""


@data_app.command()
@options(data=data_options)
def check(
    task: Annotated[
        str, typer.Argument(help="mnli, snli, qqp, fever, a task of the embedded benchmark, or a YAML file.")
    ],
    data: Any = None,
    as_json: JsonOption = False,
) -> None:
    """Rows, labels, duplicates, lengths, bad rows with their lines, and the fingerprint of a task's data.

    Exit code 1 if the data cannot be trained on as they are.
    """
    from srnet.tasks.check import check_data

    spec = data.task(task)
    found = check_data(spec)
    if as_json:
        out.print_json(json.dumps(asdict(found)))
    else:
        _print_check(found)
    if found.obstacle is not None:
        raise typer.Exit(1)


def _print_check(found: Any) -> None:
    table = Table(title=escape(f"{found.task}: data as the files have them"), title_justify="left")
    for name in ("split", "rows", "labels", "twice", "in train", "words", "end in . ! ?", "bad rows"):
        names = name in ("labels", "end in . ! ?")  # on a narrow screen they are wrapped, numbers never
        table.add_column(name, justify="left" if names or name == "split" else "right", no_wrap=not names)
    for split in found.splits:
        table.add_row(
            escape(f"{split.kind} {split.name}"),
            f"{split.rows:,}",
            escape("\n".join(f"{label}: {count:,}" for label, count in split.labels.items())),
            f"{split.repeated:,}",
            "" if split.name == "train" else f"{split.in_train:,} ({100 * split.in_train / split.rows:.1f} %)",
            "/".join(str(count) for count in split.words),
            escape("\n".join(f"{label}: {share:.0f} %" for label, share in split.final_sign.items())),
            f"{len(split.problems):,}",
        )
    out.print(table)
    out.print("in train: rows that are also trained on, compared without case, spaces and punctuation")
    out.print("words: the middle row/all but the longest twentieth/the longest; both texts together")
    for split in found.splits:
        _print_problems(split)
    unready = [f"{split.name}: {note}" for split in found.splits for note in split.notes]
    for note in found.notes or unready:
        out.print(note, markup=False)
    if found.obstacle is not None:
        out.print(f"not ready: {found.obstacle}", markup=False)
    else:
        out.print(f"fingerprint {found.fingerprint}", markup=False)


def _print_problems(split: Any) -> None:
    for problem in split.problems[:SHOWN]:
        out.print(f"{split.source}, line {problem.line}: {problem.what}", markup=False)
    if len(split.problems) > SHOWN:
        out.print(f"{split.source}: {len(split.problems) - SHOWN:,} more bad rows (--json lists them)", markup=False)


@data_app.command()
def describe(
    train: Annotated[Path, typer.Option(help="Training examples: csv, tsv, txt, jsonl (.gz) or parquet.")],
    dev: Annotated[Path, typer.Option(help="In-distribution examples that choose checkpoints.")],
    out_file: Annotated[Path, typer.Option("--out", help="The YAML file to write; its name is the task's.")],
    text_a: Annotated[str, typer.Option(help="Column of the first text.")] = "text_a",
    text_b: Annotated[str, typer.Option(help="Column of the second text; empty for single texts.")] = "text_b",
    label: Annotated[str, typer.Option(help="Column of the label.")] = "label",
    group: Annotated[str | None, typer.Option(help="Column of the sub-case; several with commas.")] = None,
    ood: Annotated[list[str] | None, typer.Option(help="NAME=FILE, an OOD test file. Repeatable.")] = None,
    ood_train: Annotated[Path | None, typer.Option(help="OOD training data, for upper bounds.")] = None,
    labels: Annotated[str | None, typer.Option(help="With commas. Default: those found in the training data.")] = None,
    metric: Annotated[str, typer.Option(help="accuracy or f1.")] = "accuracy",
    shortcut: Annotated[str, typer.Option(help="What you suspect: overlap, claim or unknown.")] = "overlap",
) -> None:
    """Describe your own files once; every command then takes the YAML file as --task."""
    from srnet.tasks.describe import describe_files

    columns = {"text_a": text_a, "text_b": text_b or None, "label": label}
    if group:
        columns["group"] = tuple(map(str.strip, group.split(","))) if "," in group else group  # type: ignore[assignment]
    named = tuple(name.strip() for name in labels.split(",")) if labels else None
    tests = pairs(ood, "--ood")
    written = describe_files(
        out_file, train, dev, tests, ood_train=ood_train, labels=named, metric=metric, shortcut=shortcut, **columns
    )
    from srnet.tasks.layout import label_counts

    counts = label_counts(str(train), label)
    shown = ", ".join(f"{name}: {count:,}" for name, count in sorted(counts.items()) if named is None or name in named)
    out.print(f"labels of the training file: {shown}", markup=False)
    out.print(f"{written}: now `srnet data check {shlex.quote(str(written))}`", markup=False)


@data_app.command()
@options(data=data_options)
def write(
    task: Annotated[str, typer.Argument(help="As in `srnet data check`.")],
    folder: Annotated[Path, typer.Option("--out", help="A new folder for the csv files.")],
    data: Any = None,
) -> None:
    """Write a task's examples as csv files, one a split: to read them, or to start from."""
    from srnet.tasks.writing import write_csv

    spec = data.task(task)
    for path in write_csv(spec.load(), folder):
        out.print(str(path), markup=False)
