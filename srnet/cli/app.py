"""The application, the parameters that several commands share, and the settings behind them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from srnet.cli.options import Choice, Fields, Instance
from srnet.errors import UserError
from srnet.names import EMBEDDED
from srnet.options import TEXT, option, repeated
from srnet.progress import is_secondary_rank

# transformers and torch take seconds to import, so commands import what they need when they run

app = typer.Typer(
    name="srnet",
    help="Find, train, check and deliver sparse and robust subnetworks inside pre-trained language models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
out = Console(highlight=False, soft_wrap=True, quiet=is_secondary_rank())


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
        from srnet.experiment import Engine, Store
        from srnet.progress import Reporter

        return Engine(Store(self.store), Reporter(self.quiet), self.report_to, self.engine, self.workers)


@dataclass(frozen=True)
class Subject:
    """What is trained, and on what."""

    task: str = "inference"
    """inference, paraphrase, verification (embedded); mnli, snli, qqp, fever; cola, mrpc, qnli, rte, sst2, stsb (the
    rest of GLUE); squad; or a YAML file of your own."""
    backbone: str = EMBEDDED
    """A folder, a hub name (set SRNET_DOWNLOAD=1 to fetch it), srnet-tiny or srnet-small."""
    words: str | None = option(None, name="--label-words")
    """Classify with the backbone's own masked-language-model head: one word a label, with commas, or 'task' for those
    that the task names. Default: a classifier."""

    def label_words(self, task: Any) -> tuple[str, ...]:
        from srnet.experiment import load_task

        if self.words != "task":
            return listed(self.words)
        words: tuple[str, ...] = load_task(task).label_words
        if not words:
            raise UserError(f"task '{task.name}' names no label words", "write them: --label-words Yes,No")
        return words


@dataclass(frozen=True)
class Distillation:
    """What a teacher adds to an objective."""

    teacher: str | None = None
    """Key of a CE model, for objective confreg and for --distil."""
    distil: float | None = None
    """Share of the loss that imitates --teacher, e.g. 0.5."""
    temperature: float | None = option(None, name="--distil-temperature")
    """Temperature of the distillation. Default 2."""


OnTask = Annotated[Any, Instance("Options", Subject, only=("task",))]
Data = Annotated[Any, Fields("Data", "srnet.recipes:DataOptions")]
Bias = Annotated[Any, Fields("Bias model", "srnet.experiment:BiasSpec")]
Training = Annotated[
    Any,
    Fields(
        "Training (defaults depend on task, backbone and pruner)",
        "srnet.training:TrainingSettings",
        show_defaults=False,
    ),
]
Objective = Annotated[Any, Choice("objective", "srnet.objectives:OBJECTIVES", "ce")]
Teacher = Annotated[Any, Fields("Objective", Distillation)]
Pruner = Annotated[Any, Choice("pruner", "srnet.pruners:PRUNERS", "mask")]
OneRun = Annotated[Any, Instance("Run", Run, only=("store", "report_to", "quiet"))]
Reading = Annotated[Any, Instance("Run", Run, only=("store", "quiet"))]

StoreOption = Annotated[Path | None, typer.Option("--store", help="Folder of results; also SRNET_STORE.")]
KeyOption = Annotated[bool, typer.Option("--key", help="Print nothing but the key, for scripts.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def task_of(name: str, data: dict[str, Any]) -> Any:
    """The task called `name`, with what was given about its data."""
    from srnet.recipes import DataOptions

    return DataOptions(**data).task(name)


def bias_of(given: dict[str, Any]) -> Any:
    """What was given about the bias model; None if nothing was."""
    from srnet.experiment import BiasSpec

    return BiasSpec(**given).resolved(Path()) if given else None


def changed(default: Any, **given: Any) -> Any:
    """The default settings with what was given."""
    if "steps" in given and "epochs" in given:
        raise UserError("--steps and --epochs exclude each other", "keep one of them")
    return replace(default, **({"steps": None} if "epochs" in given else {}), **given)


def listed(text: str | None) -> tuple[str, ...]:
    """What was written with commas."""
    return () if text is None else tuple(each.strip() for each in text.split(","))
