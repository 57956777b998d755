"""Reading stored predictions and logits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.special import log_softmax

from srnet.bias.features import task_vocabulary
from srnet.bias.model import BiasPredictions, fit_bias_model
from srnet.bias.vectors import WordVectors, is_vector_file
from srnet.core.arrays import finite_logits
from srnet.core.device import current_device
from srnet.core.errors import UserError
from srnet.core.files import new_folder, remove_leftovers, write_json
from srnet.core.progress import Watch
from srnet.evaluation.metrics import measure, score_split
from srnet.experiment.nodes.base import Node, load_task
from srnet.experiment.nodes.bias import BiasModel, WeakModel
from srnet.experiment.nodes.models import Evaluate, ModelNode, Pretrained, Rewind
from srnet.experiment.nodes.objectives import NEEDS, Objective
from srnet.experiment.nodes.training import FineTune, Moment, Prune, PruneRun, Training, Trajectory
from srnet.experiment.store import Store
from srnet.models.backbones import LoadedBackbone, load_backbone
from srnet.models.subnetwork import Subnetwork
from srnet.objectives.base import StatefulLoss
from srnet.objectives.distillation import distilled
from srnet.tasks.answers.base import AnswerKind
from srnet.tasks.answers.classes import CLASSES
from srnet.tasks.base import Task
from srnet.tasks.splits import Split, joined
from srnet.training.data import Encoded, token_batches
from srnet.training.method import LATE, Method, Snapshot, SnapshotsAtSteps, split_snapshot
from srnet.training.predict import EVAL_TOKENS, predict
from srnet.training.spans import inputs_for
from srnet.training.trainer import Result, Run, train

if TYPE_CHECKING:
    from srnet.bias.model import BiasPredictions


TOKENS = "{} tokens"
"""The name under which the logits of every token of a split are stored."""


def bias_predictions(store: Store, node: Node, split: str) -> BiasPredictions:
    from srnet.bias.model import BiasPredictions  # not at the top: it imports scikit-learn

    with np.load(store.path(node.key) / f"{split}.npz", allow_pickle=False) as file:
        return BiasPredictions(tuple(file["ids"].tolist()), file["log_probs"])


def load_logits(store: Store, node: Evaluate) -> dict[str, np.ndarray]:
    return read_logits(store, node.key)


def read_logits(store: Store, key: str) -> dict[str, np.ndarray]:
    """By split. They are checked again, because earlier versions stored non-finite ones."""
    with np.load(store.path(key) / "logits.npz", allow_pickle=False) as file:
        return {name: finite_logits(file[name], f"the model of evaluation {key}") for name in file.files}


# --- the computation of each kind of node ---

__all__ = [
    "TOKENS",
    "Context",
    "bias_predictions",
    "compute",
    "load_logits",
    "logits_on",
    "score_splits",
    "word_vectors",
]


class SecondaryRankDone(Exception):
    """A secondary rank has finished its part of a training."""


@dataclass(frozen=True)
class Context:
    store: Store
    report_to: tuple[str, ...] = ()
    watch: Watch | None = None
    secondary_rank: bool = False
    """Whether this process only takes part in a training, and the main process writes the result."""

    def subnetwork(self, node: ModelNode) -> Subnetwork:
        return Subnetwork.load(self.store.path(node.key))


@singledispatch
def compute(node: Node, context: Context, folder: Path) -> None:
    """Fill `folder` with the node's artifact. Its parents are in the store."""
    raise TypeError(f"no function is registered to compute {type(node).__name__}")


# --- the shortcut --------------------------------------------------------------------------------------------------


@compute.register
def _(node: BiasModel, context: Context, folder: Path) -> None:
    task = load_task(node.task)
    vectors = None if node.vectors is None else word_vectors(node.vectors, task)
    shortcut = node.shortcut or task.shortcut
    _write_bias(task, fit_bias_model(task, shortcut, vectors, node.folds, extended=node.extended), folder)


def word_vectors(source: str, task: Task) -> WordVectors:
    """Those of a backbone, or of a file: then of the task's words alone."""
    if is_vector_file(source):
        return WordVectors.read(source, task_vocabulary(task))
    return WordVectors.from_backbone(source)


@compute.register
def _(node: WeakModel, context: Context, folder: Path) -> None:
    task = load_task(node.task)
    logits, _ = score_splits(context.subnetwork(node.first), task, tuple(task.splits), node.first.max_length)
    seen = task.train.shuffled_rows(*node.first.part)  # type: ignore[misc]
    unseen = {task.train.name: task.train.take(seen)}
    logits[task.train.name][seen] = logits_on(context.subnetwork(node.second), unseen, node.second.max_length)[
        task.train.name
    ]
    predictions = {
        name: BiasPredictions(task.splits[name].ids, log_softmax(each, axis=1)) for name, each in logits.items()
    }
    _write_bias(task, predictions, folder)


