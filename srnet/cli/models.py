"""Commands about one model: train, prune, score, import and export it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import srnet
from srnet.cli.options import Choice, Command, Fields
from srnet.cli.program import Data, Given, Json, Run, StoreFolder, app, out, runnable
from srnet.config.fields import option
from srnet.config.values import NAMES
from srnet.core.errors import UserError
from srnet.core.names import EMBEDDED
from srnet.core.progress import Reporter
from srnet.core.tables import Table


@dataclass(frozen=True)
class _NewModel:
    """A model that is not yet in the store."""

    task: str | None = None
    """inference, paraphrase, verification (embedded); mnli, snli, qqp, fever, imdb; cola, mrpc, qnli, rte, sst2, stsb
    (the rest of GLUE); squad; stereotypes, sentences (language models); or a YAML file of your own. Your own files:
    --train instead. Default, for a backbone: inference."""
    backbone: str = EMBEDDED
    """A folder, a hub name (set SRNET_DOWNLOAD=1 to fetch it), srnet-tiny, srnet-small or srnet-decoder."""
    words: tuple[str, ...] = option((), name="--label-words")
    """Classify with the backbone's own masked-language-model head: one word per label, with commas, or 'task' for
    those of the task. Default: a classifier."""
    labels_are: tuple[tuple[str, str], ...] = option((), kind=NAMES)
    """For a folder whose labels are called otherwise than the task's: LABEL_0=negative,LABEL_1=positive."""


DEFAULT_TASK = "inference"
NewModelOptions = Annotated[Given, Fields("Without a key", _NewModel)]
LabelsAre = Annotated[Given, Fields("Options", _NewModel, only=("labels_are",))]
TaskOption = Annotated[Given, Fields("Options", _NewModel, only=("task",))]
Model = Annotated[str, typer.Argument(help="A key of the store, or the folder of a saved subnetwork.")]
AnyModel = Annotated[str, typer.Argument(help="A key of the store, or with --task any folder or hub name.")]
ModelKey = Annotated[
    str | None,
    typer.Argument(help="Key of a model, or with --task a fine-tuned folder; leave out to prune the raw backbone."),
]
TrainedKey = Annotated[
    str | None,
    typer.Argument(help="Key of a model to train further, or with --task a fine-tuned folder; none for a backbone."),
]
Objective = Annotated[str, Choice("objective", "srnet.objectives.base:OBJECTIVES", "ce")]
Needs = Annotated[Given, Fields("Objective", "srnet.experiment.nodes.bias:Needs")]
Bias = Annotated[Given, Fields("Bias model", "srnet.experiment.nodes.bias:BiasSpec")]
TRAINING = "Training (defaults depend on task, backbone and pruner)"
Training = Annotated[Given, Fields(TRAINING, "srnet.training.settings:TrainingSettings", show_defaults=False)]
TrainingRun = Annotated[Given, Fields("Run", Run, only=("device", "store", "report_to", "quiet"))]
ShortRun = Annotated[Given, Fields("Run", Run, only=("device", "store", "quiet"))]
Task = Annotated[str | None, typer.Option(help="The task, for a folder: as in `srnet finetune`.")]
PredictionsFile = Annotated[Path | None, typer.Option(help="Also write every answer to a csv, for `srnet verdict`.")]
System = Annotated[str | None, typer.Option(help="Its name in that file. Default: the formula, or the folder's name.")]
SeedName = Annotated[int | None, typer.Option(help="Its seed in that file. Default: that of the store, or 0.")]
Subcases = Annotated[bool, typer.Option(help="Also print the accuracy of every sub-case.")]
Format = Annotated[Any, Choice("format", "srnet.models.formats.base:FORMATS", "merged")]
ExportPath = Annotated[Path, typer.Option("--out", help="A new folder; for smp a new file, NAME.npy.")]
BackbonePath = Annotated[Path, typer.Option("--out", help="Where the backbone goes.")]
PretrainOptions = Annotated[Given, Fields("Pre-training", "srnet.tasks.synthetic.pretrain_settings:PretrainSettings")]
QuietRun = Annotated[Given, Fields("Options", Run, only=("quiet",))]
Key = Annotated[bool, typer.Option("--key", help="Print the key alone, for scripts.")]


def _start(model: str | None, new: Given, data: Given, engine: Any) -> Given:
    """The model that is trained, as `srnet.finetune` and `srnet.prune` take it: a key, a folder, or a backbone."""
    if model is not None:
        return {**new, "model": model, "task": task_spec(new.get("task"), data, engine)}
    chosen = _NewModel(**new)
    given = {"backbone": chosen.backbone, "words": chosen.words, "labels_are": chosen.labels_are}
    return {"model": _new_task(new, data, engine), **given}


