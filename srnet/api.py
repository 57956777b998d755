"""Every command as a function."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from srnet.backbones import Head, OwnClassifier, has_language_model, keep_own_classifier, load_backbone
from srnet.errors import UserError, choose
from srnet.experiment import (
    Bias,
    BiasSpec,
    ConfReg,
    Distilled,
    Engine,
    Evaluate,
    FineTune,
    ModelNode,
    Node,
    Objective,
    Pretrained,
    Prune,
    every_node,
)
from srnet.experiment import load_task as _load
from srnet.experiment.compute import score_splits
from srnet.experiment.estimate import Estimate, estimate
from srnet.experiment.nodes import TaskSpec, is_training
from srnet.experiment.rebuild import stored_model
from srnet.export import Subnetwork, save_merged
from srnet.export.reference_masks import read_reference
from srnet.export.shapes import linear_shapes, stack_shapes
from srnet.export.smp_masks import read_smp, save_smp
from srnet.files import read_json, require_new
from srnet.masks import Mask
from srnet.masks.parametrization import weight_name
from srnet.names import EMBEDDED
from srnet.objectives import get_objective
from srnet.progress import Reporter, helps
from srnet.pruners import Pruner
from srnet.recipes import Order, Recipe, demo_recipe, load_recipe
from srnet.recipes.demo import SEEDS as DEMO_SEEDS
from srnet.recipes.demo import SPARSITIES as DEMO_SPARSITIES
from srnet.recipes.profiles.defaults import finetuning_for, pruning_for
from srnet.report import (
    Evidence,
    Finding,
    Page,
    Results,
    Section,
    answer_claims,
    mask_pictures,
    results_of,
    write_report,
)
from srnet.rounds import Rounds
from srnet.tasks.synthetic import SyntheticTask
from srnet.tasks.synthetic.pretrain import PretrainSettings
from srnet.tasks.synthetic.pretrain import pretrain as _pretrain
from srnet.training import TrainingSettings
from srnet.training.inputs import length_for


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
    seeds: int = DEMO_SEEDS,
    sparsities: Sequence[float] = DEMO_SPARSITIES,
    steps: int | None = None,
    engine: Engine | None = None,
) -> Results:
    """Find sparse and robust subnetworks on the embedded benchmark and write table, curves and report to `out`."""
    task = task or SyntheticTask("inference")
    options = f"--task {task.name} --seeds {seeds} --sparsities {','.join(str(each) for each in sparsities)}"
    options += "" if task.noise is None else f" --noise {task.noise}"
    options += f" --train-size {task.train_size}" + ("" if steps is None else f" --steps {steps}")
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
    engine.execute([node for recipe in recipes for node in recipe.nodes()])
    evidence = [Evidence(recipe, engine.store) for recipe in recipes]
    sections = [
        Section(
            results_of(each),
            mask_pictures(each.recipe, engine.store),
            command if order is None else order.command(each.recipe.name),
        )
        for each in evidence
    ]
    findings = [] if order is None else [found for found in _findings(evidence) if found.parts]
    page = Page(title, command, sections, findings)
    if not helps():
        write_report(page, out)
    return page


def claims(order: Order, engine: Engine | None = None) -> list[Finding]:
    """The paper's claims, on what the store has of the order's figures. Nothing is computed."""
    store = (engine or Engine()).store
    return _findings([Evidence(recipe, store) for recipe in order.recipes()])


def claims_until_answered(
    order: Order, *, max_seeds: int = 10, budget: float | None = None, engine: Engine | None = None
) -> list[Finding]:
    """The paper's claims, with seeds added to their figures until each is answered or a limit is reached.

    `budget` is in seconds. Each look is tested at a level of 0.05 divided by the number of planned looks, one for the
    seeds of the order and one for each further seed up to `max_seeds`.
    """
    return Rounds(order.recipes(), engine or Engine(), max_seeds, budget).run()


def _findings(figures: Sequence[Evidence]) -> list[Finding]:
    tasks = dict.fromkeys(each.recipe.task for each in figures)
    return [found for task in tasks for found in answer_claims([e for e in figures if e.recipe.task == task])]


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
        "seeds_needed": finding.needs,
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
    wanted = [every_node(recipe.nodes()) for recipe in recipes]
    every = {key: node for nodes in wanted for key, node in nodes.items()}
    missing = engine.plan(list(every.values()))
    todo = {node.key for node in missing}
    figures = [_figure_line(recipe, nodes, todo) for recipe, nodes in zip(recipes, wanted, strict=True)]
    return Plan([(node, key not in todo) for key, node in every.items()], figures, estimate(missing, engine.store))


def _figure_line(recipe: Recipe, nodes: dict[str, Node], todo: set[str]) -> str:
    trainings = [key for key, node in nodes.items() if is_training(node)]
    left = sum(key in todo for key in trainings)
    return f"{recipe.name} on {recipe.task.name}: {len(recipe.points)} models, {len(trainings)} trainings, {left} to do"


def make_objective(
    name: str,
    model: ModelNode,
    bias: BiasSpec | None = None,
    teacher: ModelNode | None = None,
    distil: float | None = None,
    temperature: float | None = None,
) -> Objective:
    """The objective `name` for `model`, with a bias model of its task where it needs one.

    `distil` is the share of the loss that imitates `teacher`, whatever the objective.
    """
    if distil is None:
        if temperature is not None:
            raise UserError("a temperature without distillation", "say how much of the loss imitates: --distil 0.5")
        return _plain_objective(name, model, bias, teacher)
    if teacher is None:
        raise UserError("distillation needs a teacher", "give the key of a model trained on the same task: --teacher")
    needs = get_objective(name).needs_teacher
    plain = _plain_objective(name, model, bias, teacher if needs else None)
    return Distilled(plain, teacher, distil, 2.0 if temperature is None else temperature)


def _plain_objective(name: str, model: ModelNode, bias: BiasSpec | None, teacher: ModelNode | None) -> Objective:
    loss = get_objective(name)
    if not loss.needs_bias and bias is not None:
        raise UserError(f"objective '{name}' takes no bias model", "leave out --shortcut, --vectors and the like")
    node = (bias or BiasSpec()).node(model.task_spec, model.pretrained.backbone) if loss.needs_bias else None
    if loss.needs_teacher and node is not None:
        if teacher is None:
            raise UserError(f"objective '{name}' needs a teacher", "give the key of a model trained with ce")
        return ConfReg(node, teacher)
    if teacher is not None:
        raise UserError(f"objective '{name}' takes no teacher", "to distil from it say how much: --distil 0.5")
    return Objective(name, node)


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
    told = stored_model(engine.store, teacher) if teacher else None
    made = make_objective(objective, raw, bias, told, distil, temperature)
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
    told = stored_model(engine.store, teacher) if teacher else None
    made = make_objective(objective, node, bias, told, distil, temperature)
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
    _, scores = score_splits(subnetwork, data, data.scored, length_for(data.answer))
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


EXPORTS: dict[str, Callable[[Subnetwork, Path], None]] = {
    "merged": save_merged,
    "subnetwork": Subnetwork.save,
    "smp": save_smp,
}
"""What `export_model` can write, and what writes it."""


def export_model(model: str | Path, out: Path | str, *, format: str, engine: Engine | None = None) -> Path:
    """Write a model of the store (by key), or a saved subnetwork folder, in a format that others can use.

    `merged`: a plain checkpoint for `from_pretrained`. `subnetwork`: a folder with mask bits, head and differences, for
    `load_subnetwork`. `smp`: the mask bits alone, in one file as the authors of SMP publish theirs.
    """
    write = EXPORTS[choose("format", format, EXPORTS)]
    out = Path(out) if format == "smp" else require_new(Path(out))
    write(_saved(model, engine or Engine()), out)
    return out


def _saved(model: str | Path, engine: Engine) -> Subnetwork:
    if Path(model).is_dir():
        return Subnetwork.load(Path(model))
    return Subnetwork.load(engine.store.path(stored_model(engine.store, str(model)).key))


IMPORTS = ("smp", "srnet-reference")


@dataclass(frozen=True)
class Imported:
    """A mask that others found, now a subnetwork of ours."""

    folder: Path
    mask: Mask
    remarks: tuple[str, ...]
    """What to know before one trusts its scores."""


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
    """Read a mask that others have published and write it, with the backbone's own weights, as a subnetwork folder.

    `format` is `smp` (packed bits in a `.npy`) or `srnet-reference` (a `mask.pt`). Such files say nothing about labels:
    give them in the order of the model's outputs, or a task that has them. `label_words` is for `smp`: one word a
    label, whose logits of the language model are the model's outputs; a task may know its words. Without them the
    checkpoint's own classifier is kept where its labels fit, and a remark says whether it was.
    """
    choose("format", format, IMPORTS)
    out = require_new(Path(out))
    chosen, head = _outputs(format, backbone, tuple(labels), tuple(label_words), task)
    base = load_backbone(backbone, chosen, seed=0, head=head)
    mask, remarks = _read_mask(Path(file), format, base.model)
    if not head.words:
        own = keep_own_classifier(base, chosen)
        mask = _in_order(mask, own)
        remarks.append(
            f"the checkpoint's own classifier was kept for {', '.join(chosen)}: {own.why}"
            if own.kept
            else f"the head is randomly initialised, for {own.why}: scores mean nothing until it is trained"
        )
    Subnetwork.of(base, chosen, base.model.state_dict(), mask).save(out)
    return Imported(out, mask, tuple(remarks))


def _in_order(mask: Mask, own: OwnClassifier) -> Mask:
    """A mask of the classifier has its rows in the checkpoint's order, and must follow them."""
    name = weight_name(own.name)
    return Mask({**mask, name: mask[name][list(own.order)]}) if own.kept and name in mask else mask