def _write_bias(task: Task, predictions: dict[str, BiasPredictions], folder: Path) -> None:
    report = {}
    for name, each in predictions.items():
        np.savez(folder / f"{name}.npz", ids=np.array(each.ids), log_probs=each.log_probs)
        report[name] = score_split(task, task.splits[name], each.log_probs)
    write_json(folder / "scores.json", report)


# --- models --------------------------------------------------------------------------------------------------------


@compute.register
def _(node: Pretrained, context: Context, folder: Path) -> None:
    labels = load_task(node.task).labels
    base = load_backbone(node.backbone, labels, node.seed, node.head)
    node.own_classifier.copy_into(base.model)
    Subnetwork.of(base, labels, base.model.state_dict(), None).write_into(folder)


@compute.register
def _(node: FineTune, context: Context, folder: Path) -> None:
    parent = context.subnetwork(node.parent)
    _write(node, parent, _train(node, Method(parent.mask), context, node.part), folder)


@compute.register
def _(node: Trajectory, context: Context, folder: Path) -> None:
    _unmasked(context, node.parent)
    _train_and_keep(node, SnapshotsAtSteps(node.steps), context, folder)


@compute.register
def _(node: Moment, context: Context, folder: Path) -> None:
    Subnetwork.load(_kept(context.store.path(node.trajectory.key), node.step)).write_into(folder)


@compute.register
def _(node: Prune, context: Context, folder: Path) -> None:
    if node.levels is not None:
        Subnetwork.load(_kept(context.store.path(node.levels.key), node.pruner.share)).write_into(folder)
        return
    parent = _unmasked(context, node.parent)
    if node.pruner.trains:
        method = node.pruner.method(fine_tuned=node.fine_tuned, eval_every=node.training.eval_every)
        _write(node, parent, _train(node, method, context), folder)
        return
    base = parent.base()
    model = parent.model(base)
    batches = _calibration(node, base) if node.pruner.rows else []
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    if batches:  # they go through the model
        model.to(current_device())
    Subnetwork.of(parent.base(), parent.labels, state, node.pruner.mask(model, batches)).write_into(folder)


def _calibration(node: Prune, base: LoadedBackbone) -> list[dict[str, torch.Tensor]]:
    """Batches of ID training data, with labels, for a pruner that needs data: the same rows for the same seed."""
    task, seed = load_task(node.task_spec), node.pretrained.seed
    rows = np.random.default_rng(seed).permutation(len(task.train))[: node.pruner.rows]
    data = inputs_for(
        task.answer_kind, task.train.take(np.sort(rows)), base.tokenizer, base.max_length(node.max_length)
    )
    return [data.collate(batch) for batch in token_batches(data.lengths, EVAL_TOKENS)]


@compute.register
def _(node: PruneRun, context: Context, folder: Path) -> None:
    _unmasked(context, node.parent)
    method = node.pruner.method(fine_tuned=node.parent.fine_tuned, eval_every=node.training.eval_every)
    _train_and_keep(node, method, context, folder)


def _kept(folder: Path, moment: float) -> Path:
    """The folder of one model of a run that yields several, by sparsity or step."""
    return folder / f"at-{moment}"


@compute.register
def _(node: Rewind, context: Context, folder: Path) -> None:
    target, mask = context.subnetwork(node.to), context.subnetwork(node.subnetwork).mask
    if mask is None:
        raise UserError(f"{node.subnetwork.label} has no mask to rewind")
    state = target.state(target.base())
    Subnetwork.of(target.base(), target.labels, state, mask).write_into(folder)


def _unmasked(context: Context, node: ModelNode) -> Subnetwork:
    subnetwork = context.subnetwork(node)
    if subnetwork.mask is not None:
        raise UserError(f"{node.label} is already pruned", "prune a full model")
    return subnetwork


def _train_and_keep(node: Training, method: Method, context: Context, folder: Path) -> None:
    """Train, and keep every model that the method emits."""
    parent, kept = context.subnetwork(node.parent), context.store.work(node.key) / "kept"

    def keep(moment: float, snapshot: Snapshot) -> None:
        """Written at once, so that it survives a kill; a resumed run writes it again, bit for bit the same."""
        weights, mask = split_snapshot(snapshot)
        with new_folder(_kept(kept, moment), replace=True) as staging:
            Subnetwork.of(parent.base(), parent.labels, weights, mask).write_into(staging)

    method.emit = keep
    if not context.secondary_rank:
        remove_leftovers(kept)
    result = _train(node, method, context)
    for each in sorted(kept.iterdir()):
        if not each.name.startswith("."):
            Subnetwork.load(each).write_into(folder / each.name)
    write_json(folder / "training.json", _training_record(result))


