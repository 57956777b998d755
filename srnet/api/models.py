"""Single models: train, prune, score; the bias model of a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from srnet.errors import UserError
from srnet.experiment import (
    BiasSpec,
    Distilled,
    Engine,
    Evaluate,
    FineTune,
    ModelNode,
    Objective,
    Pretrained,
    Prune,
    Sources,
    load_task,
    make_objective,
)
from srnet.experiment.compute import score_splits
from srnet.experiment.nodes import TaskSpec
from srnet.experiment.rebuild import stored_model
from srnet.files import read_json
from srnet.names import EMBEDDED
from srnet.objectives import get_objective
from srnet.options import option
from srnet.pruners import Pruner
from srnet.pruners.penalised import Penalised
from srnet.recipes.profiles.defaults import finetuning_for, pruning_for
from srnet.subnetwork import Subnetwork
from srnet.tasks.synthetic import SyntheticTask
from srnet.training import TrainingSettings

TOLERANCE = 0.002
"""How far a pruner without a budget may miss its sparsity before a remark says so."""
BIASED_BY = 5.0
"""Points above the majority class from which a bias model may be called one."""
WITHOUT_VECTORS = {
    "overlap": "words alone, no similarities: --vectors FILE adds them",
    "claim": "a bag of words: --vectors FILE uses the paper's max-pooled word vectors instead",
}


@dataclass(frozen=True)
class Trained:
    """A model in the store and its scores."""

    key: str
    folder: Path
    sparsity: float
    scores: dict[str, Any]
    remarks: tuple[str, ...] = ()
    """What to know before one relies on it."""


@dataclass(frozen=True)
class Needs:
    """What an objective learns from beside the data: keyword arguments of `finetune` and `prune`."""

    teacher: str | None = None
    """Key of a CE model, for objective confreg and for --distil."""
    distil: float | None = None
    """Share of the loss that imitates --teacher, e.g. 0.5."""
    temperature: float = option(2.0, name="--distil-temperature")
    """Temperature of the distillation."""
    bias: BiasSpec = option(BiasSpec(), heading="Bias model")
    """How the shortcut is measured."""


def _objective(
    text: str, raw: Pretrained, full: TrainingSettings, engine: Engine, given: Mapping[str, Any]
) -> Objective:
    """The objective that `text` names, with the needs that were given. Any that it does not read is an error.

    `full` is the training of full CE models, for objectives that learn from one.
    """
    given = {name: value for name, value in given.items() if value is not None}
    needs, registered, distils = Needs(**given), get_objective(text), "distil" in given
    taught = distils or "teacher" in registered.needs
    if "temperature" in given and not distils:
        raise UserError("a temperature without distillation", "say how much of the loss imitates: --distil 0.5")
    if "bias" in given and "bias" not in registered.needs:
        raise UserError(f"objective '{text}' takes no bias model", "leave out --shortcut, --vectors and the like")
    if "teacher" in given and not taught:
        raise UserError(f"objective '{text}' takes no teacher", "to distil from it say how much: --distil 0.5")
    if "teacher" not in given and taught:
        what = "distillation" if distils else f"objective '{text}'"
        raise UserError(f"{what} needs a teacher", "give the key of a model trained on the same task: --teacher")
    teacher = None if needs.teacher is None else stored_model(engine.store, needs.teacher)
    made = make_objective(text, Sources(raw, lambda: FineTune(raw, training=full), needs.bias, teacher))
    return (
        made if teacher is None or needs.distil is None else Distilled(made, teacher, needs.distil, needs.temperature)
    )


Settings = TrainingSettings | Mapping[str, Any] | None
"""Settings of a training, or what differs from the default settings."""


def _settings(default: TrainingSettings, given: Settings) -> TrainingSettings:
    if isinstance(given, TrainingSettings):
        return given
    changes = dict(given or {})
    if "steps" in changes and "epochs" in changes:
        raise UserError("--steps and --epochs exclude each other", "keep one of them")
    return replace(default, **({"steps": None} if "epochs" in changes else {}), **changes)


def finetune(
    task: TaskSpec,
    objective: str = "ce",
    *,
    backbone: str = EMBEDDED,
    training: Settings = None,
    words: tuple[str, ...] = (),
    engine: Engine | None = None,
    **needs: Any,
) -> Trained:
    """Fine-tune a backbone on a task; with `words`, the language-model head it brings.

    `training` may be a dict of what differs from the default settings. `needs` are fields of `Needs`: bias, teacher,
    distil, temperature.
    """
    engine = engine or Engine()
    settings = _settings(finetuning_for(backbone, task), training)
    raw = Pretrained(backbone, task, settings.seed, words)
    made = _objective(objective, raw, settings, engine, needs)
    return _trained(FineTune(raw, made, settings), engine)


def prune(
    model: str | ModelNode,
    pruner: Pruner,
    objective: str = "ce",
    *,
    training: Settings = None,
    engine: Engine | None = None,
    **needs: Any,
) -> Trained:
    """Prune a model: a key of the store, or an expression such as `Pretrained(...)`.

    `training` and `needs` are as in `finetune`.
    """
    engine = engine or Engine()
    node = stored_model(engine.store, model) if isinstance(model, str) else model
    if not pruner.trains:
        if objective != "ce" or training or any(each is not None for each in needs.values()):
            raise UserError(
                f"pruner '{pruner.name}' does not train", "leave out objective, teacher and training options"
            )
        return _trained(Prune(node, pruner), engine)
    raw = node.pretrained
    full = replace(finetuning_for(raw.backbone, raw.task), seed=raw.seed)
    made = _objective(objective, raw, full, engine, needs)
    default = replace(pruning_for(raw.backbone, pruner.name, node.task_spec), seed=raw.seed)
    trained = _trained(Prune(node, pruner, made, _settings(default, training)), engine)
    if not isinstance(pruner, Penalised) or abs(trained.sparsity - pruner.sparsity) <= TOLERANCE:
        return trained
    aim = f"{pruner.aim} was requested" if pruner.penalty is None else "with lambda given, none was requested"
    return replace(trained, remarks=(f"the penalty reached {100 * trained.sparsity:.2f} % sparsity; {aim}",))


def _trained(node: ModelNode, engine: Engine) -> Trained:
    evaluation = Evaluate(node)
    engine.execute([node, evaluation])  # the model too: scores may outlive a model that was damaged or removed
    report = read_json(engine.store.path(evaluation.key) / "scores.json")
    return Trained(node.key, engine.store.path(node.key), report["sparsity"], report["splits"])


def evaluate(model: str | Path, *, task: TaskSpec | None = None, engine: Engine | None = None) -> Trained:
    """Score a model of the store (by key), or a saved subnetwork folder on `task`."""
    engine = engine or Engine()
    if not Path(model).is_dir():
        if task is not None:
            raise UserError("a model of the store is scored on its own task", "leave the task out")
        return _trained(stored_model(engine.store, str(model)), engine)
    if task is None:
        raise UserError(f"{model} is a folder", "say which task to score it on")
    subnetwork, data = Subnetwork.load(Path(model)), load_task(task)
    if subnetwork.labels != data.labels:
        raise UserError(f"{model} knows the labels {list(subnetwork.labels)}, the task has {list(data.labels)}")
    _, scores = score_splits(subnetwork, data, data.scored, data.answer_kind.max_length)
    return Trained("", Path(model), subnetwork.sparsity, scores)


def bias_model(task: TaskSpec, spec: BiasSpec | None = None, *, engine: Engine | None = None) -> Trained:
    """Fit the bias model of a task. Its remarks say whether it is biased; one that is not cannot debias.

    The spec names the backbone of weak models.
    """
    engine, spec, data = engine or Engine(), spec or BiasSpec(), load_task(task)
    shortcut = spec.shortcut or data.shortcut
    if shortcut == "unknown" and spec.backbone is None and not isinstance(task, SyntheticTask):
        raise UserError("weak models of which backbone?", "give --weak-backbone: the one you are going to debias")
    node = spec.node(task, EMBEDDED)
    engine.execute([node])
    folder = engine.store.path(node.key)
    scores = read_json(folder / "scores.json")
    remarks = [*data.notes, *([WITHOUT_VECTORS[shortcut]] if spec.vectors is None and shortcut != "unknown" else [])]
    own = scores[data.dev.name]
    gain = own["metrics"][data.metric] - own["majority"][data.metric]
    if gain < BIASED_BY:
        remarks.append(
            f"only {gain:.1f} points above the majority class on {data.dev.name}: it can hardly tell what the shortcut "
            "gets right, so debiasing with it will change little"
        )
    return Trained(node.key, folder, 0.0, scores, tuple(remarks))
