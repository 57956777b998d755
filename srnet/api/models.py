"""Single models: train, prune, score, export and import them; the bias model of a task; the embedded backbone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from srnet.api.starts import Names, Start, Training, as_read
from srnet.audit.predictions import saving
from srnet.config.values import arguments_of, build
from srnet.core.errors import UserError, choose
from srnet.core.files import read_json, require_new
from srnet.core.names import EMBEDDED
from srnet.core.progress import Reporter
from srnet.core.tables import Shown
from srnet.evaluation import BIASED_BY, KEEPS_ID
from srnet.evaluation.metrics import score_split
from srnet.experiment.engine import Engine
from srnet.experiment.known import known_about
from srnet.experiment.nodes.base import TaskSpec, load_task
from srnet.experiment.nodes.bias import BiasSpec, Needs
from srnet.experiment.nodes.models import Evaluate, ModelNode, Pretrained, answers_of
from srnet.experiment.nodes.objectives import Objective, ObjectiveSources, make_objective
from srnet.experiment.nodes.training import FineTune, Prune
from srnet.experiment.rebuild import stored_model
from srnet.experiment.store import read_logits
from srnet.masks.mask import Mask
from srnet.masks.timed import Latency
from srnet.models.exported import EXPORT
from srnet.models.formats.base import Format, Source, get_format
from srnet.models.model import match
from srnet.models.open import is_key, open_model
from srnet.models.pretraining import pretrain as pretrain_backbone
from srnet.models.published import IMPORTED, outputs_of, read_published
from srnet.models.subnetwork import Subnetwork
from srnet.objectives.base import parse_objective
from srnet.pruners.base import OfUnits, Pruner, speedup_text
from srnet.pruners.penalised import Penalised
from srnet.recipes.profiles import check_rates, finetuning_for, pruning_for
from srnet.tasks.synthetic.pretrain_settings import PretrainSettings
from srnet.timing.latency import latency_of, with_latency
from srnet.training.settings import TrainingSettings

TOLERANCE = 0.002
"""How far a pruner without a budget may miss its sparsity before a remark says so."""


@dataclass(frozen=True, repr=False)
class Trained(Shown, says="sentence"):
    """A model in the store and its scores."""

    key: str
    folder: Path
    sparsity: float
    scores: dict[str, Any]
    remarks: tuple[str, ...] = ()
    """What to know before relying on the scores."""

    @property
    def sentence(self) -> str:
        """Which model it is, its sparsity, and its accuracy, or another metric, on each split."""
        scores = [f"{split} {next(iter(each['metrics'].values())):.1f}" for split, each in self.scores.items()]
        return ", ".join([self.key or str(self.folder), f"sparsity {self.sparsity:.4f}", *scores])

    def _rows(self) -> list[Any]:
        rows = {split: dict(each) for split, each in self.scores.items()}
        return [{"split": split, **row.pop("metrics"), **row} for split, row in rows.items()]


def _objective(text: str, raw: Pretrained, full: TrainingSettings, engine: Engine, given: dict[str, Any]) -> Objective:
    """The objective that `text` names, with the needs that were given. Any that it does not read is an error.

    `full` is the training of full CE models, for objectives that learn from one.
    """
    given = arguments_of(Needs, {name: value for name, value in given.items() if value is not None})
    needs = Needs(**given)
    if "temperature" in given and needs.distil is None:
        raise UserError("a temperature without distillation", "give the share of the loss as well: --distil 0.5")
    taught = needs.distil is not None or "teacher" in parse_objective(text)[0].needs
    if needs.teacher is None and taught and not raw.is_full:
        what = f"objective '{text}'" if needs.distil is None else "distillation"
        raise UserError(f"{what} needs a teacher", "give the key of a model trained with ce: --teacher")
    if needs.teacher is not None and not taught:
        raise UserError(f"objective '{text}' takes no teacher", "leave out --teacher, or add --distil 0.5")
    teacher: ModelNode | None = raw if taught else None  # a full model is its own teacher
    if needs.teacher is not None:
        teacher = stored_model(engine.store, needs.teacher)
    sources = ObjectiveSources(
        bias=lambda: needs.bias.node(raw.task, raw.weak_backbone),
        full=lambda: raw if raw.is_full else FineTune(raw, training=full),
        teacher=teacher,
    )
    # the constructor refuses nodes that the objective does not read
    nodes: dict[str, Any] = {} if teacher is None else {"teacher": answers_of(teacher)}
    if "bias" in given:
        nodes["bias"] = sources.bias()
    made = make_objective(text, sources)
    return replace(made, **nodes, distillation=needs.distil, temperature=needs.temperature)


def _settings(default: TrainingSettings, given: Training) -> TrainingSettings:
    return given if isinstance(given, TrainingSettings) else default.changed(given or {})


def finetune(
    model: TaskSpec | str | Path | ModelNode,
    objective: str = "ce",
    *,
    task: TaskSpec | None = None,
    labels_are: Names = (),
    backbone: str = EMBEDDED,
    training: Training = None,
    words: tuple[str, ...] = (),
    engine: Engine | None = None,
    **needs: Any,
) -> Trained:
    """Fine-tune a backbone on a task, or train the weights of a model further, under its mask.

    `model` is a task, for the raw `backbone`; or the key of a model in the store, or an expression such as
    `Pretrained(...)`; or, with `task`, the folder or hub name of a model that was fine-tuned elsewhere. Its outputs are
    matched with the labels of the task by name; `labels_are` gives the names that differ, {"LABEL_0": "negative"}. It
    reads texts as long as it did, unless the training has a `max_length`.

    `objective` is the loss: ce, poe, reweight, ... `words`, one word per label, select the language-model head of the
    backbone; `("task",)` stands for those of the task. `training` may be a dict of what differs from the defaults.
    `needs` are fields of `Needs`: bias, teacher, distil, temperature. `engine` trains, and has the store.
    """
    engine = engine or Engine()
    start = Start(model, task, labels_are, backbone, words, training).node(engine)
    full = _finetuning_of(start)
    settings = _settings(full, training)
    if not isinstance(model, str | Path | ModelNode):  # the settings are those of the full model itself
        full = settings
    node = FineTune(start, _objective(objective, start.pretrained, full, engine, needs), settings)
    engine.execute([node, Evaluate(node)])
    return _trained(node, engine)


def _finetuning_of(model: ModelNode) -> TrainingSettings:
    """The training of full CE models with the seed of a model."""
    raw = model.pretrained
    return as_read(replace(finetuning_for(raw.backbone, raw.task), seed=raw.seed), model)


def prune(
    model: TaskSpec | str | Path | ModelNode,
    pruner: Pruner,
    objective: str = "ce",
    *,
    task: TaskSpec | None = None,
    labels_are: Names = (),
    backbone: str = EMBEDDED,
    training: Training = None,
    words: tuple[str, ...] = (),
    engine: Engine | None = None,
    **needs: Any,
) -> Trained:
    """Prune `model` with `pruner`. All other arguments are as in `finetune`.

    With a task, the raw backbone is pruned. Its head is the checkpoint's own classifier where that has the labels of
    the task, else randomly initialised from the seed of the training.
    """
    engine = engine or Engine()
    given = Start(model, task, labels_are, backbone, words, training)
    start = given.node(engine)
    raw = start.pretrained
    made = _objective(objective, raw, _finetuning_of(start), engine, needs)
    if isinstance(training, Mapping):
        check_rates(pruner.name, raw.words, training)
    pruner = with_latency(pruner, raw.backbone, engine)
    if pruner.trains:
        default = replace(pruning_for(raw.backbone, pruner.name, start.task_spec), seed=raw.seed)
        node = Prune(start, pruner, made, _settings(as_read(default, start), training))
    else:
        given.check_untrained(pruner.name)
        node = Prune(start, pruner, made)
    engine.execute([node, Evaluate(node)])
    return _with_remarks(_trained(node, engine), pruner)


def _with_remarks(trained: Trained, pruner: Pruner) -> Trained:
    if isinstance(pruner, OfUnits) and pruner.speedup is not None:
        aim = f"the encoder is {speedup_text(pruner.speedup)} by estimate, once its units are removed"
        return _remarked(
            trained, f"{aim}: `srnet export {trained.key} --format shrunk --out DIR`, then `srnet speed DIR`"
        )
    if abs(trained.sparsity - pruner.sparsity) <= TOLERANCE:
        return trained
    reached = f"{100 * trained.sparsity:.2f} % sparsity"
    if isinstance(pruner, OfUnits) and pruner.needs_units:
        return _remarked(trained, f"whole units reach {reached}; {pruner.aim} was requested")
    if not isinstance(pruner, Penalised):
        return trained
    aim = f"{pruner.aim} was requested" if pruner.penalty is None else "with lambda given, none was requested"
    return _remarked(trained, f"the penalty reached {reached}; {aim}")


def _remarked(trained: Trained, remark: str) -> Trained:
    return replace(trained, remarks=(*trained.remarks, remark))


def latency(backbone: str, engine: Engine | None = None) -> Latency:
    """The latency table of `backbone` on this machine, for pruners with a speed-up: as `engine` has it, or measured."""
    return latency_of(backbone, engine or Engine())


def _trained(node: ModelNode, engine: Engine) -> Trained:
    """A model that was computed together with its scores."""
    report = read_json(engine.store.path(Evaluate(node).key) / "scores.json")
    remarks = () if node.eval_precision == "float32" else (f"evaluated in {node.eval_precision}",)
    return Trained(node.key, engine.store.path(node.key), report["sparsity"], report["splits"], remarks)


def evaluate(
    model: str | Path,
    *,
    task: TaskSpec | None = None,
    labels_are: Names = (),
    predictions: Path | str | None = None,
    system: str | None = None,
    seed: int | None = None,
    engine: Engine | None = None,
) -> Trained:
    """Score `model`: one of the store of `engine`, by key, on its own task; any that `open_model` opens on `task`.

    `labels_are` gives the names of its labels that differ from the task's, {"LABEL_0": "negative"}. `predictions` is a
    csv file that gets every answer, for `srnet.verdict`, as those of `system` and `seed`; by default these are the
    formula and the seed of a model in the store, the name of any other and 0.
    """
    engine = engine or Engine()
    if predictions is None and (system is not None or seed is not None):
        raise UserError("a system or a seed without a file of predictions", "add --predictions FILE.csv")
    if is_key(model, engine.models):
        node = engine.models.find(str(model))
        if task is not None or labels_are:
            raise UserError("a model of the store is scored on its own task", "leave out the task and its labels")
        own = node.pretrained.seed if seed is None else seed
        save = saving(predictions, load_task(node.task_spec), system or node.formula, own)
        engine.execute([node, Evaluate(node)])  # the model too: scores may outlive a model that was removed
        save(read_logits(engine.store, Evaluate(node).key))
        return _trained(node, engine)
    if task is None:
        raise UserError(f"{model} is no key of the store", "give the task to score it on: --task TASK")
    data = load_task(task)
    save = saving(predictions, data, system or Path(model).name, seed or 0)
    opened = open_model(model, task=data).require_labels()
    matched = match(opened, data.labels, dict(getattr(task, "spellings", ())), dict(labels_are))
    outputs = {name: opened.outputs(data, data.splits[name], matched.order) for name in data.scored}
    save(outputs)
    scores = {name: score_split(data, data.splits[name], each) for name, each in outputs.items()}
    return Trained("", Path(model), opened.sparsity, scores, (matched.note,) if matched.note else ())


def bias_model(task: TaskSpec, spec: BiasSpec | None = None, *, engine: Engine | None = None) -> Trained:
    """Fit the bias model of `task`. Its remarks say whether it is biased; one that is not cannot debias.

    `spec` says how the shortcut is measured, and names the backbone of weak models; `engine` keeps the model.
    """
    engine, spec, data = engine or Engine(), spec or BiasSpec(), load_task(task)
    node = spec.node_alone(task)
    engine.execute([node])
    folder = engine.store.path(node.key)
    scores, remarks = read_json(folder / "scores.json"), list(data.notes)
    remarks += node.remarks
    own = scores[data.dev.name]
    gain = own["metrics"][data.metric] - own["majority"][data.metric]
    if gain < BIASED_BY:
        remarks.append(
            f"only {gain:.1f} points above the majority class on {data.dev.name}: it can hardly tell what the shortcut "
            "gets right, so debiasing with it will change little"
        )
    return Trained(node.key, folder, 0.0, scores, tuple(remarks))


# --- what enters and leaves ----------------------------------------------------------------------------------------


def export_model(
    model: str | Path,
    out: Path | str,
    *,
    format: str | Format = "merged",
    engine: Engine | None = None,
    say: Callable[[str], None] = lambda line: None,
    keeps: float = KEEPS_ID,
    **options: Any,
) -> Path:
    """Write `model`, of the store of `engine` (by key) or a subnetwork's folder, to `out`, in a format for others.

    `format` is one of `srnet.models.formats.base.FORMATS`, by its name or as an instance. `options` are the fields of
    the named one: `dtype` of `subnetwork`, `uniform` of `shrunk`, `int8` of `onnx`. `say` is called with remarks on
    the result. `keeps` is the share of the full model's ID score that the verdict on the card requires.
    """
    chosen = build(get_format(format), options) if isinstance(format, str) else format
    out = Path(out)
    if not chosen.is_file:
        require_new(out)
    for line in chosen.write(_source(model, engine or Engine(), keeps), out):
        say(line)
    return out


def _source(model: str | Path, engine: Engine, keeps: float) -> Source:
    """The model to export, from the store or from the folder of a subnetwork."""
    if not is_key(model, engine.models):
        if EXPORT.is_in(model):
            raise UserError(f"{model} is an exported model already", "give the key or the folder of its subnetwork")
        return Source(*Subnetwork.open(Path(model)))
    node = engine.models.find(str(model))
    subnetwork = replace(Subnetwork.load(engine.store.path(node.key)), max_length=node.max_length)
    return Source(subnetwork, about=known_about(engine.store, node, keeps), task=load_task(node.task_spec))


@dataclass(frozen=True)
class Imported:
    """An imported mask and the folder of its subnetwork."""

    folder: Path
    mask: Mask
    remarks: tuple[str, ...]
    """What to know before relying on its scores."""


def import_mask(
    file: Path | str,
    out: Path | str,
    *,
    format: str,
    backbone: str,
    labels: Sequence[str] = (),
    label_words: Sequence[str] = (),
    task: TaskSpec | None = None,
) -> Imported:
    """Read a published mask from `file` and write it, with the weights of `backbone`, as the subnetwork folder `out`.

    `format` is `smp` (packed bits in a `.npy`) or `srnet-reference` (a `mask.pt`). Such files say nothing about labels:
    give `labels` in the order of the model's outputs, or a `task` that has them. `label_words` is for `smp`: one word
    per label, whose logits of the language model are the model's outputs; a task may know its words. Without them the
    checkpoint's own classifier is kept where its labels fit, and a remark says whether it was.
    """
    choose("format", format, IMPORTED)
    if not Path(file).exists():  # before labels are required
        raise UserError(f"{file} does not exist", "check the path")
    out = require_new(Path(out))
    # a description of files knows its labels itself, so the data need not be there
    known = task if task is None or hasattr(task, "labels") else load_task(task)
    chosen, head = outputs_of(format, backbone, tuple(labels), tuple(label_words), known)
    subnetwork, mask, remarks = read_published(Path(file), format, backbone, chosen, head)
    subnetwork.save(out)
    return Imported(out, mask, tuple(remarks))


def pretrain(out: Path | str, settings: PretrainSettings | None = None, reporter: Reporter | None = None) -> Path:
    """Pre-train the embedded backbone again, with `settings`, and write it to `out`; `reporter` shows the progress."""
    out, reporter = require_new(Path(out)), reporter or Reporter()
    with reporter.session():
        step = reporter.begin(1, 1, f"pre-train {out.name}")
        pretrain_backbone(out, settings, step.advance)
        step.finish()
    return out
