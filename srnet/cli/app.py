"""The application, the options that several commands share, and what they print."""

from __future__ import annotations

import inspect
from collections.abc import Callable
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
    typer.Option(
        "--task",
        help="inference, paraphrase, verification (embedded); mnli, snli, qqp, fever; cola, mrpc, qnli, rte, sst2, "
        "stsb (the rest of GLUE); squad; or a YAML file of your own.",
    ),
]
DataOption = Annotated[
    str | None,
    typer.Option("--data", help="Folder with the files of a published task: mnli, ..., squad. Default: the Hub."),
]
OodOption = Annotated[
    list[str] | None,
    typer.Option("--ood", help="NAME=FILE, an OOD test file for such a task, e.g. hans=FILE. Repeatable."),
]
OodTrainOption = Annotated[
    list[str] | None,
    typer.Option("--ood-train", help="NAME=FILE, OOD training data for the upper bounds. Repeatable."),
]
RowsOption = Annotated[
    str | None, typer.Option("--rows", help="At most so many rows of a split: train=50000,dev=3000.")
]
LeaksOption = Annotated[
    str | None,
    typer.Option("--leaks", help="Test rows also in train: check (default, an error beyond 1 %), drop or keep."),
]
BadRowsOption = Annotated[
    str | None, typer.Option("--bad-rows", help="Rows that cannot be read: refuse (default), or skip and count.")
]
DecisionOption = Annotated[
    str | None,
    typer.Option("--decision", help="Three-way answers on a two-way set such as HANS: argmax (default) or sum."),
]
ShortcutOption = Annotated[
    str | None,
    typer.Option(
        "--shortcut",
        help="What the bias model reads: overlap, claim, or unknown (a weak model). Default: what the task suspects.",
    ),
]
VectorsOption = Annotated[
    str | None,
    typer.Option(
        "--vectors",
        help="Word vectors: .vec, .txt, .bin (.gz), .npz, VECTORS.npy,WORDS, or a backbone. Default: words alone.",
    ),
]
WeakExamplesOption = Annotated[
    int | None, typer.Option("--weak-examples", help="shortcut unknown: examples for each weak model. Default 2000.")
]
WeakBackboneOption = Annotated[
    str | None, typer.Option("--weak-backbone", help="shortcut unknown: a smaller backbone for the weak models.")
]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of head, batches and dropout.")]
StepsOption = Annotated[int | None, typer.Option("--steps", help="Optimisation steps.")]
EpochsOption = Annotated[float | None, typer.Option("--epochs", help="Passes over the data, instead of --steps.")]
RateOption = Annotated[float | None, typer.Option("--learning-rate", help="Peak learning rate.")]
ScoreRateOption = Annotated[
    float | None, typer.Option("--score-rate", help="Peak learning rate of mask scores, where weights have another.")
]
BatchOption = Annotated[int | None, typer.Option("--batch-size", help="Examples in a batch.")]
EvalOption = Annotated[int | None, typer.Option("--eval-every", help="Steps between evaluations and checkpoints.")]
LengthOption = Annotated[
    int | None, typer.Option("--max-length", help="Tokens at which texts are cut. Default 128; squad 384, in windows.")
]
PrecisionOption = Annotated[
    str | None, typer.Option("--precision", help="float32 (default), or bf16 where the machine has it.")
]
CompileOption = Annotated[
    bool | None,
    typer.Option("--compile/--no-compile", help="torch.compile, where there is a compiler.", show_default=False),
]
SelectionOption = Annotated[
    str | None,
    typer.Option(
        "--selection",
        help="Checkpoints of a training with a debiasing objective: late (default, the last 30 % of the run) or "
        "published (any of a full model).",
    ),
]
BackboneOption = Annotated[
    str,
    typer.Option("--backbone", help=f"A folder, a hub name (set {DOWNLOAD_VARIABLE}=1 to fetch it), or {EMBEDDED}."),
]
TeacherOption = Annotated[
    str | None, typer.Option("--teacher", help="Key of a CE model, for objective confreg and for --distil.")
]
DistilOption = Annotated[
    float | None, typer.Option("--distil", help="Share of the loss that imitates --teacher, e.g. 0.5.")
]
DistilTemperatureOption = Annotated[
    float | None, typer.Option("--distil-temperature", help="Temperature of the distillation. Default 2.")
]
WordsOption = Annotated[
    str | None,
    typer.Option(
        "--label-words",
        help="Classify with the backbone's own masked-language-model head: one word a label, with commas, or "
        "'task' for those that the task names. Default: a classifier.",
    ),
]
EngineOption = Annotated[
    str, typer.Option("--engine", help="local (this process), pool (processes that share the cores) or ray.")
]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", help="Trainings at once, for pool and ray. Default: one a core.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would be computed and how long, and stop.")]
KeyOption = Annotated[bool, typer.Option("--key", help="Print nothing but the key, for scripts.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def make_engine(
    store: Path | None, quiet: bool, report_to: list[str] | None = None, name: str = "local", workers: int | None = None
) -> Any:
    from srnet.experiment import Engine, Store
    from srnet.progress import Reporter

    return Engine(Store(store), Reporter(quiet), tuple(report_to or ()), name, workers)


def data_options(
    data: DataOption = None,
    ood: OodOption = None,
    ood_train: OodTrainOption = None,
    rows: RowsOption = None,
    leaks: LeaksOption = None,
    bad_rows: BadRowsOption = None,
    decision: DecisionOption = None,
) -> Any:
    from srnet.recipes import DataOptions

    counts = pairs(rows.split(","), "--rows") if rows else ()
    for name, count in counts:
        if not (count.isascii() and count.isdigit()):
            raise UserError(f"--rows: '{name}={count}' has no whole number", "write e.g. train=50000,dev=3000")
    return DataOptions(
        data=data,
        ood=pairs(ood, "--ood"),
        ood_train=pairs(ood_train, "--ood-train"),
        rows=tuple((name, int(count)) for name, count in counts),
        leaks=leaks,
        bad_rows=bad_rows,
        decision=decision,
    )


def pairs(given: list[str] | None, option: str) -> tuple[tuple[str, str], ...]:
    found = tuple(_pair(each, option) for each in given or ())
    names = [name for name, _ in found]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UserError(f"{option}: '{twice[0]}' is given twice", "keep one of them")
    return found


def _pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        example = "dev=3000" if option == "--rows" else "hans=FILE"
        raise UserError(f"{option}: '{text}' is not NAME=VALUE", f"write e.g. {option} {example}")
    return name, value


def bias_options(
    shortcut: ShortcutOption = None,
    vectors: VectorsOption = None,
    weak_examples: WeakExamplesOption = None,
    weak_backbone: WeakBackboneOption = None,
) -> Any:
    """What was said about the bias model; None if nothing was."""
    from srnet.experiment import BiasSpec

    given = {"shortcut": shortcut, "vectors": vectors, "examples": weak_examples, "backbone": weak_backbone}
    chosen = {name: value for name, value in given.items() if value is not None}
    return BiasSpec(**chosen).moved(Path()) if chosen else None  # type: ignore[arg-type]


def changed(default: Any, **given: Any) -> Any:
    """The default settings with what the user gave."""
    chosen = {name: value for name, value in given.items() if value is not None}
    if "epochs" in chosen:
        if "steps" in chosen:
            raise UserError("--steps and --epochs exclude each other", "keep one of them")
        chosen["steps"] = None
    return replace(default, **chosen)


def listed(text: str | None) -> tuple[str, ...]:
    """What was written with commas."""
    return () if text is None else tuple(each.strip() for each in text.split(","))


def label_words(text: str | None, task: Any) -> tuple[str, ...]:
    """The words that stand for the labels, as the user wrote them or as the task names them."""
    from srnet.experiment import load_task

    if text != "task":
        return listed(text)
    words: tuple[str, ...] = load_task(task).label_words
    if not words:
        raise UserError(f"task '{task.name}' names no label words", "write them: --label-words Yes,No")
    return words


def numbers(text: str, option: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"{option}: '{text}' is not a list of numbers", "write e.g. 0.5,0.7") from None


def training_options(
    steps: StepsOption = None,
    epochs: EpochsOption = None,
    learning_rate: RateOption = None,
    score_rate: ScoreRateOption = None,
    batch_size: BatchOption = None,
    eval_every: EvalOption = None,
    max_length: LengthOption = None,
    precision: PrecisionOption = None,
    compile: CompileOption = None,
    selection: SelectionOption = None,
) -> dict[str, Any]:
    """What was said about the training."""
    given = {
        "steps": steps, "epochs": epochs, "learning_rate": learning_rate, "score_rate": score_rate,
        "batch_size": batch_size, "eval_every": eval_every, "max_length": max_length, "precision": precision,
        "compile": compile, "selection": selection,
    }  # fmt: skip
    return {name: value for name, value in given.items() if value is not None}


def options(**makers: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a command's parameter stand for several options: those of the function that makes its value of them."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True)
        theirs = {name: inspect.signature(maker, eval_str=True).parameters for name, maker in makers.items()}
        parameters = [each for p in own.parameters.values() for each in theirs.get(p.name, {p.name: p}).values()]

        def typed(**given: Any) -> None:
            made = {n: maker(**{each: given.pop(each) for each in theirs[n]}) for n, maker in makers.items()}
            command(**given, **made)

        typed.__name__, typed.__doc__ = command.__name__, command.__doc__
        typed.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        typed.__annotations__ = {p.name: p.annotation for p in parameters}
        return typed

    return decorate
