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
    DistilOption,
    DistilTemperatureOption,
    JsonOption,
    KeyOption,
    QuietOption,
    ReportOption,
    SeedOption,
    StoreOption,
    TaskOption,
    TeacherOption,
    WordsOption,
    app,
    bias_options,
    changed,
    data_options,
    label_words,
    make_engine,
    options,
    out,
    training_options,
)
from srnet.errors import UserError
from srnet.names import EMBEDDED

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
    distil: DistilOption = None,
    distil_temperature: DistilTemperatureOption = None,
    words: WordsOption = None,
    store: StoreOption = None,
    report_to: ReportOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    key: KeyOption = False,
) -> None:
    """Fine-tune a backbone on a task and print its key and scores."""
    from srnet import api
    from srnet.recipes.profiles.defaults import finetuning_for

    spec = data.task(task)
    settings = changed(finetuning_for(backbone, spec), seed=seed, **training)
    engine = make_engine(store, quiet, report_to)
    trained = api.finetune(
        spec,
        objective,
        backbone=backbone,
        training=settings,
        teacher=teacher,
        bias=bias,
        distil=distil,
        temperature=distil_temperature,
        words=label_words(words, spec),
        engine=engine,
    )
    print_trained(trained, as_json, key)


def pruner_options(
    pruner: Annotated[
        str,
        typer.Option(
            help="mask, imp, imp-rw, one-shot (magnitude, without training); smp-l, smp-s (scores alone train); "
            "movement, soft-movement, magnitude, l0 (weights train as well)."
        ),
    ] = "mask",
    sparsity: Annotated[float, typer.Option(help="Share of weights to prune.")] = 0.5,
    init: Annotated[str | None, typer.Option(help="mask: hard or soft initialisation of the scores.")] = None,
    initial_sparsity: Annotated[float | None, typer.Option(help="mask: start here, on the cubic schedule.")] = None,
    scope: Annotated[str | None, typer.Option(help="local (every matrix meets the sparsity) or global.")] = None,
    ramp: Annotated[float | None, typer.Option(help="Share of the run after which the final sparsity is held.")] = None,
    begin: Annotated[
        float | None, typer.Option(help="movement, soft-movement, magnitude, l0: share before pruning begins.")
    ] = None,
    penalty: Annotated[
        float | None,
        typer.Option(help="smp, soft-movement, l0: final lambda. The last two steer it towards --sparsity by default."),
    ] = None,
    temperature: Annotated[float | None, typer.Option(help="smp-s: p of the shares that layers get.")] = None,
    threshold: Annotated[float | None, typer.Option(help="soft-movement: tau.")] = None,
    cut: Annotated[
        str | None,
        typer.Option(help="mask: threshold in the middle between pruned and kept scores, or at the kth, as published."),
    ] = None,
    penalty_until: Annotated[
        str | None, typer.Option(help="smp: lambda grows until the ramp ends (ramp) or the run (end, as published).")
    ] = None,
    floor: Annotated[
        float | None, typer.Option(help="soft-movement: share of each matrix that stays; published: 0.005.")
    ] = None,
    target_modules: Annotated[
        str | None, typer.Option(help="all-linear, a regular expression, or name endings with commas.")
    ] = None,
    exclude_modules: Annotated[str | None, typer.Option(help="As --target-modules; wins over it.")] = None,
) -> Any:
    """The pruner that was described."""
    from srnet.masks import Targets
    from srnet.pruners import get_pruner

    wanted: dict[str, Any] = {
        "init": init, "initial_sparsity": initial_sparsity, "scope": scope, "ramp": ramp, "begin": begin,
        "penalty": penalty, "temperature": temperature, "threshold": threshold, "cut": cut,
        "penalty_until": penalty_until, "floor": floor,
    }  # fmt: skip
    if target_modules is not None or exclude_modules is not None:
        usual = get_pruner(pruner)().targets  # type: ignore[attr-defined]
        wanted["targets"] = Targets(_selector(target_modules, usual.modules), _selector(exclude_modules, usual.exclude))
    cls = get_pruner(pruner)
    chosen = {name: value for name, value in wanted.items() if value is not None}
    unknown = [name for name in chosen if name not in cls.__dataclass_fields__]
    if unknown:
        raise UserError(f"pruner '{pruner}' has no option --{unknown[0].replace('_', '-')}")
    return cls(sparsity=sparsity, **chosen)