def _outputs(
    format: str, backbone: str, labels: tuple[str, ...], words: tuple[str, ...], task: TaskSpec | None
) -> tuple[tuple[str, ...], Head]:
    """The labels that the model tells apart, and what gives their logits."""
    if bool(labels) == (task is not None):
        raise UserError("which labels does the model tell apart?", "give either labels or a task")
    if len(set(labels)) != len(labels) or not all(labels):
        raise UserError(f"{list(labels)} are no labels", "give each a name of its own")
    if words and format != "smp":
        raise UserError(f"masks of format '{format}' go with a classifier", "leave the label words out")
    if task is None:
        return labels, Head(words)
    # a description of files knows its labels itself, so the data need not be there
    known: Any = task if hasattr(task, "labels") else _load(task)
    usual = tuple(known.label_words) if format == "smp" and has_language_model(backbone) else ()
    return tuple(known.labels), Head(words or usual, per_token=known.answer == "span")


def _read_mask(file: Path, format: str, model: nn.Module) -> tuple[Mask, list[str]]:
    """The mask, and what of the file or of the model it leaves out."""
    if format == "smp":
        return read_smp(file, stack_shapes(model)), []
    mask, ignored = read_reference(file, linear_shapes(model))
    remarks = [f"ignored in {file}, because it is no tensor: {', '.join(ignored)}"] if ignored else []
    whole = [name for name in stack_shapes(model) if name not in mask]
    if whole:
        remarks.append(f"{len(whole)} matrices of the layers have no mask and stay whole, {whole[0]} the first")
    return mask, remarks
