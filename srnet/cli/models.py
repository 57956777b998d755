"""Commands about one model: train it, prune it, score it, take it away."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from srnet.cli.app import (
    BackboneOption,
    JsonOption,
    KeyOption,
    QuietOption,
    ReportOption,
    SeedOption,
    StoreOption,
    TaskOption,
    TeacherOption,
    app,
    bias_options,
    changed,
    data_options,
    make_engine,
    options,
    out,
    training_options,
)
from srnet.errors import UserError
from srnet.names import EMBEDDED

METRICS = ("accuracy", "f1")


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
    table = Table()
    for name in ("split", "kind", *METRICS, *(f"majority {m}" for m in METRICS)):
        table.add_column(name, justify="left" if name in ("split", "kind") else "right")
    for split, report in trained.scores.items():
        figures = [*(report["metrics"][m] for m in METRICS), *(report["majority"][m] for m in METRICS)]
        table.add_row(split, report["kind"], *(f"{figure:.1f}" for figure in figures))
    out.print(table)
    if trained.sparsity:
        out.print(f"sparsity {trained.sparsity:.6f}, counted on the mask", markup=False)
    out.print(f"key {trained.key}" if trained.key else f"folder {trained.folder}", markup=False)


def print_subcases(split: str, groups: dict[str, float]) -> None:
    """Accuracy by sub-case; where sub-cases have levels, each under its own."""
    from srnet.tasks.base import LEVELS

    if not groups:
        return
    table = Table(title=f"{split}, accuracy by sub-case", title_justify="left")
    table.add_column("sub-case")
    table.add_column("accuracy", justify="right")
    for name, value in groups.items():
        levels = name.split(LEVELS)
        table.add_row("  " * (len(levels) - 1) + levels[-1], f"{value:.1f}")
    out.print(table)


@app.command()
@options(data=data_options, bias=bias_options, training=training_options)
def finetune(
    task: TaskOption = "inference",
    data: Any = None,
    objective: Annotated[str, typer.Option(help="ce, poe, reweight or confreg.")] = "ce",
    bias: Any = None,
    backbone: BackboneOption = EMBEDDED,
    seed: SeedOption = 0,
    training: Any = None,
    teacher: TeacherOption = None,
    store: StoreOption = None,
    report_to: ReportOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    key: KeyOption = False,
) -> None:
    """Fine-tune a backbone on a task and print its key and scores."""
    from srnet import api
    from srnet.recipes.toy import finetuning_for

    settings = changed(finetuning_for(backbone), seed=seed, **training)
    engine = make_engine(store, quiet, report_to)
    trained = api.finetune(
        data.task(task), objective, backbone=backbone, training=settings, teacher=teacher, bias=bias, engine=engine
    )
    print_trained(trained, as_json, key)


@app.command()
@options(data=data_options, bias=bias_options, training=training_options)
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
    data: Any = None,
    bias: Any = None,
    backbone: Annotated[str | None, typer.Option(help=f"Without a key: default {EMBEDDED}.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Default: the seed of the model.")] = None,
    training: Any = None,
    teacher: TeacherOption = None,
    store: StoreOption = None,
    report_to: ReportOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    key: KeyOption = False,
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

    engine = make_engine(store, quiet, report_to)
    wanted: dict[str, Any] = {"init": init, "initial_sparsity": initial_sparsity, "scope": scope}
    if target_modules is not None or exclude_modules is not None:
        usual = Targets()
        wanted["targets"] = Targets(_selector(target_modules, usual.modules), _selector(exclude_modules, usual.exclude))
    cls = get_pruner(pruner)
    chosen = {name: value for name, value in wanted.items() if value is not None}
    unknown = [name for name in chosen if name not in cls.__dataclass_fields__]
    if unknown:
        raise UserError(f"pruner '{pruner}' has no option --{unknown[0].replace('_', '-')}")
    made = cls(sparsity=sparsity, **chosen)
    if model is not None and (task is not None or backbone is not None or data.typed()):
        raise UserError(
            "a stored model has its own task, data and backbone",
            "leave out --task, --data, --backbone, ..., or the key",
        )
    raw = Pretrained(backbone or EMBEDDED, data.task(task or "inference"), seed or 0) if model is None else None
    node = raw or stored_model(engine.store, model or "")
    given = training if seed is None else {"seed": seed, **training}
    default = replace(pruning_for(node.pretrained.backbone), seed=node.pretrained.seed)
    settings = changed(default, **given) if given else None
    trained = api.prune(node, made, objective, training=settings, teacher=teacher, bias=bias, engine=engine)
    print_trained(trained, as_json, key)


def _selector(text: str | None, default: Any) -> Any:
    if text is None:
        return default
    return tuple(text.split(",")) if "," in text else text


@app.command()
@options(data=data_options)
def evaluate(
    model: Annotated[str, typer.Argument(help="A key of the store, or the folder of a saved subnetwork.")],
    task: Annotated[str | None, typer.Option(help="The task, for a folder: as in `srnet finetune`.")] = None,
    data: Any = None,
    subcases: Annotated[bool, typer.Option(help="Also print the accuracy of every sub-case.")] = False,
    store: StoreOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Score a model in and out of distribution."""
    from srnet import api

    if task is None and data.typed():
        raise UserError("data without a task", "say which --task they belong to")
    trained = api.evaluate(model, task=data.task(task) if task else None, engine=make_engine(store, quiet))
    print_trained(trained, as_json)
    if subcases and not as_json:
        for split, report in trained.scores.items():
            print_subcases(split, report["groups"])


@app.command()
@options(data=data_options, bias=bias_options)
def bias(
    task: TaskOption = "inference",
    data: Any = None,
    bias: Any = None,
    folds: Annotated[int | None, typer.Option(help="Parts of the cross-fitting. Default 5.")] = None,
    extended: Annotated[
        bool, typer.Option(help="overlap: two more features, as in the original authors' tool.")
    ] = False,
    store: StoreOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fit the bias model of a task and show how biased it is: high in distribution, poor out of it."""
    from srnet import api
    from srnet.experiment import BiasSpec

    spec = replace(bias or BiasSpec(), extended=extended, **({} if folds is None else {"folds": folds}))
    chosen = data.task(task)
    made = api.bias_model(chosen, spec, engine=make_engine(store, quiet))
    print_trained(made, as_json)
    if not as_json:
        for line in api.bias_remarks(chosen, spec, made):
            out.print(line, markup=False)


@app.command()
def pretrain(
    out_folder: Annotated[Path, typer.Option("--out", help="Where the backbone goes.")],
    mlm_steps: Annotated[int | None, typer.Option(min=1, help="Steps of masked language modelling alone.")] = None,
    pair_steps: Annotated[int | None, typer.Option(min=1, help="Steps that also tell restatements apart.")] = None,
    layers: Annotated[int | None, typer.Option(min=1, help="3 makes srnet-tiny, 4 srnet-small.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of weights and text.")] = 0,
    quiet: QuietOption = False,
) -> None:
    """Make the embedded backbone again, from nothing but the grammar."""
    from srnet import api
    from srnet.progress import Reporter
    from srnet.tasks.synthetic.pretrain import PretrainSettings

    settings = changed(PretrainSettings(), seed=seed, mlm_steps=mlm_steps, pair_steps=pair_steps, layers=layers)
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
        key, merged or subnetwork or "", merged=merged is not None, engine=make_engine(store, quiet=True)
    )
    out.print(f"{folder}", markup=False)