def _train(node: Training, method: Method, context: Context, part: tuple[int, int] | None = None) -> Result:
    task, subnetwork, settings = load_task(node.task_spec), context.subnetwork(node.parent), node.training
    base, answer = subnetwork.base(), task.answer_kind
    splits = task.training_data(node.data)
    if part is not None:
        splits = (task.train.take(task.train.shuffled_rows(*part)),)

    def scored(split: Split) -> tuple[Encoded, Callable[[np.ndarray], float]]:
        data = inputs_for(answer, split, base.tokenizer, base.max_length(settings.max_length))

        def judge(logits: np.ndarray) -> float:
            return 100.0 * measure(task.metric, answer.decode(split, data.outputs(logits)), split.labels)

        return data, judge

    dev, score = scored(task.dev if settings.dev_rows is None else task.dev.sample(settings.dev_rows))
    traced = [split.sample(settings.trace) for split in task.ood.values()] if settings.trace else []
    loss = node.objective.loss.make(dict(node.objective.options), answer)
    extras = {
        need: NEEDS[need].values(node.objective.nodes.get(need), splits, task, context.store)
        for need in node.objective.needs
    }
    run = Run(
        model=subnetwork.model(base),
        method=method,
        loss=_with_teacher(node.objective, loss, answer),
        needs=node.objective.needs,
        loss_state=loss if isinstance(loss, StatefulLoss) else None,
        settings=settings,
        train=inputs_for(answer, joined(splits), base.tokenizer, base.max_length(settings.max_length), extras),
        dev=dev,
        score=score,
        trace={split.name: scored(split) for split in traced},
        select_after=LATE if node.objective.loss.debiases and settings.selects_late else 0.0,
        folder=context.store.work(node.key),
        tracker_folder=context.store.root / "runs" / node.key,
        report_to=context.report_to,
        watch=context.watch,
    )
    result = train(run)
    if context.secondary_rank:
        raise SecondaryRankDone
    return result


def _with_teacher(objective: Objective, loss: Any, answer: AnswerKind) -> Any:
    if objective.distillation is None:
        return loss
    return distilled(loss, objective.distillation, objective.temperature, objective.loss.needs, answer)


def _training_record(result: Result) -> dict[str, Any]:
    return {
        "selected_step": result.step,
        "dev_score": result.dev_score,
        "steps": result.steps,
        "step_seconds": result.step_seconds,
        "device": result.device,
        "data_percent": result.data_percent,
        "log": result.log,
    }


def _write(node: ModelNode, parent: Subnetwork, result: Result, folder: Path) -> None:
    weights, mask = split_snapshot(result.snapshot)
    Subnetwork.of(parent.base(), parent.labels, weights, mask).write_into(folder)
    write_json(folder / "training.json", _training_record(result))


# --- scores --------------------------------------------------------------------------------------------------------


@compute.register
def _(node: Evaluate, context: Context, folder: Path) -> None:
    subnetwork, task = context.subnetwork(node.model), load_task(node.model.task_spec)
    logits, report = score_splits(subnetwork, task, node.names, node.model.max_length)
    if node.splits is None:  # logits per token are only for teachers, which name the split
        logits = {name: logits[name] for name in node.names}
    np.savez(folder / "logits.npz", **logits)  # type: ignore[arg-type]
    write_json(folder / "scores.json", {"sparsity": subnetwork.sparsity, "splits": report})


def score_splits(
    subnetwork: Subnetwork, task: Task, names: tuple[str, ...], max_length: int
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Logits and scores of a model, by split."""
    logits = logits_on(subnetwork, {name: task.splits[name] for name in names}, max_length, task.answer_kind)
    return logits, {name: score_split(task, task.splits[name], logits[name]) for name in names}


def logits_on(
    subnetwork: Subnetwork, splits: dict[str, Split], max_length: int, answer: AnswerKind = CLASSES
) -> dict[str, np.ndarray]:
    """By split. For spans: the selected characters, and under a name of their own the logits of every token."""
    base = subnetwork.base()
    model = subnetwork.model(base).to(current_device())
    found: dict[str, np.ndarray] = {}
    for name, split in splits.items():
        data = inputs_for(answer, split, base.tokenizer, base.max_length(max_length))
        logits = predict(model, data)
        found[name] = data.outputs(logits)
        if answer.per_token:
            found[TOKENS.format(name)] = logits
    return found
