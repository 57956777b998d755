"""Single models: train, prune, score; the bias model of a task."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from srnet.api.deployed import exported_scores
from srnet.errors import UserError
from srnet.experiment import (
    Bias,
    BiasSpec,
    Distilled,
    Engine,
    Evaluate,
    FineTune,
    ModelNode,
    Objective,
    Pretrained,
    Prune,
    load_task,
)
from srnet.experiment.compute import score_splits
from srnet.experiment.nodes import TaskSpec
from srnet.experiment.objective import Sources
from srnet.experiment.objective import make_objective as objective_by_name
from srnet.experiment.rebuild import stored_model
from srnet.exported import is_exported
from srnet.files import read_json
from srnet.names import EMBEDDED
from srnet.objectives import get_objective
from srnet.pruners import Pruner
from srnet.recipes.profiles.defaults import finetuning_for, pruning_for
from srnet.subnetwork import Subnetwork
from srnet.tasks.synthetic import SyntheticTask
from srnet.training import TrainingSettings


@dataclass(frozen=True)
class Trained:
    """A model in the store and its scores."""

    key: str
    folder: Path
    sparsity: float
    scores: dict[str, Any]


def make_objective(
    text: str,
    model: ModelNode,
    bias: BiasSpec | None = None,
    teacher: ModelNode | None = None,
    distil: float | None = None,
    temperature: float | None = None,
    training: TrainingSettings | None = None,
) -> Objective:
    """The objective that `text` names for `model`, with a bias model of its task where it needs one.

    `distil` is the share of the loss that imitates `teacher`, whatever the objective. `training` is that of a full
    model with CE, for objectives that learn from one.
    """
    if distil is None and temperature is not None:
        raise UserError("a temperature without distillation", "say how much of the loss imitates: --distil 0.5")
    if distil is not None and teacher is None:
        raise UserError("distillation needs a teacher", "give the key of a model trained on the same task: --teacher")
    needs = get_objective(text).needs
    if "bias" not in needs and bias is not None:
        raise UserError(f"objective '{text}' takes no bias model", "leave out --shortcut, --vectors and the like")
    if "teacher" in needs and teacher is None:
        raise UserError(f"objective '{text}' needs a teacher", "give the key of a model trained with ce")
    if "teacher" not in needs and teacher is not None and distil is None:
        raise UserError(f"objective '{text}' takes no teacher", "to distil from it say how much: --distil 0.5")
    raw = model.pretrained
    usual = training or replace(finetuning_for(raw.backbone, raw.task), seed=raw.seed)
    plain = objective_by_name(text, Sources(raw, lambda: FineTune(raw, training=usual), bias, teacher))
    if distil is None or teacher is None:
        return plain
    return Distilled(plain, teacher, distil, 2.0 if temperature is None else temperature)


def finetune(
    task: TaskSpec,
    objective: str = "ce",
    *,
    backbone: str = EMBEDDED,
    training: TrainingSettings | None = None,
    teacher: str | None = None,
    bias: BiasSpec | None = None,
    distil: float | None = None,
    temperature: float | None = None,
    words: tuple[str, ...] = (),
    engine: Engine | None = None,
) -> Trained:
    """Fine-tune a backbone on a task; with `words`, the language-model head it brings."""
    engine = engine or Engine()
    training = training or finetuning_for(backbone, task)
    raw = Pretrained(backbone, task, training.seed, words)
    imitated = stored_model(engine.store, teacher) if teacher else None
    made = make_objective(objective, raw, bias, imitated, distil, temperature, training)
    return _trained(FineTune(raw, made, training), engine)


def prune(
    model: str | ModelNode,
    pruner: Pruner,
    objective: str = "ce",
    *,
    training: TrainingSettings | None = None,
    teacher: str | None = None,
    bias: BiasSpec | None = None,
    distil: float | None = None,
    temperature: float | None = None,
    engine: Engine | None = None,
) -> Trained:
    """Prune a model: a key of the store, or an expression such as `Pretrained(...)`."""
    engine = engine or Engine()
    node = stored_model(engine.store, model) if isinstance(model, str) else model
    if not pruner.trains:
        if objective != "ce" or any(each is not None for each in (training, teacher, bias, distil, temperature)):
            raise UserError(
                f"pruner '{pruner.name}' does not train", "leave out objective, teacher and training options"
            )
        return _trained(Prune(node, pruner), engine)
    usual = pruning_for(node.pretrained.backbone, pruner.name, node.task_spec)
    training = training or replace(usual, seed=node.pretrained.seed)
    imitated = stored_model(engine.store, teacher) if teacher else None
    made = make_objective(objective, node, bias, imitated, distil, temperature)
    return _trained(Prune(node, pruner, made, training), engine)


def _trained(node: ModelNode, engine: Engine) -> Trained:
    evaluation = Evaluate(node)
    engine.execute([node, evaluation])  # the model too: scores may outlive a model that was damaged or removed
    report = read_json(engine.store.path(evaluation.key) / "scores.json")
    return Trained(node.key, engine.store.path(node.key), report["sparsity"], report["splits"])


def evaluate(model: str | Path, *, task: TaskSpec | None = None, engine: Engine | None = None) -> Trained:
    """Score a model of the store (by key), or a saved subnetwork or an exported folder on `task`."""
    engine = engine or Engine()
    if not Path(model).is_dir():
        if task is not None:
            raise UserError("a model of the store is scored on its own task", "leave the task out")
        return _trained(stored_model(engine.store, str(model)), engine)
    if task is None:
        raise UserError(f"{model} is a folder", "say which task to score it on")
    if is_exported(model):
        return Trained("", Path(model), *exported_scores(Path(model), load_task(task)))
    subnetwork, data = Subnetwork.load(Path(model)), load_task(task)
    if subnetwork.labels != data.labels:
        raise UserError(f"{model} knows the labels {list(subnetwork.labels)}, the task has {list(data.labels)}")
    _, scores = score_splits(subnetwork, data, data.scored, data.answer_kind.max_length)
    return Trained("", Path(model), subnetwork.sparsity, scores)


BIASED_BY = 5.0
"""Points above the majority class from which a bias model may be called one."""


def bias_model(task: TaskSpec, spec: BiasSpec | None = None, *, engine: Engine | None = None) -> Trained:
    """Fit the bias model of a task and say how biased it is. The spec names the backbone of weak models."""
    engine, spec = engine or Engine(), spec or BiasSpec()
    weak = (spec.shortcut or load_task(task).shortcut) == "unknown"
    if weak and spec.backbone is None and not isinstance(task, SyntheticTask):
        raise UserError("weak models of which backbone?", "give --weak-backbone: the one you are going to debias")
    node: Bias = spec.node(task, EMBEDDED)
    engine.execute([node])
    folder = engine.store.path(node.key)
    return Trained(node.key, folder, 0.0, read_json(folder / "scores.json"))


def bias_remarks(task: TaskSpec, spec: BiasSpec, fitted: Trained) -> list[str]:
    """What to think of a bias model: one that is not biased cannot debias."""
    data = load_task(task)
    remarks = list(data.notes)
    shortcut = spec.shortcut or data.shortcut
    if shortcut == "overlap" and spec.vectors is None:
        remarks.append("words alone, no similarities: --vectors FILE adds them")
    if shortcut == "claim" and spec.vectors is None:
        remarks.append("a bag of words: --vectors FILE uses the paper's max-pooled word vectors instead")
    own = fitted.scores[data.dev.name]
    gain = own["metrics"][data.metric] - own["majority"][data.metric]
    if gain < BIASED_BY:
        remarks.append(
            f"only {gain:.1f} points above the majority class on {data.dev.name}: it can hardly tell what the shortcut "
            "gets right, so debiasing with it will change little"
        )
    return remarks
