"""Commands about one model: train it, prune it, score it, take it away."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table

import srnet
from srnet.cli.app import Data, Given, JsonOption, Model, Run, Subject, app, model_of, out, resolve_bias, task_of
from srnet.cli.options import Choice, Command, Fields
from srnet.errors import UserError

KeyOption = Annotated[bool, typer.Option("--key", help="Print nothing but the key, for scripts.")]
Objective = Annotated[str, Choice("objective", "srnet.objectives:OBJECTIVES", "ce")]
Needs = Annotated[Given, Fields("Objective", "srnet.api.models:Needs")]
TRAINING = "Training (defaults depend on task, backbone and pruner)"
Training = Annotated[Given, Fields(TRAINING, "srnet.training:TrainingSettings", show_defaults=False)]
TrainingRun = Annotated[Given, Fields("Run", Run, only=("store", "report_to", "quiet"))]
ShortRun = Annotated[Given, Fields("Run", Run, only=("store", "quiet"))]


def print_trained(trained: Any, as_json: bool, only_key: bool = False) -> None:
    if only_key:
        out.print(trained.key)
    elif as_json:
        out.print_json(data=asdict(trained), default=str)
    else:
        out.print(_scores_table(trained.scores))
        if (trained.folder / "mask.bits").is_file():
            out.print(f"sparsity {trained.sparsity:.6f}, counted on the mask")
        out.print(f"key {trained.key}" if trained.key else f"folder {trained.folder}", *trained.remarks, sep="\n")


def _scores_table(scores: dict[str, Any]) -> Table:
    """The metrics that all splits have; below each split what the most frequent class would score, if anything."""
    every = list(scores.values())
    metrics = [name for name in every[0]["metrics"] if all(name in each["metrics"] for each in every)]
    table = Table("split", "kind", *(Column(name, justify="right", no_wrap=True) for name in metrics))
    for split, each in scores.items():
        table.add_row(split, each["kind"], *(f"{each['metrics'][name]:.1f}" for name in metrics))
        if any(each["majority"][name] for name in metrics):
            table.add_row("  majority", "", *(f"{each['majority'][name]:.1f}" for name in metrics), style="dim")
    return table


def _subcases_table(split: str, groups: dict[str, float]) -> Table:
    """Accuracy by sub-case; where sub-cases have levels, each under its own."""
    from srnet.tasks.splits import LEVELS

    title = f"{split}, accuracy by sub-case"
    table = Table("sub-case", Column("accuracy", justify="right"), title=title, title_justify="left")
    for name, value in groups.items():
        *above, last = name.split(LEVELS)
        table.add_row("  " * len(above) + last, f"{value:.1f}")
    return table


@app.command(cls=Command)
def finetune(
    *,
    subject: Annotated[Given, Fields("Options", Subject)],
    objective: Objective,
    needs: Needs,
    data: Data,
    training: Training,
    run: TrainingRun,
    as_json: JsonOption = False,
    key: KeyOption = False,
) -> None:
    """Fine-tune a backbone on a task and print its key and scores."""
    trained = srnet.finetune(
        **model_of(subject, data),
        objective=objective,
        training=training,
        engine=Run(**run).start(),
        **resolve_bias(needs),
    )
    print_trained(trained, as_json, key)


@app.command(cls=Command)
def prune(
    *,
    model: Annotated[
        str | None, typer.Argument(help="Key of a fine-tuned model; leave out to prune the raw backbone.")
    ] = None,
    subject: Annotated[Given, Fields("Without a key", Subject)],
    pruner: Annotated[Any, Choice("pruner", "srnet.pruners:PRUNERS", "mask")],
    objective: Objective,
    needs: Needs,
    data: Data,
    training: Training,
    run: TrainingRun,
    as_json: JsonOption = False,
    key: KeyOption = False,
) -> None:
    """Find a subnetwork in a model and print its key and scores.

    With a key: paradigm (a), the model was fine-tuned before. Without: paradigm (c), the raw backbone with a random
    head, or with its own on --label-words; --task, --backbone and --seed then say which. The default of --seed is the
    seed of the model.
    """
    from srnet.recipes.profiles.smp import STATIC

    if model is not None and (subject or data):
        raise UserError(
            "a stored model has its own task, data and backbone",
            "leave out --task, --data, --backbone, --label-words, ..., or the key",
        )
    if "words" in subject and pruner.name in STATIC and "learning_rate" in training:
        raise UserError(f"with label words nothing but scores trains under {pruner.name}", "give --score-rate instead")
    start = srnet.Pretrained(**model_of(subject, data), seed=training.get("seed", 0)) if model is None else model
    engine = Run(**run).start()
    trained = srnet.prune(start, pruner, objective, training=training, engine=engine, **resolve_bias(needs))
    print_trained(trained, as_json, key)


@app.command(cls=Command)
def evaluate(
    *,
    model: Model,
    task: Annotated[str | None, typer.Option(help="The task, for a folder: as in `srnet finetune`.")] = None,
    subcases: Annotated[bool, typer.Option(help="Also print the accuracy of every sub-case.")] = False,
    data: Data,
    run: ShortRun,
    as_json: JsonOption = False,
) -> None:
    """Score a model in and out of distribution."""
    if task is None and data:
        raise UserError("data without a task", "say which --task they belong to")
    trained = srnet.evaluate(model, task=task_of(task, data) if task else None, engine=Run(**run).start())
    print_trained(trained, as_json)
    for split, report in trained.scores.items():
        if subcases and report["groups"] and not as_json:
            out.print(_subcases_table(split, report["groups"]))


@app.command(cls=Command)
def bias(
    *,
    subject: Annotated[Given, Fields("Options", Subject, only=("task",))],
    bias: Annotated[Given, Fields("Bias model", "srnet.experiment:BiasSpec")],
    data: Data,
    run: ShortRun,
    as_json: JsonOption = False,
) -> None:
    """Fit the bias model of a task and show how biased it is: high in distribution, poor out of it."""
    spec, task = srnet.BiasSpec(**bias).resolved(Path()), task_of(Subject(**subject).task, data)
    print_trained(srnet.bias_model(task, spec, engine=Run(**run).start()), as_json)
