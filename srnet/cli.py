"""The command line: parses, calls a function of `srnet.api`, prints."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from srnet import __version__
from srnet.errors import UserError
from srnet.files import explained
from srnet.names import DOWNLOAD_VARIABLE, EMBEDDED

# transformers and torch take seconds to import, so commands import what they need when they run

app = typer.Typer(
    name="srnet",
    help="Find, train, check and deliver sparse and robust subnetworks inside pre-trained language models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
store_app = typer.Typer(
    help="Look at, check and clean the store of results.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(store_app, name="store")
out = Console(highlight=False, soft_wrap=True)
INTERRUPTED = 130


class TaskName(StrEnum):
    inference = "inference"
    paraphrase = "paraphrase"
    verification = "verification"


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
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def _engine(store: Path | None, quiet: bool, report_to: list[str] | None = None) -> Any:
    from srnet.experiment import Engine, Store
    from srnet.progress import Reporter

    return Engine(Store(store), Reporter(quiet), tuple(report_to or ()))


def _task(text: str) -> Any:
    from srnet.recipes.spec import load_task_file, task_from

    return load_task_file(Path(text)) if text.endswith((".yaml", ".yml")) else task_from(text, "--task")


def _training(default: Any, **given: Any) -> Any:
    changed = {name: value for name, value in given.items() if value is not None}
    if "epochs" in changed:
        if "steps" in changed:
            raise UserError("--steps and --epochs exclude each other", "keep one of them")
        changed["steps"] = None
    return replace(default, **changed)


def _print_results(results: Any, folder: Path) -> None:
    from srnet.report import results_table, verdict_line

    out.print(results_table(results))
    out.print(verdict_line(results), markup=False)
    out.print(f"Report: {folder / 'report.html'}", markup=False)


def _print_trained(trained: Any, as_json: bool, metrics: tuple[str, ...] = ("accuracy", "f1")) -> None:
    if as_json:
        facts = {
            "key": trained.key,
            "folder": str(trained.folder),
            "sparsity": trained.sparsity,
            "scores": trained.scores,
        }
        out.print_json(json.dumps(facts))
        return
    table = Table()
    for name in ("split", "kind", *metrics, *(f"majority {m}" for m in metrics)):
        table.add_column(name, justify="left" if name in ("split", "kind") else "right")
    for split, report in trained.scores.items():
        figures = [*(report["metrics"][m] for m in metrics), *(report["majority"][m] for m in metrics)]
        table.add_row(split, report["kind"], *(f"{figure:.1f}" for figure in figures))
    out.print(table)
    if trained.sparsity:
        out.print(f"sparsity {trained.sparsity:.6f}, counted on the mask", markup=False)
    out.print(f"key {trained.key}" if trained.key else f"folder {trained.folder}", markup=False)


@app.command()
def demo(
    out_folder: Annotated[Path, typer.Option("--out", help="Where table, curves and report go.")] = Path("srnet-demo"),
    task: Annotated[TaskName, typer.Option(help="Which task of the embedded benchmark.")] = TaskName.inference,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 1,
    sparsities: Annotated[str, typer.Option(help="Shares to prune, with commas.")] = "0.5,0.7,0.9",
    bias: Annotated[float | None, typer.Option(help="Share of training examples that the shortcut gets right.")] = None,
    train_size: Annotated[int | None, typer.Option(help="Training examples.")] = None,
    steps: StepsOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be computed, and stop.")] = False,
    store: StoreOption = None,
    report_to: ReportOption = None,
    quiet: QuietOption = False,
) -> None:
    """Find a sparse and robust subnetwork on the embedded benchmark: no network, no GPU, some minutes.

    The full model is fine-tuned on data with a shortcut and falls for it. Pruning it with a debiasing objective finds a
    subnetwork that does not. Run it again and it continues where it was.
    """
    from srnet.api import run_recipe
    from srnet.recipes import demo_recipe
    from srnet.tasks.synthetic import SyntheticTask

    dials = {"bias": bias, "train_size": train_size}
    spec = SyntheticTask(task.value, **{name: value for name, value in dials.items() if value is not None})  # type: ignore[arg-type]
    recipe = demo_recipe(spec, seeds, _floats(sparsities, "--sparsities"), steps)
    engine = _engine(store, quiet, report_to)
    if dry_run:
        _print_plan(engine, recipe)
        return
    _print_results(run_recipe(recipe, out_folder, engine), out_folder)


@app.command()
def run(
    spec: Annotated[Path, typer.Argument(help="A YAML file with task, lines, seeds and settings.")],
    out_folder: Annotated[Path | None, typer.Option("--out", help="Default: srnet-NAME in this folder.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be computed, and stop.")] = False,
    store: StoreOption = None,
    report_to: ReportOption = None,
    quiet: QuietOption = False,
) -> None:
    """Run your own recipe: which models, at which sparsities, with which seeds, on which data."""
    from srnet.api import run_recipe
    from srnet.recipes import load_recipe

    recipe = load_recipe(spec)
    engine = _engine(store, quiet, report_to)
    if dry_run:
        _print_plan(engine, recipe)
        return
    folder = out_folder or Path(f"srnet-{recipe.name}")
    _print_results(run_recipe(recipe, folder, engine), folder)


def _print_plan(engine: Any, recipe: Any) -> None:
    from srnet.experiment.nodes import is_training
    from srnet.report import nodes_of

    missing = engine.plan(nodes_of(recipe))
    for node in missing:
        out.print(f"{node.key}  {node.label}", markup=False)
    trainings = sum(is_training(node) for node in missing)
    out.print(f"{len(missing)} steps to compute, {trainings} of them trainings; nothing was done", markup=False)


def _floats(text: str, option: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"{option}: '{text}' is not a list of numbers", "write e.g. 0.5,0.7") from None


@app.command()
def finetune(
    task: TaskOption = "inference",
    objective: Annotated[str, typer.Option(help="ce, poe, reweight or confreg.")] = "ce",
    backbone: BackboneOption = EMBEDDED,
    seed: SeedOption = 0,
    steps: StepsOption = None,
    epochs: EpochsOption = None,
    learning_rate: RateOption = None,
    batch_size: BatchOption = None,
    eval_every: EvalOption = None,
    teacher: TeacherOption = None,
    store: StoreOption = None,
    report_to: ReportOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fine-tune a backbone on a task and print its key and scores."""
    from srnet import api
    from srnet.recipes.toy import finetuning_for

    training = _training(
        finetuning_for(backbone), seed=seed, steps=steps, epochs=epochs, learning_rate=learning_rate,
        batch_size=batch_size, eval_every=eval_every,
    )  # fmt: skip
    engine = _engine(store, quiet, report_to)
    trained = api.finetune(_task(task), objective, backbone=backbone, training=training, teacher=teacher, engine=engine)
    _print_trained(trained, as_json)


