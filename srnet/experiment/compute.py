"""The computation of nodes: one node under its lock, and a function for each kind of node."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import singledispatch
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from scipy.special import log_softmax

from srnet import __version__
from srnet.bias.model import BiasPredictions, fit_bias_model
from srnet.bias.shortcuts.base import FeatureOptions
from srnet.bias.texts import task_vocabulary
from srnet.bias.vectors import WordVectors, is_vector_file
from srnet.core.device import current_device
from srnet.core.errors import UserError
from srnet.core.files import new_folder, remove_leftovers, write_json
from srnet.core.progress import Watch
from srnet.evaluation.metrics import gain, score_split
from srnet.experiment.identity import describe
from srnet.experiment.nodes.base import Node, load_task
from srnet.experiment.nodes.bias import BiasModel, WeakModel
from srnet.experiment.nodes.models import Evaluate, FineTuned, ModelNode, Pretrained, Quantised, Rewind, shared_backbone
from srnet.experiment.nodes.objectives import NEEDS, Objective
from srnet.experiment.nodes.training import FineTune, Moment, Prune, Training
from srnet.experiment.store import TOKENS, Busy, Store
from srnet.models.backbones import LoadedBackbone, load_backbone
from srnet.models.rounding import round_weights
from srnet.models.subnetwork import Subnetwork
from srnet.objectives.base import StatefulLoss
from srnet.objectives.distillation import distilled
from srnet.tasks.answers.base import AnswerKind
from srnet.tasks.answers.classes import CLASSES
from srnet.tasks.base import Task
from srnet.tasks.splits import Split, joined
from srnet.training.data import Encoded, token_batches
from srnet.training.hardware import computing_in
from srnet.training.method import LATE, Method, Snapshot, split_snapshot
from srnet.training.predict import EVAL_TOKENS, predict
from srnet.training.spans import inputs_for
from srnet.training.trainer import Result, Run, train


@dataclass(frozen=True)
class Context:
    """What the computation of a node may use besides the node."""

    store: Store
    report_to: tuple[str, ...] = ()
    watch: Watch | None = None
    secondary_rank: bool = False
    """Whether this process only takes part in a training, and the main process writes the result."""

    def subnetwork(self, node: ModelNode) -> Subnetwork:
        """The stored model. The folder of one that was fine-tuned elsewhere may have been moved since."""
        found, raw = Subnetwork.load(self.store.path(node.key)), node.pretrained
        return replace(found, backbone=raw.backbone) if isinstance(raw, FineTuned) else found


@dataclass(frozen=True)
class Outcome:
    """`busy`: another process computes the node. `died`: the worker process ended without a result."""

    node: Node
    status: Literal["done", "busy", "died", "failed"]
    error: BaseException | None = None


class SecondaryRankDone(Exception):
    """A secondary rank has finished its part of a training."""


@singledispatch
def compute(node: Node, context: Context, folder: Path) -> None:
    """Fill `folder` with the node's artifact. Its parents are in the store."""
    raise TypeError(f"no function is registered to compute {type(node).__name__}")


def compute_once(
    node: Node,
    context: Context,
    say: Callable[[str], None] = lambda line: None,
    before: Callable[[bool], None] | None = None,
    *,
    wait: bool = True,
) -> Outcome:
    """Compute `node` under its lock, unless the store has it. Without `wait` it may be busy.

    `say` gets a line if another process has the lock. `before` is called under the lock, with whether the node must be
    computed.
    """
    store, waiting = context.store, f"waiting for another process that computes {node.key}"
    try:
        with store.lock(node.key, on_wait=lambda: say(waiting), wait=wait):
            needed = not store.has(node.key)  # another process may have been faster
            if before is not None:
                before(needed)
            if needed:
                with store.writing(node.key, type(node).__name__, node.label, describe(node), __version__) as folder:
                    compute(node, context, folder)
    except Busy:
        return Outcome(node, "busy")
    except Exception as error:
        return Outcome(node, "failed", error)
    return Outcome(node, "done")


# --- the shortcut ----------------------------------------------------------------------------------------------------


@compute.register
def _compute_bias_model(node: BiasModel, context: Context, folder: Path) -> None:
    task = node.load_measured()
    options = FeatureOptions(None if node.vectors is None else word_vectors(node.vectors, task), node.extended)
    _write_bias(task, fit_bias_model(task, node.suspected, options, node.folds), folder)


def word_vectors(source: str, task: Task) -> WordVectors:
    """The word vectors of a backbone, or of a file: then of the task's words alone."""
    if is_vector_file(source):
        return WordVectors.read(source, task_vocabulary(task))
    return WordVectors.from_backbone(source)


