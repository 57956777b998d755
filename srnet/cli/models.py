"""Commands about one model: train it, prune it, score it, take it away."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from srnet.cli.app import (
    Bias,
    Data,
    JsonOption,
    KeyOption,
    Objective,
    OneRun,
    OnTask,
    Pruner,
    Reading,
    Run,
    StoreOption,
    Subject,
    Teacher,
    Training,
    app,
    bias_of,
    changed,
    out,
    task_of,
)
from srnet.cli.options import Choice, Fields, Instance, command
from srnet.errors import UserError

REMARKABLE = 0.002
"""How far a method that promises no sparsity may miss it without a word."""


def print_trained(trained: Any, as_json: bool, only_key: bool = False) -> None:
    if only_key:
        out.print(trained.key, markup=False)
        return
    if as_json:
        facts = {
            "key": trained.key,
            "folder": str(trained.folder),
            "sparsity": trained.sparsity,
            "scores": trained.scores,
        }
        out.print_json(json.dumps(facts))
        return
    out.print(_scores_table(trained.scores))
    if (trained.folder / "mask.bits").is_file():
        out.print(f"sparsity {trained.sparsity:.6f}, counted on the mask", markup=False)
    out.print(f"key {trained.key}" if trained.key else f"folder {trained.folder}", markup=False)


def _scores_table(scores: dict[str, Any]) -> Table:
    """The metrics that all splits have; below each split what the most frequent class would score, if anything."""
    every = list(scores.values())
    metrics = [name for name in every[0]["metrics"] if all(name in each["metrics"] for each in every)]
    table = Table("split", "kind")
    for name in metrics:
        table.add_column(name, justify="right", no_wrap=True)
    for split, each in scores.items():
        table.add_row(split, each["kind"], *(f"{each['metrics'][name]:.1f}" for name in metrics))
        floors = [each["majority"][name] for name in metrics]
        if any(floors):
            table.add_row("  majority", "", *(f"{floor:.1f}" for floor in floors), style="dim")
    return table


def print_subcases(split: str, groups: dict[str, float]) -> None:
    """Accuracy by sub-case; where sub-cases have levels, each under its own."""
    from srnet.tasks.splits import LEVELS

    if not groups:
        return
    table = Table(title=f"{split}, accuracy by sub-case", title_justify="left")
    table.add_column("sub-case")
    table.add_column("accuracy", justify="right")
    for name, value in groups.items():
        levels = name.split(LEVELS)
        table.add_row("  " * (len(levels) - 1) + levels[-1], f"{value:.1f}")
    out.print(table)


def in_words(objective: tuple[str, dict[str, Any]]) -> str:
    """As `parse_objective` reads it."""
    from srnet.objectives import get_objective

    name, options = objective
    return get_objective(name).text(options)


@command(app)
def finetune(
    *,
    subject: Annotated[Any, Instance("Options", Subject)],
    objective: Objective,
    teacher: Teacher,
    bias: Bias,
    data: Data,
    training: Training,
    run: OneRun,
    as_json: JsonOption = False,
    key: KeyOption = False,
) -> None:
    """Fine-tune a backbone on a task and print its key and scores."""
    from srnet import api
    from srnet.recipes.profiles.defaults import finetuning_for

    task = task_of(subject.task, data)
    trained = api.finetune(
        task,
        in_words(objective),
        backbone=subject.backbone,
        training=changed(finetuning_for(subject.backbone, task), **training),
        bias=bias_of(bias),
        words=subject.label_words(task),
        engine=run.start(),
        **teacher,
    )
    print_trained(trained, as_json, key)


@command(app)
def prune(
    *,
    model: Annotated[
        str | None, typer.Argument(help="Key of a fine-tuned model; leave out to prune the raw backbone.")
    ] = None,
    subject: Annotated[Any, Fields("Without a key", Subject)],
    pruner: Pruner,
    objective: Objective,
    teacher: Teacher,
    bias: Bias,
    data: Data,
    training: Training,
    run: OneRun,
    as_json: JsonOption = False,
    key: KeyOption = False,
) -> None:
    """Find a subnetwork in a model and print its key and scores.

    With a key: paradigm (a), the model was fine-tuned before. Without: paradigm (c), the raw backbone with a random
    head, or with its own on --label-words; --task, --backbone and --seed then say which. The default of --seed is the
    seed of the model.
    """
    from srnet import api
    from srnet.experiment.rebuild import stored_model
    from srnet.pruners import get_pruner
    from srnet.pruners.penalised import Penalised
    from srnet.recipes.profiles.defaults import pruning_for

    if model is not None and (subject or data):
        raise UserError(
            "a stored model has its own task, data and backbone",
            "leave out --task, --data, --backbone, --label-words, ..., or the key",
        )
    method, engine = get_pruner(pruner[0])(**pruner[1]), run.start()
    if "words" in subject:
        _check_rates(method.name, training)
    if model is None:
        node = _pretrained(Subject(**subject), data, training.get("seed", 0))
    else:
        node = stored_model(engine.store, model)
    default = replace(pruning_for(node.pretrained.backbone, method.name, node.task_spec), seed=node.pretrained.seed)
    settings = changed(default, **training) if training else None
    given = {"training": settings, "bias": bias_of(bias), **teacher}
    trained = api.prune(node, method, in_words(objective), engine=engine, **given)
    print_trained(trained, as_json, key)
    if isinstance(method, Penalised) and not (as_json or key):
        _print_reached(trained.sparsity, method.sparsity, steered=method.penalty is None)


def _check_rates(pruner: str, training: dict[str, Any]) -> None:
    from srnet.recipes.profiles.smp import STATIC

    if pruner in STATIC and "learning_rate" in training:
        raise UserError(f"with label words nothing but scores trains under {pruner}", "give --score-rate instead")


def _pretrained(subject: Subject, data: dict[str, Any], seed: int) -> Any:
    from srnet.experiment import Pretrained

    task = task_of(subject.task, data)
    return Pretrained(subject.backbone, task, seed, subject.label_words(task))


def _print_reached(reached: float, wanted: float, *, steered: bool) -> None:
    if abs(reached - wanted) > REMARKABLE:
        asked = f"{100 * wanted:g} % was asked for" if steered else "with lambda given, none was asked for"
        out.print(f"the penalty reached {100 * reached:.2f} % sparsity; {asked}", markup=False)


@command(app)
def evaluate(
    *,
    model: Annotated[
        str, typer.Argument(help="A key of the store, or the folder of a model that was saved or exported.")
    ],
    task: Annotated[str | None, typer.Option(help="The task, for a folder: as in `srnet finetune`.")] = None,
    subcases: Annotated[bool, typer.Option(help="Also print the accuracy of every sub-case.")] = False,
    data: Data,
    run: Reading,
    as_json: JsonOption = False,
) -> None:
    """Score a model in and out of distribution."""
    from srnet import api

    if task is None and data:
        raise UserError("data without a task", "say which --task they belong to")
    trained = api.evaluate(model, task=task_of(task, data) if task else None, engine=run.start())
    print_trained(trained, as_json)
    if subcases and not as_json:
        for split, report in trained.scores.items():
            print_subcases(split, report["groups"])


@command(app)
def bias(*, subject: OnTask, bias: Bias, data: Data, run: Reading, as_json: JsonOption = False) -> None:
    """Fit the bias model of a task and show how biased it is: high in distribution, poor out of it."""
    from srnet import api
    from srnet.experiment import BiasSpec

    spec, task = bias_of(bias) or BiasSpec(), task_of(subject.task, data)
    made = api.bias_model(task, spec, engine=run.start())
    print_trained(made, as_json)
    if not as_json:
        for line in api.bias_remarks(task, spec, made):
            out.print(line, markup=False)


@command(app)
def pretrain(
    *,
    out_folder: Annotated[Path, typer.Option("--out", help="Where the backbone goes.")],
    settings: Annotated[Any, Instance("Pre-training", "srnet.tasks.synthetic.pretrain:PretrainSettings")],
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Make the embedded backbone again, from nothing but the grammar."""
    from srnet import api
    from srnet.progress import Reporter

    out.print(f"{api.pretrain(out_folder, settings, Reporter(quiet))}", markup=False)


@command(app)
def export(
    *,
    model: Annotated[str, typer.Argument(help="A key of the store, or the folder of a saved subnetwork.")],
    format: Annotated[Any, Choice("format", "srnet.export:FORMATS", "merged")],
    path: Annotated[Path, typer.Option("--out", help="A new folder; for smp a new file, NAME.npy.")],
    store: StoreOption = None,
) -> None:
    """Take a model away. `srnet export --format NAME --help` shows the options of a format."""
    from srnet import api

    name, options = format
    engine = Run(store=store, quiet=True).start()
    lines: list[str] = []
    made = api.export_model(model, path, format=name, engine=engine, say=lines.append, **options)
    for line in (f"{made}", *lines):
        out.print(line, markup=False)