@app.command()
def prune(
    model: Annotated[
        str | None, typer.Argument(help="Key of a fine-tuned model; leave out to prune the raw backbone.")
    ] = None,
    pruner: Annotated[str, typer.Option(help="mask, magnitude, imp or imp-rw.")] = "mask",
    sparsity: Annotated[float, typer.Option(help="Share of weights to prune.")] = 0.5,
    objective: Annotated[str, typer.Option(help="ce, poe, reweight or confreg.")] = "ce",
    init: Annotated[str | None, typer.Option(help="mask: hard or soft initialisation of the scores.")] = None,
    initial_sparsity: Annotated[float | None, typer.Option(help="mask: start here, on the cubic schedule.")] = None,
    scope: Annotated[str | None, typer.Option(help="local (every matrix meets the sparsity) or global.")] = None,
    target_modules: Annotated[
        str | None, typer.Option(help="all-linear, a regular expression, or name endings with commas.")
    ] = None,
    exclude_modules: Annotated[str | None, typer.Option(help="As --target-modules; wins over it.")] = None,
    task: Annotated[str | None, typer.Option(help="Without a key: as in `srnet finetune`; default inference.")] = None,
    backbone: Annotated[str | None, typer.Option(help=f"Without a key: default {EMBEDDED}.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Default: the seed of the model.")] = None,
    steps: StepsOption = None,
    epochs: EpochsOption = None,
    learning_rate: RateOption = None,
    batch_size: BatchOption = None,
    eval_every: EvalOption = None,
    teacher: TeacherOption = None,
    store: StoreOption = None,
    report_to: ReportOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find a subnetwork in a model and print its key and scores.

    With a key: paradigm (a), the model was fine-tuned before. Without: paradigm (c), the raw backbone with a random
    head; --task, --backbone and --seed then say which.
    """
    from srnet import api
    from srnet.experiment import Pretrained
    from srnet.experiment.rebuild import stored_model
    from srnet.masks import Targets
    from srnet.pruners import get_pruner
    from srnet.recipes.toy import pruning_for

    engine = _engine(store, quiet, report_to)
    given: dict[str, Any] = {"init": init, "initial_sparsity": initial_sparsity, "scope": scope}
    if target_modules is not None or exclude_modules is not None:
        usual = Targets()
        given["targets"] = Targets(_selector(target_modules, usual.modules), _selector(exclude_modules, usual.exclude))
    cls = get_pruner(pruner)
    chosen = {name: value for name, value in given.items() if value is not None}
    unknown = [name for name in chosen if name not in cls.__dataclass_fields__]
    if unknown:
        raise UserError(f"pruner '{pruner}' has no option --{unknown[0].replace('_', '-')}")
    made = cls(sparsity=sparsity, **chosen)
    if model is not None and (task is not None or backbone is not None):
        raise UserError("a stored model has its own task and backbone", "leave out --task and --backbone, or the key")
    raw = Pretrained(backbone or EMBEDDED, _task(task or "inference"), seed or 0) if model is None else None
    node = raw or stored_model(engine.store, model or "")
    options = {
        "seed": seed, "steps": steps, "epochs": epochs, "learning_rate": learning_rate, "batch_size": batch_size,
        "eval_every": eval_every,
    }  # fmt: skip
    training = None
    if any(value is not None for value in options.values()):
        default = replace(pruning_for(node.pretrained.backbone), seed=node.pretrained.seed)
        training = _training(default, **options)
    _print_trained(api.prune(node, made, objective, training=training, teacher=teacher, engine=engine), as_json)


def _selector(text: str | None, default: Any) -> Any:
    if text is None:
        return default
    return tuple(text.split(",")) if "," in text else text


@app.command()
def evaluate(
    model: Annotated[str, typer.Argument(help="A key of the store, or the folder of a saved subnetwork.")],
    task: Annotated[str | None, typer.Option(help="The task, for a folder: as in `srnet finetune`.")] = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Score a model in and out of distribution."""
    from srnet import api

    trained = api.evaluate(model, task=_task(task) if task else None, engine=_engine(store, quiet))
    _print_trained(trained, as_json)


@app.command()
def bias(
    task: TaskOption = "inference",
    shortcut: Annotated[str | None, typer.Option(help="overlap or claim; default: what the task suspects.")] = None,
    vectors: Annotated[str | None, typer.Option(help="A backbone whose embeddings serve as word vectors.")] = None,
    folds: Annotated[int, typer.Option(help="Parts of the cross-fitting.")] = 5,
    store: StoreOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fit the bias model of a task and show how biased it is: high in distribution, poor out of it."""
    from srnet import api
    from srnet.errors import choose

    if shortcut is not None:
        choose("shortcut", shortcut, ("overlap", "claim"))
    made = api.bias_model(_task(task), shortcut=shortcut, vectors=vectors, folds=folds, engine=_engine(store, quiet))
    _print_trained(made, as_json)


@app.command()
def pretrain(
    out_folder: Annotated[Path, typer.Option("--out", help="Where the backbone goes.")],
    mlm_steps: Annotated[int | None, typer.Option(min=1, help="Steps of masked language modelling alone.")] = None,
    pair_steps: Annotated[int | None, typer.Option(min=1, help="Steps that also tell restatements apart.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of weights and text.")] = 0,
    quiet: QuietOption = False,
) -> None:
    """Make the embedded backbone again, from nothing but the grammar."""
    from srnet import api
    from srnet.progress import Reporter
    from srnet.tasks.synthetic.pretrain import PretrainSettings

    settings = _training(PretrainSettings(), seed=seed, mlm_steps=mlm_steps, pair_steps=pair_steps)
    out.print(f"{api.pretrain(out_folder, settings, Reporter(quiet))}", markup=False)


@app.command()
def export(
    key: Annotated[str, typer.Argument(help="Key of a model in the store.")],
    merged: Annotated[
        Path | None, typer.Option(help="Write a plain checkpoint: AutoModel...from_pretrained(DIR).")
    ] = None,
    subnetwork: Annotated[
        Path | None, typer.Option(help="Write a subnetwork folder: srnet.load_subnetwork(DIR).")
    ] = None,
    store: StoreOption = None,
) -> None:
    """Take a model out of the store."""
    from srnet import api

    if (merged is None) == (subnetwork is None):
        raise UserError("say what to write", "give --merged DIR or --subnetwork DIR")
    folder = api.export_model(
        key, merged or subnetwork or "", merged=merged is not None, engine=_engine(store, quiet=True)
    )
    out.print(f"{folder}", markup=False)


@store_app.command("ls")
def store_ls(store: StoreOption = None) -> None:
    """List what has been computed, oldest first."""
    from srnet.experiment import Store

    opened = Store(store)
    table = Table()
    table.add_column("key", no_wrap=True, min_width=16)
    for name in ("type", "what", "size", "seconds", "made"):
        table.add_column(name)
    for entry in opened.entries():
        size = f"{entry.bytes / 1e6:.1f} MB"
        table.add_row(entry.key, entry.type, entry.label, size, f"{entry.seconds:.0f}", entry.created)
    out.print(table)
    out.print(f"{opened.root}", markup=False)


@store_app.command("show")
def store_show(key: Annotated[str, typer.Argument(help="A key, or its beginning.")], store: StoreOption = None) -> None:
    """Print everything known about an artifact: its expression, files and checksums."""
    from srnet.experiment import Store

    opened = Store(store)
    out.print_json(json.dumps(opened.manifest(opened.find(key))))


@store_app.command("verify")
def store_verify(store: StoreOption = None) -> None:
    """Check every file against its checksum."""
    from srnet.experiment import Store

    opened = Store(store)
    problems = opened.verify()
    for key, problem in problems.items():
        out.print(f"{key}: {problem}", markup=False)
    if problems:
        raise UserError(
            f"{len(problems)} damaged of {len(opened.keys())} artifacts", "they are computed again when needed"
        )
    out.print(f"{len(opened.keys())} artifacts, all whole", markup=False)


@store_app.command("gc")
def store_gc(
    older_than: Annotated[float | None, typer.Option(help="Also remove artifacts older than this many days.")] = None,
    store: StoreOption = None,
) -> None:
    """Remove leftovers of interrupted runs and damaged artifacts."""
    from srnet.experiment import Store

    for path in Store(store).gc(older_than):
        out.print(f"removed {path}", markup=False)


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        out.print(__version__)
        raise typer.Exit


def main() -> None:
    """Entry point: one line and exit code 2 for what a user can mend."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        code = app(standalone_mode=False) or 0
        if code == INTERRUPTED:
            _stopped()
        sys.exit(code)
    except UserError as error:
        _fail(str(error))
    except typer.TyperException as error:
        _usage(error)
    except OSError as error:
        known = explained(error, "the result")
        if known is None:
            raise
        _fail(str(known))
    except (KeyboardInterrupt, typer.Abort):
        _stopped()


def _stopped() -> None:
    Console(stderr=True).print("stopped; run the same command again to continue", markup=False)
    sys.exit(INTERRUPTED)


def _usage(error: Any) -> None:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError" and context is not None:
        out.print(context.get_help(), markup=False)
        sys.exit(2)
    _fail(error.format_message(), f"{context.command_path} --help" if context is not None else "srnet --help")


def _fail(message: str, help: str | None = None) -> None:
    text = " ".join(message.split()) + (f" (see `{help}`)" if help else "")
    Console(stderr=True, soft_wrap=True, highlight=False).print(f"srnet: {text}", markup=False)
    sys.exit(2)
