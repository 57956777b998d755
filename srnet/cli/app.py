"""The application, the parameters that several commands share, and the settings behind them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

import srnet
from srnet.cli.options import Fields
from srnet.errors import UserError
from srnet.names import EMBEDDED
from srnet.options import TEXT, option, repeated
from srnet.progress import Reporter, helps

# transformers and torch take seconds to import, so commands use names like `srnet.Engine`, imported when first used

STYLE: dict[str, Any] = {"no_args_is_help": True, "rich_markup_mode": None}
app = typer.Typer(
    name="srnet",
    help="Find, train, check and deliver sparse and robust subnetworks inside pre-trained language models.",
    add_completion=False,
    pretty_exceptions_enable=False,
    **STYLE,
)
out = Console(highlight=False, markup=False, emoji=False, soft_wrap=True, quiet=helps())


def command_group(name: str, help: str) -> typer.Typer:
    """Commands that are called as `srnet NAME COMMAND`."""
    made = typer.Typer(help=help, **STYLE)
    app.add_typer(made, name=name)
    return made


@dataclass(frozen=True)
class Run:
    """How a command runs and where it keeps results."""

    engine: Literal["local", "pool", "ray"] = "local"
    """local (this process), pool (processes that share the cores) or ray."""
    workers: int | None = None
    """Trainings at once, for pool and ray. Default: one a core."""
    store: Path | None = None
    """Folder of results; also SRNET_STORE. Default: your cache folder."""
    report_to: tuple[str, ...] = option((), kind=repeated(TEXT))
    """Trackers for the trainings: tensorboard, wandb, ... Repeatable."""
    quiet: bool = option(False, short="-q", alone=True)
    """No progress."""

    def start(self) -> Any:
        return srnet.Engine(srnet.Store(self.store), Reporter(self.quiet), self.report_to, self.engine, self.workers)


@dataclass(frozen=True)
class Subject:
    """What is trained, and on what."""

    task: str = "inference"
    """inference, paraphrase, verification (embedded); mnli, snli, qqp, fever; cola, mrpc, qnli, rte, sst2, stsb (the
    rest of GLUE); squad; or a YAML file of your own."""
    backbone: str = EMBEDDED
    """A folder, a hub name (set SRNET_DOWNLOAD=1 to fetch it), srnet-tiny or srnet-small."""
    words: tuple[str, ...] = option((), name="--label-words")
    """Classify with the backbone's own masked-language-model head: one word a label, with commas, or 'task' for those
    that the task names. Default: a classifier."""


Given = dict[str, Any]
"""Fields that were given on the command line."""
Data = Annotated[Given, Fields("Data", "srnet.recipes:DataOptions")]
Model = Annotated[str, typer.Argument(help="A key of the store, or the folder of a saved subnetwork.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def task_of(name: str, data: Given) -> Any:
    """The task called `name`, with what was given about its data."""
    return srnet.DataOptions(**data).task(name)


def model_of(subject: Given, data: Given) -> Given:
    """Task, backbone and label words, as `srnet.finetune` and `srnet.Pretrained` take them."""
    from srnet.experiment import load_task

    chosen = Subject(**subject)
    task, words = task_of(chosen.task, data), chosen.words
    if words == ("task",):
        words = load_task(task).label_words
        if not words:
            raise UserError(f"task '{task.name}' names no label words", "write them: --label-words Yes,No")
    return {"task": task, "backbone": chosen.backbone, "words": words}


def resolve_bias(given: Given) -> Given:
    """With absolute paths in what was given about the bias model, if anything was."""
    return {**given, "bias": given["bias"].resolved(Path())} if "bias" in given else given
