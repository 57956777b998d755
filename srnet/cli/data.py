"""Commands about data (check, describe, write) and about the store of results (ls, show, verify, gc)."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import srnet
from srnet.cli.options import Command, Fields
from srnet.cli.program import Data, Given, Json, StoreFolder, group, out, runnable
from srnet.config.fields import option
from srnet.config.values import NAMED_FILES
from srnet.core.errors import UserError
from srnet.core.tables import Table
from srnet.tasks.planted import CueAs

data_commands = group("data", "Look at data before you train on them.")
SHOWN = 10
"""Bad rows that are printed; --json has them all."""
LAYOUT = ("text", "text_a", "text_b", "label", "group", "labels", "answer", "metric", "columns", "dev_share")
"""Options that say how files are read."""
TASKS = "mnli, snli, qqp, fever, imdb, cola, sst2, mrpc, stsb, qnli, rte, squad"
NewFolder = Annotated[Path, typer.Option("--out", help="A new folder for the csv files.")]
TaskName = Annotated[
    str | None,
    typer.Argument(help=f"{TASKS}, a task of the embedded benchmark, or a YAML file. Your own files: --train instead."),
]


@data_commands.command("check", cls=Command)
def _check(*, task: TaskName = None, data: Data, json: Json = False) -> None:
    """Rows, labels or scores, duplicates, lengths, bad rows with their lines, and the fingerprint of a task's data.

    Exit code 1 if the data cannot be trained on as they are.
    """
    found = srnet.check_data(srnet.DataOptions(**data).task(task))
    if json:
        out.print_json(data=asdict(found))
    else:
        _print_check(found)
    if found.obstacle is not None:
        raise typer.Exit(1)


def _print_check(found: Any) -> None:
    rows = [
        (
            f"{split.kind} {split.name}",
            f"{split.rows:,}",
            f"{split.repeated:,}",
            "/".join(map(str, split.words)),
            f"{len(split.problems):,}",
        )
        for split in found.splits
    ]
    columns = ("split", "rows", "twice", "words", "bad rows")
    table = Table(columns, rows, f"{found.task}: data as the files have them")
    lines = ["words: median/p95/max of both texts together"]
    lines += [line for split in found.splits for line in _lines(split)]
    lines.append("in train: also trained on, compared without case, spaces and punctuation")
    for split in found.splits:
        lines += [f"{split.source}, line {problem.line}: {problem.what}" for problem in split.problems[:SHOWN]]
        if len(split.problems) > SHOWN:
            lines.append(f"{split.source}: {len(split.problems) - SHOWN:,} more bad rows (--json lists them)")
    lines += found.notes or [f"{split.name}: {note}" for split in found.splits for note in split.notes]
    lines.append(f"fingerprint {found.fingerprint}" if found.obstacle is None else f"not ready: {found.obstacle}")
    out.print(table, *lines, sep="\n")


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
    return [f"{split.name}, {what}  {text}" for what, text in (facts | {"end in . ! ?": ends}).items() if text]


@dataclass(frozen=True)
class _Files:
    """Files to describe besides the training and dev examples."""

    ood: tuple[tuple[str, str], ...] = option((), kind=NAMED_FILES)
    """An OOD test file; hard.csv alone is hard=hard.csv. Repeatable."""
    ood_train: Path | None = None
    """OOD training data, for upper bounds."""


@data_commands.command("describe", cls=Command)
def _describe(
    *,
    train: Annotated[Path, typer.Option(help="Training examples: csv, tsv, txt, jsonl (.gz) or parquet.")],
    dev: Annotated[Path | None, typer.Option(help="Examples that choose checkpoints; else a fifth of train.")] = None,
    out_file: Annotated[Path, typer.Option("--out", help="The YAML file to write; its name is the task's.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the YAML file if it exists.")] = False,
    files: Annotated[Given, Fields("Options", _Files)],
    layout: Annotated[Given, Fields("Columns and answers", "srnet.recipes.tasks:DataOptions", only=LAYOUT)],
    shortcut: Annotated[Given, Fields("Options", "srnet.tasks.files:FilesTask", only=("shortcut",))],
) -> None:
    """Describe your own files once; every command then takes the YAML file as --task.

    Columns that are not named are guessed, and the guess is printed.
    """
    given = {**files, **layout, **shortcut}
    written = srnet.describe_files(out_file, train, dev, force=force, say=out.print, **given)
    out.print(f"{written}: now", runnable(f"`srnet data check {shlex.quote(str(written))}`"))


@data_commands.command("write", cls=Command)
def _write(*, task: TaskName = None, folder: NewFolder, data: Data) -> None:
    """Write a task's examples as csv files, one per split: to read them, or to start from."""
    for path in srnet.write_csv(srnet.DataOptions(**data).task(task).load(), folder):
        out.print(str(path))


