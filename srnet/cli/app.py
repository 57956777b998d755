"""The application, the options that several commands share, and what they print."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from srnet.errors import UserError
from srnet.names import DOWNLOAD_VARIABLE, EMBEDDED
from srnet.progress import helps

# transformers and torch take seconds to import, so commands import what they need when they run

app = typer.Typer(
    name="srnet",
    help="Find, train, check and deliver sparse and robust subnetworks inside pre-trained language models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
out = Console(highlight=False, soft_wrap=True, quiet=helps())

StoreOption = Annotated[
    Path | None, typer.Option("--store", help="Folder of results; also SRNET_STORE. Default: your cache folder.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
ReportOption = Annotated[
    list[str] | None,
    typer.Option("--report-to", help="Trackers for the trainings: tensorboard, wandb, ... Repeatable."),
]
TaskOption = Annotated[
    str,
    typer.Option("--task", help="inference, paraphrase, verification, or a YAML file that describes your own data."),
]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of head, batches and dropout.")]
StepsOption = Annotated[int | None, typer.Option("--steps", help="Optimisation steps.")]
EpochsOption = Annotated[float | None, typer.Option("--epochs", help="Passes over the data, instead of --steps.")]
RateOption = Annotated[float | None, typer.Option("--learning-rate", help="Peak learning rate.")]
BatchOption = Annotated[int | None, typer.Option("--batch-size", help="Examples in a batch.")]
EvalOption = Annotated[int | None, typer.Option("--eval-every", help="Steps between evaluations and checkpoints.")]
BackboneOption = Annotated[
    str,
    typer.Option("--backbone", help=f"A folder, a hub name (set {DOWNLOAD_VARIABLE}=1 to fetch it), or {EMBEDDED}."),
]
TeacherOption = Annotated[str | None, typer.Option("--teacher", help="Key of a CE model, for objective confreg.")]
EngineOption = Annotated[
    str, typer.Option("--engine", help="local (this process), pool (processes that share the cores) or ray.")
]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", help="Trainings at once, for pool and ray. Default: one a core.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would be computed and how long, and stop.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def make_engine(
    store: Path | None, quiet: bool, report_to: list[str] | None = None, name: str = "local", workers: int | None = None
) -> Any:
    from srnet.experiment import Engine, Store
    from srnet.progress import Reporter

    return Engine(Store(store), Reporter(quiet), tuple(report_to or ()), name, workers)


def task_of(text: str) -> Any:
    from srnet.recipes.spec import load_task_file, task_from

    return load_task_file(Path(text)) if text.endswith((".yaml", ".yml")) else task_from(text, "--task")


def changed(default: Any, **given: Any) -> Any:
    """The default settings with what the user gave."""
    chosen = {name: value for name, value in given.items() if value is not None}
    if "epochs" in chosen:
        if "steps" in chosen:
            raise UserError("--steps and --epochs exclude each other", "keep one of them")
        chosen["steps"] = None
    return replace(default, **chosen)


def numbers(text: str, option: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"{option}: '{text}' is not a list of numbers", "write e.g. 0.5,0.7") from None
