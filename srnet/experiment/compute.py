"""What each kind of node does when it runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import singledispatch
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import log_softmax

from srnet.backbones import load_backbone
from srnet.bias import BiasPredictions, WordVectors, fit_bias_model
from srnet.errors import UserError
from srnet.evaluation import METRICS, score
from srnet.experiment.nodes import (
    BiasModel,
    Evaluate,
    FineTune,
    ModelNode,
    Node,
    Objective,
    Pretrained,
    Prune,
    PruneRun,
    Rewind,
    load_task,
)
from srnet.experiment.store import Store
from srnet.export import Subnetwork
from srnet.files import write_json
from srnet.objectives import get_objective
from srnet.progress import Reporter
from srnet.pruners.base import Method, Snapshot, split_snapshot
from srnet.tasks.base import Task
from srnet.training import Result, Run, TrainingSettings, encode, predict, train


@dataclass(frozen=True)
class Context:
    store: Store
    reporter: Reporter
    report_to: tuple[str, ...] = ()

    def subnetwork(self, node: ModelNode) -> Subnetwork:
        return Subnetwork.load(self.store.path(node.key))


@singledispatch
def compute(node: Node, context: Context, folder: Path) -> None:
    """Fill `folder` with the node's artifact. Its parents are in the store."""
    raise TypeError(f"nothing knows how to compute {type(node).__name__}")


# --- the shortcut --------------------------------------------------------------------------------------------------


@compute.register
def _(node: BiasModel, context: Context, folder: Path) -> None:
    task = load_task(node.task)
    vectors = None if node.vectors is None else WordVectors.from_backbone(node.vectors)
    predictions = fit_bias_model(task, node.shortcut or task.shortcut, vectors, node.folds)
    report = {}
    for name, each in predictions.items():
        np.savez(folder / f"{name}.npz", ids=np.array(each.ids), log_probs=each.log_probs)
        split = task.splits[name]
        report[name] = {"kind": split.kind, **asdict(score(each.log_probs, split.labels, split.groups, task.labels))}
    write_json(folder / "scores.json", report)


def bias_predictions(store: Store, node: BiasModel, split: str) -> BiasPredictions:
    with np.load(store.path(node.key) / f"{split}.npz", allow_pickle=False) as file:
        return BiasPredictions(tuple(file["ids"].tolist()), file["log_probs"])


# --- models --------------------------------------------------------------------------------------------------------


@compute.register
def _(node: Pretrained, context: Context, folder: Path) -> None:
    labels = load_task(node.task).labels
    base = load_backbone(node.backbone, labels, node.seed)
    Subnetwork.of(base, labels, base.model.state_dict(), None).write_into(folder)


@compute.register
def _(node: FineTune, context: Context, folder: Path) -> None:
    parent = context.subnetwork(node.parent)
    result = _train(node, node.parent, Method(parent.mask), node.objective, node.training, context)
    _write(node, parent, result, folder)


@compute.register
def _(node: Prune, context: Context, folder: Path) -> None:
    if node.levels is not None:
        level = context.store.path(node.levels.key) / f"level-{node.pruner.sparsity:g}"
        Subnetwork.load(level).write_into(folder)
        return
    parent = _unmasked(context, node.parent)
    if node.pruner.trains:
        method = node.pruner.method(fine_tuned=node.fine_tuned, eval_every=node.training.eval_every)
        _write(node, parent, _train(node, node.parent, method, node.objective, node.training, context), folder)
        return
    base = parent.base()
    model = parent.model(base)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    Subnetwork.of(parent.base(), parent.labels, state, node.pruner.mask(model)).write_into(folder)


@compute.register
def _(node: PruneRun, context: Context, folder: Path) -> None:
    parent = _unmasked(context, node.parent)
    method = node.pruner.method(fine_tuned=node.parent.fine_tuned, eval_every=node.training.eval_every)
    levels = context.store.work(node.key) / "levels"

    def keep(level: float, snapshot: Snapshot) -> None:
        """A level outlives a kill as soon as it is written; a resumed run writes it again, equal bit for bit."""
        weights, mask = split_snapshot(snapshot)
        Subnetwork.of(parent.base(), parent.labels, weights, mask).save(levels / f"level-{level:g}")

    method.emit = keep
    result = _train(node, node.parent, method, node.objective, node.training, context)
    for level in sorted(levels.iterdir()):
        if not level.name.startswith("."):
            Subnetwork.load(level).write_into(folder / level.name)
    write_json(folder / "training.json", _story(result))


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
        raise UserError(f"{node.label} is pruned already", "prune a full model")
    return subnetwork


def _train(
    node: Node, parent: ModelNode, method: Method, objective: Objective, settings: TrainingSettings, context: Context
) -> Result:
    task, subnetwork = load_task(parent.task_spec), context.subnetwork(parent)
    base = subnetwork.base()
    dev, length = task.dev, base.max_length(settings.max_length)
    run = Run(
        model=subnetwork.model(base),
        method=method,
        objective=get_objective(objective.name),
        settings=settings,
        train=encode(task.train, base.tokenizer, length, _extras(objective, task, context.store)),
        dev=encode(dev, base.tokenizer, length),
        score=lambda logits: 100.0 * METRICS[task.metric](logits.argmax(axis=1), dev.labels),
        folder=context.store.work(node.key),
        tracker_folder=context.store.root / "runs" / node.key,
        report_to=context.report_to,
        watch=context.reporter.advance,
    )
    return train(run)


def _extras(objective: Objective, task: Task, store: Store) -> dict[str, np.ndarray]:
    extras = {}
    if objective.bias is not None:
        extras["bias"] = bias_predictions(store, objective.bias, task.train.name).for_ids(task.train.ids)
    if objective.teacher is not None:
        extras["teacher"] = log_softmax(load_logits(store, objective.teacher)[task.train.name], axis=1)
    return extras


def _story(result: Result) -> dict[str, Any]:
    return {"selected_step": result.step, "dev_score": result.dev_score, "log": result.log}


def _write(node: ModelNode, parent: Subnetwork, result: Result, folder: Path) -> None:
    weights, mask = split_snapshot(result.snapshot)
    Subnetwork.of(parent.base(), parent.labels, weights, mask).write_into(folder)
    write_json(folder / "training.json", _story(result))


# --- scores --------------------------------------------------------------------------------------------------------


@compute.register
def _(node: Evaluate, context: Context, folder: Path) -> None:
    subnetwork = context.subnetwork(node.model)
    logits, report = score_splits(subnetwork, load_task(node.model.task_spec), node.names, node.model.max_length)
    np.savez(folder / "logits.npz", **logits)  # type: ignore[arg-type]
    write_json(folder / "scores.json", {"sparsity": subnetwork.sparsity, "splits": report})


def score_splits(
    subnetwork: Subnetwork, task: Task, names: tuple[str, ...], max_length: int
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Logits and scores of a model, by split."""
    base = subnetwork.base()
    model = subnetwork.model(base).to("cuda" if torch.cuda.is_available() else "cpu")
    length = base.max_length(max_length)
    logits, report = {}, {}
    for name in names:
        split = task.splits[name]
        logits[name] = predict(model, encode(split, base.tokenizer, length))
        report[name] = {"kind": split.kind, **asdict(score(logits[name], split.labels, split.groups, task.labels))}
    return logits, report


def load_logits(store: Store, node: Evaluate) -> dict[str, np.ndarray]:
    with np.load(store.path(node.key) / "logits.npz", allow_pickle=False) as file:
        return {name: file[name] for name in file.files}