def _new_task(new: Given, data: Given, engine: Any) -> Any:
    """The task that is named, that of the files which are given, or the default."""
    name = new.get("task") or (None if "train" in data else DEFAULT_TASK)
    return srnet.DataOptions(**data).task(name, say=engine.reporter.say)


def task_spec(name: str | None, data: Given, engine: Any) -> Any:
    """The task that is given, if any."""
    if name is None and data and "train" not in data:
        raise UserError("options of the data without a task", "add --task TASK, or your own files: --train FILE")
    return srnet.DataOptions(**data).task(name, say=engine.reporter.say) if name or data else None


def _print_trained(trained: Any, json: bool, key: bool = False) -> None:
    if key:
        out.print(trained.key)
    elif json:
        out.print_json(data=asdict(trained), default=str)
    else:
        out.print(_scores_table(trained.scores))
        if trained.sparsity:
            out.print(f"sparsity {trained.sparsity:.6f}, counted on the mask")
        out.print(
            f"key {trained.key}" if trained.key else f"folder {trained.folder}",
            *map(runnable, trained.remarks),
            sep="\n",
        )


def _id_first(scores: dict[str, Any]) -> list[tuple[str, Any]]:
    return sorted(scores.items(), key=lambda item: str(item[1]["kind"]))


def _scores_table(scores: dict[str, Any]) -> Table:
    """The metrics that some split has; below each split what the most frequent class would score, if anything."""
    metrics = list(dict.fromkeys(name for each in scores.values() for name in each["metrics"]))
    rows, majorities = [], []
    for split, each in _id_first(scores):
        rows.append((split, each["kind"], *(_shown(name, each["metrics"]) for name in metrics)))
        if any(each["majority"].values()):
            majorities.append(len(rows))
            rows.append(("  majority", "", *(_shown(name, each["majority"]) for name in metrics)))
    return Table(("split", "kind", *metrics), rows, texts=(0, 1), soft=majorities)


def _shown(metric: str, values: dict[str, float]) -> str:
    """Percentages with one decimal, other scores with three."""
    from srnet.tasks.answers.base import METRICS

    return "" if metric not in values else f"{values[metric]:.{1 if METRICS[metric].scale == 100.0 else 3}f}"


def _subcases_table(split: str, groups: dict[str, float], metric: str) -> Table:
    """Scores by sub-case; where sub-cases have levels, each under its own."""
    from srnet.tasks.splits import LEVELS

    levels = {name: name.split(LEVELS) for name in groups}
    rows = [("  " * (len(levels[name]) - 1) + levels[name][-1], f"{value:.1f}") for name, value in groups.items()]
    return Table(("sub-case", metric), rows, f"{split}, {metric} by sub-case")


@app.command("finetune", cls=Command)
def _finetune(
    *,
    model: TrainedKey = None,
    new: NewModelOptions,
    objective: Objective,
    needs: Needs,
    data: Data,
    training: Training,
    run: TrainingRun,
    json: Json = False,
    key: Key = False,
) -> None:
    """Fine-tune a backbone on a task and print its key and scores.

    With a key: the weights of that model train further, under its mask if it has one. The default of --seed is then the
    seed of the model. With a folder and --task: a model that was fine-tuned elsewhere trains on; it reads texts as long
    as it did, unless --max-length is given. --teacher and --distil add the imitation of a full model.
    """
    engine = Run(**run).start()
    how = {"objective": objective, "training": training, "engine": engine, **needs}
    _print_trained(srnet.finetune(**_start(model, new, data, engine), **how), json, key)


@app.command("prune", cls=Command)
def _prune(
    *,
    model: ModelKey = None,
    new: NewModelOptions,
    pruner: Annotated[Any, Choice("pruner", "srnet.pruners.base:PRUNERS", "mask")],
    objective: Objective,
    needs: Needs,
    data: Data,
    training: Training,
    run: TrainingRun,
    json: Json = False,
    key: Key = False,
) -> None:
    """Find a subnetwork in a model and print its key and scores.

    With a key: paradigm (a), the model was fine-tuned before. With a folder and --task: the same for a model that was
    fine-tuned elsewhere. Its labels are matched by name, and --labels-are gives those that differ. It reads texts as
    long as it did, unless --max-length is given.

    Without: paradigm (c), the raw backbone; --task, --backbone and --seed say which. Its head is the checkpoint's own
    classifier if that has the labels of the task, else a random one, or with --label-words its language-model head.
    The default of --seed is the seed of the model.
    """
    engine = Run(**run).start()
    how = {"pruner": pruner, "objective": objective, "training": training, "engine": engine, **needs}
    _print_trained(srnet.prune(**_start(model, new, data, engine), **how), json, key)