Strength = Annotated[
    float | None,
    typer.Option(help="How often the cue is right in train and dev. Default: 0.7; the same odds for more labels."),
]
Cue = Annotated[
    CueAs, typer.Option("--as", help="text: an opening word; column: the column 'cue' alone, which no model reads.")
]


@data_commands.command("plant", cls=Command)
def _plant(
    *, task: TaskName = None, strength: Strength = None, cue: Cue = "text", folder: NewFolder, data: Data
) -> None:
    """Write a copy of a task with a known shortcut: a positive control for a search on your data.

    An opening word, one for each label, is right with probability --strength in train and dev. In the OOD set anti it
    is always wrong, in neutral it says nothing; both have the same rows, which are not trained on. If a subnetwork does
    not lose this shortcut with your data, backbone and length of training, it would not lose yours.

    The table says what ideal classifiers score, by the accuracy that a debiased one would have. Choose a strength at
    which the debiased one keeps more than 95 % of the ID score, so that there is room for the cost of pruning. A task's
    YAML file plants the same with `plant: 0.7`, and other commands with --plant 0.7.
    """
    planted = srnet.plant(srnet.DataOptions(**data).task(task), folder, strength, cue)
    names = ("debiased, all splits", "CE, ID", "CE, anti", "CE, neutral", "ID kept", "gain on anti")
    rows = [[f"{each:.1f}" for each in (*one, one.kept, one.gain)] for one in planted.theory]
    title = f"Accuracies of ideal classifiers, strength {planted.task.strength:g}, in percent"
    out.print(Table(names, rows, title, texts=()), *map(str, planted.paths), sep="\n")
    out.print("now", runnable(f"`srnet find {shlex.quote(str(planted.paths[-1]))}`"))


# --- commands about the store of results ---

store_commands = group("store", "Look at, check and clean the store of results.")
Days = Annotated[float | None, typer.Option(help="Also remove artifacts older than this many days, and unused data.")]


def _opened(folder: Given) -> Any:
    return srnet.Store(folder.get("store")).require()


@store_commands.command("ls", cls=Command)
def _ls(*, folder: StoreFolder) -> None:
    """List what has been computed, oldest first."""
    store = _opened(folder)
    rows = [
        (each.key, each.type, runnable(each.label), f"{each.bytes / 1e6:.1f} MB", f"{each.seconds:.0f}", each.created)
        for each in store.entries()
    ]
    table = Table(("key", "type", "what", "size", "seconds", "made"), rows, texts=(0, 1, 2, 5))
    data = store.data.files()
    size = f"{sum(path.stat().st_size for path in data) / 1e6:.1f} MB"
    kept = [f"data of tasks in memory: {len(data)} files, {size}"] if data else []
    out.print(table, str(store.root), *kept, sep="\n")


@store_commands.command("show", cls=Command)
def _show(*, key: Annotated[str, typer.Argument(help="A key, or its beginning.")], folder: StoreFolder) -> None:
    """Print everything known about an artifact: its expression, files and checksums."""
    store = _opened(folder)
    out.print_json(data=store.manifest(store.find(key)))


@store_commands.command("verify", cls=Command)
def _verify(*, folder: StoreFolder) -> None:
    """Check every file against its checksum."""
    store = _opened(folder)
    problems, data = store.verify(), len(store.data.files())
    total = f"{len(store.keys())} artifacts" + (f" and {data} files of data" if data else "")
    for key, problem in problems.items():
        out.print(f"{key}: {problem}")
    if problems:
        fix = "artifacts are computed again when needed; data are written again by `srnet.task_from`"
        raise UserError(f"{len(problems)} damaged of {total}", fix)
    out.print(f"{total}, all whole")


@store_commands.command("gc", cls=Command)
def _gc(*, older_than: Days = None, folder: StoreFolder) -> None:
    """Remove leftovers of interrupted runs and damaged artifacts."""
    for path in _opened(folder).gc(older_than):
        out.print(f"removed {path}")
