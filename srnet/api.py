"""Every command as a function."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from srnet.errors import UserError
from srnet.experiment import (
    Bias,
    BiasSpec,
    ConfReg,
    Engine,
    Evaluate,
    FineTune,
    ModelNode,
    Node,
    Objective,
    Pretrained,
    Prune,
    Store,
    every_node,
)
from srnet.experiment import load_task as _load
from srnet.experiment.compute import score_splits
from srnet.experiment.estimate import Estimate, estimate
from srnet.experiment.nodes import TaskSpec, is_training
from srnet.experiment.rebuild import stored_model
from srnet.export import Subnetwork, save_merged
from srnet.files import read_json, require_new
from srnet.names import EMBEDDED
from srnet.objectives import get_objective
from srnet.progress import Reporter, helps
from srnet.pruners import Pruner
from srnet.recipes import Order, Recipe, demo_recipe, load_recipe
from srnet.recipes.toy import finetuning_for, pruning_for
from srnet.report import (
    Finding,
    Page,
    Results,
    Section,
    check_claims,
    collect,
    mask_pictures,
    nodes_of,
    write_report,
)
from srnet.tasks.synthetic import SyntheticTask
from srnet.tasks.synthetic.pretrain import PretrainSettings
from srnet.tasks.synthetic.pretrain import pretrain as _pretrain
from srnet.training import TrainingSettings


@dataclass(frozen=True)
class Trained:
    """A model in the store and its scores."""

    key: str
    folder: Path
    sparsity: float
    scores: dict[str, Any]


def demo(
    out: Path | str = "srnet-demo",
    *,
    task: SyntheticTask | None = None,
    seeds: int = 1,
    sparsities: Sequence[float] = (0.5, 0.7, 0.9),
    steps: int | None = None,
    engine: Engine | None = None,
) -> Results:
    """Find sparse and robust subnetworks on the embedded benchmark and write table, curves and report to `out`."""
    task = task or SyntheticTask("inference")
    options = f"--task {task.name} --seeds {seeds} --sparsities {','.join(str(each) for each in sparsities)}"
    options += f" --bias {task.bias} --train-size {task.train_size}" + ("" if steps is None else f" --steps {steps}")
    return run_recipe(demo_recipe(task, seeds, tuple(sparsities), steps), out, engine, f"srnet demo {options}")


def run(spec: Path | str, out: Path | str | None = None, *, engine: Engine | None = None) -> Results:
    """Run the recipe in a YAML file."""
    recipe = load_recipe(Path(spec))
    return run_recipe(recipe, out or f"srnet-{recipe.name}", engine, f"srnet run {shlex.quote(str(spec))}")


def run_recipe(
    recipe: Recipe, out: Path | str, engine: Engine | None = None, command: str = "srnet.run_recipe"
) -> Results:
    """Run a recipe and write its report to `out`; `command` is what the report says it was made by."""
    return _report([recipe], Path(out), engine or Engine(), recipe.name, command).sections[0].results


def reproduce(order: Order, out: Path | str | None = None, *, engine: Engine | None = None) -> Page:
    """Run figures of the paper, check its claims on them, and write one report."""
    engine, recipes = engine or Engine(), order.recipes()
    title = f"{', '.join(order.figures)}, profile {order.profile}"
    return _report(recipes, folder_of(order, out), engine, title, order.command(), order)


def folder_of(order: Order, out: Path | str | None) -> Path:
    return Path(out or f"srnet-{'-'.join(order.figures)}")


def _report(
    recipes: Sequence[Recipe], out: Path, engine: Engine, title: str, command: str, order: Order | None = None
) -> Page:
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file", "choose another folder for the results")
    engine.execute([node for recipe in recipes for node in nodes_of(recipe)])
    sections = [
        Section(
            collect(recipe, engine.store),
            mask_pictures(recipe, engine.store),
            command if order is None else order.command(recipe.name),
        )
        for recipe in recipes
    ]
    findings = [] if order is None else [found for found in _findings(recipes, engine.store) if found.parts]
    page = Page(title, command, sections, findings)
    if not helps():
        write_report(page, out)
    return page


def claims(order: Order, engine: Engine | None = None) -> list[Finding]:
    """The paper's claims, on what the store has of the order's figures. Nothing is computed."""
    return _findings(order.recipes(), (engine or Engine()).store)


def _findings(recipes: Sequence[Recipe], store: Store) -> list[Finding]:
    tasks = dict.fromkeys(recipe.task for recipe in recipes)
    return [f for task in tasks for f in check_claims([r for r in recipes if r.task == task], store)]


def plain_finding(finding: Finding) -> dict[str, Any]:
    """A finding as JSON."""
    return {
        "task": finding.task,
        "claim": finding.claim.name,
        "statement": finding.claim.statement,
        "source": finding.claim.source,
        "answer": finding.answer,
        "seeds": finding.seeds,
        "note": finding.note,
        "figures": [
            {
                "what": part.what,
                "difference": part.interval.difference,
                "low": part.interval.low,
                "high": part.interval.high,
                "level": part.interval.level,
                "bar": part.bar,
                "answer": part.answer,
            }
            for part in finding.parts
        ],
    }


@dataclass(frozen=True)
class Plan:
    """What a run would do."""

    steps: list[tuple[Node, bool]]
    """Every distinct step, and whether the store has it."""
    figures: list[str]
    """One line a figure."""
    estimate: Estimate

    @property
    def summary(self) -> str:
        missing = sum(not stored for _, stored in self.steps)
        trainings = [stored for node, stored in self.steps if is_training(node)]
        counted = f"{len(trainings)} distinct trainings, {sum(trainings)} of them stored; {missing} steps to compute"
        return f"{counted}, {self.estimate}" if self.estimate.trainings else counted


def plan(recipes: Sequence[Recipe], engine: Engine | None = None) -> Plan:
    """What the recipes need, what the store has of it, and how long the rest would take."""
    engine = engine or Engine()
    wanted = {recipe: every_node(nodes_of(recipe)) for recipe in recipes}
    missing = engine.plan([node for nodes in wanted.values() for node in nodes.values()])
    todo = {node.key for node in missing}
    every = {key: node for nodes in wanted.values() for key, node in nodes.items()}
    figures = [_figure_line(recipe, nodes, todo) for recipe, nodes in wanted.items()]
    return Plan([(node, key not in todo) for key, node in every.items()], figures, estimate(missing, engine.store))


def _figure_line(recipe: Recipe, nodes: dict[str, Node], todo: set[str]) -> str:
    trainings = [key for key, node in nodes.items() if is_training(node)]
    left = sum(key in todo for key in trainings)
    return (
        f"{recipe.name} on {recipe.task.name}: {len(recipe.points())} models, {len(trainings)} trainings, {left} to do"
    )


def make_objective(
    name: str, model: ModelNode, bias: BiasSpec | None = None, teacher: ModelNode | None = None
) -> Objective:
    """The objective `name` for `model`, with a bias model of its task where it needs one."""
    loss = get_objective(name)
    if not loss.needs_bias and bias is not None:
        raise UserError(f"objective '{name}' takes no bias model", "leave out --shortcut, --vectors and the like")
    node = (bias or BiasSpec()).node(model.task_spec, model.pretrained.backbone) if loss.needs_bias else None
    if loss.needs_teacher and node is not None:
        if teacher is None:
            raise UserError(f"objective '{name}' needs a teacher", "give the key of a model trained with ce")
        return ConfReg(node, teacher)
    if teacher is not None:
        raise UserError(f"objective '{name}' takes no teacher")
    return Objective(name, node)


def finetune(
    task: TaskSpec,
    objective: str = "ce",
    *,
    backbone: str = EMBEDDED,
    training: TrainingSettings | None = None,
    teacher: str | None = None,
    bias: BiasSpec | None = None,
    engine: Engine | None = None,
) -> Trained:
    """Fine-tune a backbone on a task."""
    engine = engine or Engine()
    training = training or finetuning_for(backbone)
    raw = Pretrained(backbone, task, training.seed)
    made = make_objective(objective, raw, bias, teacher=stored_model(engine.store, teacher) if teacher else None)
    return _trained(FineTune(raw, made, training), engine)


def prune(
    model: str | ModelNode,
    pruner: Pruner,
    objective: str = "ce",
    *,
    training: TrainingSettings | None = None,
    teacher: str | None = None,
    bias: BiasSpec | None = None,
    engine: Engine | None = None,
) -> Trained:
    """Prune a model: a key of the store, or an expression such as `Pretrained(...)`."""
    engine = engine or Engine()
    node = stored_model(engine.store, model) if isinstance(model, str) else model
    if not pruner.trains:
        if objective != "ce" or training is not None or teacher is not None or bias is not None:
            raise UserError(
                f"pruner '{pruner.name}' does not train", "leave out objective, teacher and training options"
            )
        return _trained(Prune(node, pruner), engine)
    training = training or replace(pruning_for(node.pretrained.backbone), seed=node.pretrained.seed)
    made = make_objective(objective, node, bias, teacher=stored_model(engine.store, teacher) if teacher else None)
    return _trained(Prune(node, pruner, made, training), engine)


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
    subnetwork, data = Subnetwork.load(Path(model)), _load(task)
    if subnetwork.labels != data.labels:
        raise UserError(f"{model} knows the labels {list(subnetwork.labels)}, the task has {list(data.labels)}")
    _, scores = score_splits(subnetwork, data, data.scored, TrainingSettings().max_length)
    return Trained("", Path(model), subnetwork.sparsity, scores)


BIASED_BY = 5.0
"""Points above the majority class from which a bias model may be called one."""


def bias_model(task: TaskSpec, spec: BiasSpec | None = None, *, engine: Engine | None = None) -> Trained:
    """Fit the bias model of a task and say how biased it is. The spec names the backbone of weak models."""
    engine, spec = engine or Engine(), spec or BiasSpec()
    weak = (spec.shortcut or _load(task).shortcut) == "unknown"
    if weak and spec.backbone is None and not isinstance(task, SyntheticTask):
        raise UserError("weak models of which backbone?", "give --weak-backbone: the one you are going to debias")
    node: Bias = spec.node(task, EMBEDDED)
    engine.execute([node])
    folder = engine.store.path(node.key)
    return Trained(node.key, folder, 0.0, read_json(folder / "scores.json"))


def bias_remarks(task: TaskSpec, spec: BiasSpec, fitted: Trained) -> list[str]:
    """What to think of a bias model: one that is not biased cannot debias."""
    data = _load(task)
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


def pretrain(out: Path | str, settings: PretrainSettings | None = None, reporter: Reporter | None = None) -> Path:
    """Make the embedded backbone again."""
    out = require_new(Path(out))
    reporter = reporter or Reporter()
    with reporter.session():
        step = reporter.begin(1, 1, f"pre-train {out.name}")
        _pretrain(out, settings, step.advance)
        step.finish()
    return out


def export_model(key: str, out: Path | str, *, merged: bool = False, engine: Engine | None = None) -> Path:
    """Copy a model out of the store: as a subnetwork folder, or `merged` into a plain checkpoint."""
    engine, out = engine or Engine(), require_new(Path(out))
    node = stored_model(engine.store, key)
    subnetwork = Subnetwork.load(engine.store.path(node.key))
    if merged:
        save_merged(subnetwork, out)
    else:
        subnetwork.save(out)
    return out