@compute.register
def _compute_weak_model(node: WeakModel, context: Context, folder: Path) -> None:
    task = load_task(node.task)
    train = task.train.name
    logits = _logits(context.subnetwork(node.first), task.splits, node.first.max_length)
    seen = task.train.shuffled_rows(*node.first.part)  # type: ignore[misc]
    unseen = {train: task.train.take(seen)}
    logits[train][seen] = _logits(context.subnetwork(node.second), unseen, node.second.max_length)[train]
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


# --- models that need no training ------------------------------------------------------------------------------------


def _backbone(subnetwork: Subnetwork) -> LoadedBackbone:
    """The backbone of a subnetwork, which nothing may change; `_own` makes a copy for a model."""
    base = shared_backbone(subnetwork.backbone, subnetwork.labels, subnetwork.head)
    return base if base.sha256 == subnetwork.backbone_sha256 else subnetwork.base()


def _own(base: LoadedBackbone) -> LoadedBackbone:
    return replace(base, model=deepcopy(base.model))


@compute.register
def _compute_pretrained(node: Pretrained, context: Context, folder: Path) -> None:
    labels = load_task(node.task).labels
    base = load_backbone(node.backbone, labels, node.seed, node.head)
    node.own_classifier.copy_into(base.model)
    Subnetwork.of(base, labels, base.model.state_dict(), None).write_into(folder)


@compute.register
def _compute_rewind(node: Rewind, context: Context, folder: Path) -> None:
    target, mask = context.subnetwork(node.to), context.subnetwork(node.subnetwork).mask
    if mask is None:
        raise UserError(f"{node.subnetwork.label} has no mask to rewind")
    base = _backbone(target)
    Subnetwork.of(base, target.labels, target.state(base), mask).write_into(folder)


@compute.register
def _compute_quantised(node: Quantised, context: Context, folder: Path) -> None:
    parent = context.subnetwork(node.parent)
    base = _backbone(parent)
    model = parent.model(_own(base))
    round_weights(model)
    Subnetwork.of(base, parent.labels, model.state_dict(), parent.mask).write_into(folder)


@compute.register
def _compute_moment(node: Moment, context: Context, folder: Path) -> None:
    _select(node.trajectory, node.step, context, folder)


def _select(run: Training, moment: float, context: Context, folder: Path) -> None:
    """Copy one model of a run that yields several."""
    Subnetwork.load(_kept(context.store.path(run.key), moment)).write_into(folder)


def _kept(folder: Path, moment: float) -> Path:
    """The folder of one model of a run that yields several, by sparsity or step."""
    return folder / f"at-{moment}"


def _prune_without_training(node: Prune, parent: Subnetwork, folder: Path) -> None:
    base = _backbone(parent)
    own = _own(base)
    model = parent.model(own)
    batches = _calibration(node, own) if node.pruner.rows else []
    if batches:  # they go through the model
        model.to(current_device())
    mask = node.pruner.mask(model, batches)
    Subnetwork.of(base, parent.labels, parent.state(base), mask).write_into(folder)