@app.command()
@options(pruner=pruner_options, data=data_options, bias=bias_options, training=training_options)
def prune(
    model: Annotated[
        str | None, typer.Argument(help="Key of a fine-tuned model; leave out to prune the raw backbone.")
    ] = None,
    pruner: Any = None,
    objective: Annotated[str, typer.Option(help="ce, poe, reweight or confreg.")] = "ce",
    task: Annotated[str | None, typer.Option(help="Without a key: as in `srnet finetune`; default inference.")] = None,
    data: Any = None,
    bias: Any = None,
    backbone: Annotated[str | None, typer.Option(help=f"Without a key: default {EMBEDDED}.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Default: the seed of the model.")] = None,
    training: Any = None,
    teacher: TeacherOption = None,
    distil: DistilOption = None,
    distil_temperature: DistilTemperatureOption = None,
    words: WordsOption = None,
    store: StoreOption = None,
    report_to: ReportOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    key: KeyOption = False,
) -> None:
    """Find a subnetwork in a model and print its key and scores.

    With a key: paradigm (a), the model was fine-tuned before. Without: paradigm (c), the raw backbone with a random
    head, or with its own on --label-words; --task, --backbone and --seed then say which.
    """
    from srnet import api
    from srnet.experiment import Pretrained
    from srnet.experiment.rebuild import stored_model
    from srnet.pruners.penalised import Penalised
    from srnet.recipes.profiles.defaults import pruning_for
    from srnet.recipes.profiles.smp import STATIC

    engine = make_engine(store, quiet, report_to)
    if words is not None and pruner.name in STATIC and "learning_rate" in training:
        raise UserError(f"with label words nothing but scores trains under {pruner.name}", "give --score-rate instead")
    if model is not None and (task is not None or backbone is not None or words is not None or data.typed()):
        raise UserError(
            "a stored model has its own task, data and backbone",
            "leave out --task, --data, --backbone, --label-words, ..., or the key",
        )
    if model is None:
        spec = data.task(task or "inference")
        node: Any = Pretrained(backbone or EMBEDDED, spec, seed or 0, label_words(words, spec))
    else:
        node = stored_model(engine.store, model)
    given = training if seed is None else {"seed": seed, **training}
    default = replace(pruning_for(node.pretrained.backbone, pruner.name, node.task_spec), seed=node.pretrained.seed)
    settings = changed(default, **given) if given else None
    trained = api.prune(
        node,
        pruner,
        objective,
        training=settings,
        teacher=teacher,
        bias=bias,
        distil=distil,
        temperature=distil_temperature,
        engine=engine,
    )
    print_trained(trained, as_json, key)
    if isinstance(pruner, Penalised) and not (as_json or key):
        _print_reached(trained.sparsity, pruner.sparsity, steered=pruner.penalty is None)


def _print_reached(reached: float, wanted: float, *, steered: bool) -> None:
    if abs(reached - wanted) > REMARKABLE:
        asked = f"{100 * wanted:g} % was asked for" if steered else "with lambda given, none was asked for"
        out.print(f"the penalty reached {100 * reached:.2f} % sparsity; {asked}", markup=False)


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
    compare_steps: Annotated[
        int | None, typer.Option(min=1, help="Steps of the last phase: exchanged roles, and words that are shared.")
    ] = None,
    layers: Annotated[int | None, typer.Option(min=1, help="3 makes srnet-tiny, 4 srnet-small.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of weights and text.")] = 0,
    quiet: QuietOption = False,
) -> None:
    """Make the embedded backbone again, from nothing but the grammar."""
    from srnet import api
    from srnet.progress import Reporter
    from srnet.tasks.synthetic.pretrain import PretrainSettings

    given = {"mlm_steps": mlm_steps, "pair_steps": pair_steps, "compare_steps": compare_steps, "layers": layers}
    settings = changed(PretrainSettings(), seed=seed, **given)
    out.print(f"{api.pretrain(out_folder, settings, Reporter(quiet))}", markup=False)


@app.command()
def export(
    model: Annotated[str, typer.Argument(help="A key of the store, or the folder of a saved subnetwork.")],
    format: Annotated[str, typer.Option("--format", help="merged, subnetwork or smp; see above.")],
    path: Annotated[Path, typer.Option("--out", help="A new folder; for smp a new file, NAME.npy.")],
    store: StoreOption = None,
) -> None:
    """Take a model away.

    merged: a plain checkpoint that from_pretrained reads, the mask baked into the weights.

    subnetwork: a folder with mask bits, head and what differs from the backbone: far smaller. srnet.load_subnetwork
    reads it.

    smp: the mask bits alone, without weights or head, as the authors of static model pruning publish theirs. The mask
    must cover the layers' matrices and nothing else.
    """
    from srnet import api

    out.print(f"{api.export_model(model, path, format=format, engine=make_engine(store, quiet=True))}", markup=False)
