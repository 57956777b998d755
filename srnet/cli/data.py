"""Commands about data: look before you train, and describe your own files."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from srnet.cli.app import Data, JsonOption, app, out, task_of
from srnet.cli.options import Fields, command

data_app = typer.Typer(help="Look at data before you train on them.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(data_app, name="data")
SHOWN = 10
"""Bad rows that are printed; --json has them all."""


@command(data_app)
def check(
    *,
    task: Annotated[
        str,
        typer.Argument(
            help="mnli, snli, qqp, fever, cola, sst2, mrpc, stsb, qnli, rte, squad, a task of the embedded "
            "benchmark, or a YAML file."
        ),
    ],
    data: Data,
    as_json: JsonOption = False,
) -> None:
    """Rows, labels or scores, duplicates, lengths, bad rows with their lines, and the fingerprint of a task's data.

    Exit code 1 if the data cannot be trained on as they are.
    """
    from srnet.tasks.check import check_data

    found = check_data(task_of(task, data))
    if as_json:
        out.print_json(json.dumps(asdict(found)))
    else:
        _print_check(found)
    if found.obstacle is not None:
        raise typer.Exit(1)


def _print_check(found: Any) -> None:
    table = Table(title=escape(f"{found.task}: data as the files have them"), title_justify="left")
    for name in ("split", "rows", "twice", "words", "bad rows"):
        table.add_column(name, justify="left" if name == "split" else "right", overflow="fold")
    for split in found.splits:
        words, bad = "/".join(map(str, split.words)), f"{len(split.problems):,}"
        table.add_row(escape(f"{split.kind} {split.name}"), f"{split.rows:,}", f"{split.repeated:,}", words, bad)
    out.print(table)
    out.print("words: the middle row/all but the longest twentieth/the longest; both texts together")
    for split in found.splits:
        for line in _lines(split):
            out.print(line, markup=False)
    out.print("in train: also trained on, compared without case, spaces and punctuation")
    for split in found.splits:
        _print_problems(split)
    unready = [f"{split.name}: {note}" for split in found.splits for note in split.notes]
    for note in found.notes or unready:
        out.print(note, markup=False)
    if found.obstacle is not None:
        out.print(f"not ready: {found.obstacle}", markup=False)
    else:
        out.print(f"fingerprint {found.fingerprint}", markup=False)


def _lines(split: Any) -> list[str]:
    """What has no place in a table of 80 columns."""

    def share(count: int) -> str:
        return f"{count:,} ({100 * count / split.rows:.1f} %)"

    labels = ", ".join(f"{label}: {share(count)}" for label, count in split.labels.items())
    scores = ", ".join(f"{name} {value:.2f}" for name, value in split.scores.items())
    shared = {"rows": split.in_train, "first texts": split.first_in_train, "second texts": split.second_in_train}
    in_train = ", ".join(f"{what}: {share(count)}" for what, count in shared.items())
    ends = ", ".join(f"{label}: {percent:.0f} %" for label, percent in split.final_sign.items())
    facts = {"labels": labels, "scores": scores, "in train": "" if split.name == "train" else in_train}
    return [f"{split.name}, {what}  {said}" for what, said in (facts | {"end in . ! ?": ends}).items() if said]


def _print_problems(split: Any) -> None:
    for problem in split.problems[:SHOWN]:
        out.print(f"{split.source}, line {problem.line}: {problem.what}", markup=False)
    if len(split.problems) > SHOWN:
        out.print(f"{split.source}: {len(split.problems) - SHOWN:,} more bad rows (--json lists them)", markup=False)


@dataclass(frozen=True)
class Files:
    """Files to describe besides the training and dev examples."""

    ood: tuple[tuple[str, str], ...] = ()
    """NAME=FILE, an OOD test file. Repeatable."""
    ood_train: Path | None = None
    """OOD training data, for upper bounds."""


LAYOUT = ("text_a", "text_b", "label", "group", "labels", "answer", "metric", "columns", "shortcut")


@command(data_app)
def describe(
    *,
    train: Annotated[Path, typer.Option(help="Training examples: csv, tsv, txt, jsonl (.gz) or parquet.")],
    dev: Annotated[Path, typer.Option(help="In-distribution examples that choose checkpoints.")],
    out_file: Annotated[Path, typer.Option("--out", help="The YAML file to write; its name is the task's.")],
    files: Annotated[Any, Fields("Options", Files)],
    layout: Annotated[Any, Fields("Columns and answers", "srnet.tasks.files:FilesTask", only=LAYOUT)],
) -> None:
    """Describe your own files once; every command then takes the YAML file as --task."""
    from srnet.tasks.answers import get_answer
    from srnet.tasks.describe import describe_files

    answer = get_answer(layout.get("answer", "class"))
    usual = {"metric": next(iter(answer.metrics))}
    single = {"text_b": None} if layout.get("text_b") == "" else {}
    written = describe_files(out_file, train, dev, **files, **{**usual, **layout, **single})
    if not answer.outputs:
        _print_labels(str(train), layout)
    out.print(f"{written}: now `srnet data check {shlex.quote(str(written))}`", markup=False)


def _print_labels(train: str, layout: dict[str, Any]) -> None:
    from srnet.tasks.layout import label_counts

    named = layout.get("labels")
    counts = label_counts(train, layout.get("label", "label"), columns=layout.get("columns", ()))
    shown = ", ".join(f"{name}: {count:,}" for name, count in sorted(counts.items()) if not named or name in named)
    out.print(f"labels of the training file: {shown}", markup=False)


@command(data_app)
def write(
    *,
    task: Annotated[str, typer.Argument(help="As in `srnet data check`.")],
    folder: Annotated[Path, typer.Option("--out", help="A new folder for the csv files.")],
    data: Data,
) -> None:
    """Write a task's examples as csv files, one a split: to read them, or to start from."""
    from srnet.tasks.writing import write_csv

    for path in write_csv(task_of(task, data).load(), folder):
        out.print(str(path), markup=False)