@app.command("evaluate", cls=Command)
def _evaluate(
    *,
    model: AnyModel,
    task: Task = None,
    labels: LabelsAre,
    subcases: Subcases = False,
    predictions: PredictionsFile = None,
    system: System = None,
    seed: SeedName = None,
    data: Data,
    run: ShortRun,
    json: Json = False,
) -> None:
    """Score a model in and out of distribution."""
    engine = Run(**run).start()
    given: Given = {**labels, "predictions": predictions, "system": system, "seed": seed}
    trained = srnet.evaluate(model, task=task_spec(task, data, engine), **given, engine=engine)
    _print_trained(trained, json)
    for split, report in _id_first(trained.scores):
        if subcases and report["groups"] and not json:
            metric = "ss" if "ss" in report["metrics"] else "accuracy"  # of pairs of sentences, and of classes
            out.print(_subcases_table(split, report["groups"], metric))


@app.command("bias", cls=Command)
def _bias(*, new: TaskOption, bias: Bias, data: Data, run: ShortRun, json: Json = False) -> None:
    """Fit the bias model of a task and show how biased it is: high in distribution, poor out of it."""
    engine = Run(**run).start()
    _print_trained(srnet.bias_model(_new_task(new, data, engine), srnet.BiasSpec(**bias), engine=engine), json)


@dataclass(frozen=True)
class _Origin:
    """The model that a mask belongs to, and where the result goes."""

    backbone: str
    """The model that the mask was found in: a folder, or a hub name (set SRNET_DOWNLOAD=1 to fetch it)."""
    out: Path
    """The new folder."""
    labels: tuple[str, ...] = ()
    """Labels of the model, with commas, in the order of its outputs."""
    task: str | None = None
    """A task that has these labels, instead: as in `srnet finetune`."""
    label_words: tuple[str, ...] = ()
    """For smp: one word per label, with commas, e.g. Yes,Maybe,No. Default: the task's, if it has some."""


@app.command("import", cls=Command, no_args_is_help=True)
def _import_mask(
    *,
    format: Annotated[str, typer.Argument(help="smp or srnet-reference; see above.")],
    file: Annotated[Path, typer.Argument(help="smp: the .npy file, unpacked from its .zip. srnet-reference: mask.pt.")],
    origin: Annotated[Given, Fields("Options", _Origin)],
) -> None:
    """Import masks that others have published, each as a folder to evaluate and export like your own.

    smp: a mask of static model pruning (SMP), one bit for each weight of the backbone's layers. SMP trains no head: a
    label's logit is the one that the backbone's language model gives its label word at [CLS]. Without label words the
    model has a classifier: the checkpoint's own where its labels fit, else a random one.

    srnet-reference: a mask of the SRNet paper's code, a mask.pt with zeros and ones for each matrix, by name. A file
    that holds anything but tensors is refused, and nothing in it is run. Masks of the pooler and the classifier are
    imported as well. The weights are those of --backbone: for a mask of a fine-tuned model, give that model's folder.
    Its classifier is kept if it has as many labels, of the same names where it names them; otherwise the head is
    randomly initialised. A remark says which.

    Then: srnet evaluate DIR --task TASK.
    """
    if "task" in origin:
        origin["task"] = srnet.DataOptions().task(origin["task"])
    made = srnet.import_mask(file, format=format, **origin)
    kept = f"{made.mask.kept:,} of {made.mask.total:,} weights kept in {len(made.mask)} matrices"
    counted = f"sparsity {made.mask.sparsity:.6f}, counted on the mask: {kept}"
    out.print(str(made.folder), counted, *made.remarks, sep="\n")


@app.command("export", cls=Command)
def _export(*, model: Model, format: Format, path: ExportPath, folder: StoreFolder) -> None:
    """Export a model, on the CPU. `srnet export --format NAME --help` shows the options of a format."""
    remarks: list[str] = []
    engine = Run(**folder, quiet=True).start()
    written = srnet.export_model(model, path, format=format, engine=engine, say=remarks.append)
    out.print(str(written), *remarks, sep="\n")


@app.command("pretrain", cls=Command)
def _pretrain(*, path: BackbonePath, settings: PretrainOptions, run: QuietRun) -> None:
    """Pre-train the embedded backbone again, on the grammar alone and on the CPU."""
    out.print(str(srnet.pretrain(path, srnet.PretrainSettings(**settings), Reporter(**run))))