def _calibration(node: Prune, base: LoadedBackbone) -> list[dict[str, torch.Tensor]]:
    """Batches of ID training data, with labels, for a pruner that needs data: the same rows for the same seed."""
    task, seed = load_task(node.task_spec), node.pretrained.seed
    rows = np.random.default_rng(seed).permutation(len(task.train))[: node.pruner.rows]
    data = inputs_for(
        task.answer_kind, task.train.take(np.sort(rows)), base.tokenizer, base.max_length(node.max_length)
    )
    return [data.collate(batch) for batch in token_batches(data.lengths, EVAL_TOKENS // data.token_cost)]


# --- models that are trained -----------------------------------------------------------------------------------------


@compute.register
def _compute_training(node: Training, context: Context, folder: Path) -> None:
    """Train the parent, and write the selected model, or every model that the method emits."""
    if isinstance(node, Prune) and node.levels is not None:
        _select(node.levels, node.pruner.share, context, folder)
        return
    parent = context.subnetwork(node.parent)
    if parent.mask is not None and not isinstance(node, FineTune):
        raise UserError(f"{node.parent.label} is already pruned", "prune a full model")
    if isinstance(node, Prune) and not node.trains:
        _prune_without_training(node, parent, folder)
        return
    method = node.method(parent.mask)
    if node.holds_several_models:
        _keep_emitted(node, method, parent, context)
    result = train(_training_run(node, method, parent, context))
    if context.secondary_rank:
        raise SecondaryRankDone
    if node.holds_several_models:
        _move_emitted(node, context, folder)
    else:
        _write(parent, result.snapshot, folder)
    write_json(folder / "training.json", _training_record(result))


def _write(parent: Subnetwork, snapshot: Snapshot, folder: Path) -> None:
    weights, mask = split_snapshot(snapshot)
    Subnetwork.of(_backbone(parent), parent.labels, weights, mask).write_into(folder)


def _keep_emitted(node: Training, method: Method, parent: Subnetwork, context: Context) -> None:
    """Keep every model that the method emits in the node's folder of work."""
    kept = context.store.work(node.key) / "kept"
    if not context.secondary_rank:
        remove_leftovers(kept)

    def keep(moment: float, snapshot: Snapshot) -> None:
        """Written at once, so that it survives a kill; a resumed run writes it again, bit for bit the same."""
        with new_folder(_kept(kept, moment), replace=True) as staging:
            _write(parent, snapshot, staging)

    method.emit = keep


def _move_emitted(node: Training, context: Context, folder: Path) -> None:
    for each in sorted((context.store.work(node.key) / "kept").iterdir()):
        if not each.name.startswith("."):
            Subnetwork.load(each).write_into(folder / each.name)


def _training_run(node: Training, method: Method, parent: Subnetwork, context: Context) -> Run:
    """The training of a node, with its data and its loss."""
    task, settings, base = load_task(node.task_spec), node.training, _own(_backbone(parent))
    answer = task.answer_kind
    splits = task.training_data(node.data)
    if isinstance(node, FineTune) and node.part is not None:
        splits = (task.train.take(task.train.shuffled_rows(*node.part)),)
    teacher = node.objective.teacher if answer.language else None
    extras = {
        need: NEEDS[need].values(node.objective.nodes.get(need), splits, task, context.store)
        for need in node.objective.needs
        if teacher is None or need != "teacher"
    }
    dev, score = _scored(task.dev if settings.dev_rows is None else task.dev.sample(settings.dev_rows), node, base)
    traced = [split.sample(settings.trace) for split in task.ood.values()] if settings.trace else []
    loss = node.objective.loss.make(dict(node.objective.options), answer)
    return Run(
        model=parent.model(base),
        method=method,
        loss=_with_teacher(node.objective, loss, answer),
        needs=tuple(extras),
        by_rows=node.objective.loss.by_rows and not answer.language,
        teacher=None if teacher is None else _teacher(teacher.model, context),
        loss_state=loss if isinstance(loss, StatefulLoss) else None,
        settings=settings,
        train=inputs_for(
            answer, answer.trained_on(joined(splits)), base.tokenizer, base.max_length(settings.max_length), extras
        ),
        dev=dev,
        score=score,
        trace={split.name: _scored(split, node, base) for split in traced},
        select_after=LATE if node.objective.loss.debiases and settings.selects_late else 0.0,
        folder=context.store.work(node.key),
        tracker_folder=context.store.root / "runs" / node.key,
        report_to=context.report_to,
        watch=context.watch,
    )


def _teacher(node: ModelNode, context: Context) -> torch.nn.Module:
    """A language model that answers in memory: its logits of a training set would need gigabytes."""
    subnetwork = context.subnetwork(node)
    model: torch.nn.Module = subnetwork.model(_own(_backbone(subnetwork)))
    return model.requires_grad_(False)


def _scored(split: Split, node: Training, base: LoadedBackbone) -> tuple[Encoded, Callable[[np.ndarray], float]]:
    """The inputs of a split, and the function from logits to what is maximised: the task's metric on it, in percent."""
    task = load_task(node.task_spec)
    answer = task.answer_kind
    data = inputs_for(answer, split, base.tokenizer, base.max_length(node.training.max_length))

    def judge(logits: np.ndarray) -> float:
        return gain(task.metric, answer.decode(split, data.outputs(logits)), split.labels)

    return data, judge


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


# --- scores ----------------------------------------------------------------------------------------------------------


@compute.register
def _compute_evaluation(node: Evaluate, context: Context, folder: Path) -> None:
    subnetwork, task = context.subnetwork(node.model), load_task(node.model.task_spec)
    splits = {name: task.splits[name] for name in node.names}
    with computing_in(node.precision):
        logits = _logits(subnetwork, splits, node.model.max_length, task.answer_kind)
    report = {name: score_split(task, split, logits[name]) for name, split in splits.items()}
    if node.splits is None:  # logits per token are only for teachers, which name the split
        logits = {name: logits[name] for name in node.names}
    np.savez(folder / "logits.npz", **logits)  # type: ignore[arg-type]
    write_json(folder / "scores.json", {"sparsity": subnetwork.sparsity, "splits": report})


def _logits(
    subnetwork: Subnetwork, splits: dict[str, Split], max_length: int, answer: AnswerKind = CLASSES
) -> dict[str, np.ndarray]:
    """Logits by split. For spans: the selected characters, and under a name of their own the logits of every token."""
    base = _own(_backbone(subnetwork))
    model = subnetwork.model(base).to(current_device())
    found: dict[str, np.ndarray] = {}
    for name, split in splits.items():
        data = inputs_for(answer, split, base.tokenizer, base.max_length(max_length))
        logits = predict(model, data)
        found[name] = data.outputs(logits)
        if answer.per_token:
            found[TOKENS.format(name)] = logits
    return found
