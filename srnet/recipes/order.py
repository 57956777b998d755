"""An order: which figures to reproduce, at what scale, on which tasks, and with which changes of the trainings."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from srnet.config.fields import FIRST_SEEDS, Described, as_cli_args, first_seeds, option
from srnet.config.values import REPEATED, Count, MaxLength, OneOf, Range, Rate
from srnet.core.errors import UserError, choose
from srnet.core.lists import with_commas
from srnet.experiment.nodes.base import TaskSpec, answer_of_spec, load_task
from srnet.experiment.nodes.bias import BiasSpec
from srnet.masks.budget import Sparsity
from srnet.recipes.figures import FIGURES, Figure
from srnet.recipes.paradigms import OF_SCORES, OF_WEIGHTS, Options, Profile, Search
from srnet.recipes.profiles import PROFILES, PUBLISHED, STATIC
from srnet.recipes.recipe import Recipe
from srnet.recipes.tasks import DataOptions
from srnet.tasks.base import DATASETS
from srnet.tasks.outline import SIZES, Outline
from srnet.tasks.synthetic.families import EMBEDDED_TASKS
from srnet.training.settings import Precision, WeightDecay

_HEADING = "Training"
_OF_EVERY = ("precision", "eval_precision", "compile", "accumulate", "checkpointing", "weight_decay")
"""The options that all trainings of a profile get as they are."""


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(Described):
    """Changes of every training."""

    scale: Annotated[float, Range(above=0, most=100)] = option(1.0, heading=_HEADING)
    """Multiply the length of every training but that of bias models, e.g. 0.1 for a trial."""
    learning_rate: Rate | None = option(None, heading=_HEADING)
    """Learning rate of the weights, instead of the profile's, in fine-tuning and for pruners that train them: smaller
    backbones take larger ones."""
    score_rate: Rate | None = option(None, heading=_HEADING)
    """Learning rate of the mask's scores, instead of the profile's, in mask training: shorter runs take larger ones."""
    max_length: MaxLength | None = option(None, heading=_HEADING)
    """Tokens after which texts are truncated, instead of the profile's 128: more for long documents."""
    precision: Precision = option("float32", heading=_HEADING)
    """Precision of the layers in training; tf32 and fp16 need a GPU. Weights, scores, thresholds and the optimiser stay
    in float32."""
    eval_precision: Precision = option("float32", heading=_HEADING, expert=True)
    """Precision in which results are evaluated. Evaluations in the course of a training have that of the training."""
    compile: bool = option(False, heading=_HEADING)
    """Use torch.compile: faster steps after minutes of compilation."""
    accumulate: Count = option(1, heading=_HEADING)
    """Parts in which a batch is computed, to save memory; their gradients are added. The batch stays the same."""
    checkpointing: bool = option(False, heading=_HEADING)
    """Gradient checkpointing, to save memory: the backward pass computes activations again. The result is the same."""
    weight_decay: WeightDecay = option(0.0, heading=_HEADING, expert=True)
    """Weight decay of AdamW, on the weights; not on biases, norms and mask scores."""

    def changed(self, profile: Profile) -> Profile:
        for names, rate in ((OF_WEIGHTS, self.learning_rate), (OF_SCORES, self.score_rate)):
            profile = profile if rate is None else profile.each_training(names, learning_rate=rate)
        length: dict[str, Any] = {} if self.max_length is None else {"max_length": self.max_length}
        same = {name: getattr(self, name) for name in _OF_EVERY}
        return profile.each_training(scale=self.scale, **same, **length)


_SMP_TASKS = {"smp": ("mnli", "qqp", "squad"), "robust-smp": ("mnli", "qqp")}
"""Where the authors compare the methods, and where there is an OOD set for it."""
_LANGUAGE_TASKS = ("stereotypes", "sentences")
"""The embedded tasks for language models."""
_ALL = "all"


@dataclass(frozen=True)
class Order(TrainingOptions):
    """What to reproduce, and at what scale."""

    figures: tuple[Annotated[str, OneOf((_ALL, *FIGURES))], ...] = option((_ALL,), name=None)
    """Which figures and tables; a command's argument."""
    profile: Literal["toy", "cpu", "paper"] = option("toy", always=True)
    """toy: the embedded benchmark. cpu: your data, a small backbone. paper: the published settings."""
    tasks: tuple[str, ...] = ()
    """With commas: inference, paraphrase, verification; mnli, snli, qqp, fever, imdb; the rest of GLUE and squad for
    smp; stereotypes, sentences for generation; YAML files. Default: all that a figure is shown on."""
    seeds: tuple[int, ...] = option((), kind=FIRST_SEEDS)
    """How many seeds. Default 1, for claims 3; 4 with the profile paper."""
    sparsities: tuple[Sparsity, ...] = ()
    """Shares to prune, with commas, where a figure shows several. Default: the profile's."""
    backbone: str | None = None
    """A folder or a hub name, instead of the profile's backbone."""
    other_backbones: tuple[str, ...] = ()
    """For tab6: folders or hub names, with commas."""
    data: DataOptions = option(DataOptions(), heading="Data")
    """Where the data are and how they are read."""
    bias: BiasSpec = option(BiasSpec(), heading="Bias model")
    """How the shortcut is measured."""
    lines: tuple[str, ...] = option((), name="--line", kind=REPEATED)
    """Only this line of a figure, by its label, and the full CE model to compare with. Repeatable. --dry-run lists the
    labels."""
    baselines: bool = option(False, alone=True)
    """Add baselines to fig2: a new head, LoRA, pruning of the debiased model, int8 weights."""
    words: tuple[str, ...] | None = option(None, name="--label-words")
    """One word a label, with commas, or none for a classifier. Default, for smp and robust-smp: the task's own words
    where the backbone brings a masked-language-model head."""
    without_vectors: bool = option(False, alone=True)
    """Profile paper: measure the shortcut on words alone, though the paper's bias models read word vectors."""
    as_published: bool = option(False, alone=True)
    """Do as the published code does where ours departs from it and has a switch: thresholds at the k-th score and moved
    at evaluations only, gradual sparsity and SMP's lambda growing to the end of the run, and any checkpoint of a
    debiased full model."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.profile == "cpu" and not (self.backbone and (self.tasks or self.data.train)):
            fix = (
                "give --backbone with a folder or a hub name, and --train with your file or --tasks with "
                f"{', '.join(DATASETS)} or a YAML file"
            )
            raise UserError("profile 'cpu' needs a backbone and data", fix)
        if self.without_vectors and self.bias.vectors is not None:
            raise UserError("--vectors and --without-vectors exclude each other", "keep one of them")
        object.__setattr__(self, "bias", self.bias.resolved(Path()))  # so that its command works in any folder

    @property
    def folder(self) -> Path:
        """Where the report goes by default."""
        return Path(f"srnet-{'-'.join(self.figures)}")

    def seeded(self, least: int = 1) -> Order:
        """The order with seeds: its own, or else `least`, and four with the profile paper, as in the paper's tables."""
        count = max(least, 4 if self.profile == "paper" else 1)
        return self if self.seeds else replace(self, seeds=first_seeds(count))

    def command(self, figure: str | None = None) -> str:
        """The command that reproduces this, or one figure of it."""
        figures = [figure] if figure else self.figures
        return shlex.join(["srnet", "reproduce", *figures, *as_cli_args(self.seeded())])

    def recipes(self, *, outline: bool = False) -> list[Recipe]:
        """Every figure on every task it is shown on, figures in the paper's order.

        With `outline` the tasks have published sizes and no rows, so that there is a plan without data.
        """
        paper = [name for name, figure in FIGURES.items() if figure.family == "srnet"]
        names = paper if _ALL in self.figures else dict.fromkeys(self.figures)
        shown = [(FIGURES[name], task) for name in names for task in self._tasks(FIGURES[name], outline)]
        if self.baselines and not any(figure.baselines_of for figure, _ in shown):
            raise UserError("baselines are lines of fig2", "leave out --baselines, or add fig2")
        made = [
            figure.recipe(self._profile(figure, task), self.sparsities, self.lines, baselines=self.baselines)
            for figure, task in shown
        ]
        recipes = [recipe for recipe in made if recipe.name != "tab6" or recipe.profile.other_backbones]
        if not recipes:
            raise UserError(f"profile '{self.profile}' has no other backbones", "give --other-backbones")
        if not outline:
            self._check_bias([recipe for recipe in recipes if recipe.bias_models], recipes[0].name)
        return recipes

    def planned(self) -> tuple[list[Recipe], str]:
        """The recipes for a plan. Where the paper's data or backbones are not there, they are outlines; and why."""
        try:
            recipes = self.recipes()
            for raw in {point.node.pretrained for recipe in recipes for point in recipe.shown}:
                raw.key  # noqa: B018  an error unless its backbone and its data can be read
        except UserError as error:
            if self.profile != "paper" or self.backbone is not None or self.data != DataOptions():
                raise
            try:
                return self.recipes(outline=True), str(error)
            except UserError:
                raise error from None
        return recipes, ""

    def _tasks(self, figure: Figure, outline: bool) -> list[TaskSpec]:
        """Those that the user names; otherwise those on which the paper shows the figure."""
        paper = tuple(EMBEDDED_TASKS) if self.profile == "toy" else tuple(PUBLISHED)
        shown = {"all": paper, "main": paper[:1], "others": paper[1:]}[figure.tasks]
        if figure.family == "language" and self.profile == "toy":
            shown = _LANGUAGE_TASKS
        names = self.tasks or (self.profile == "paper" and _SMP_TASKS.get(figure.name)) or shown
        if outline:
            tasks: list[TaskSpec] = [Outline(choose("task of the paper", name, SIZES)) for name in names]
        elif self.data.train and not self.tasks:
            tasks = [self._own_task]
        else:
            tasks = [self.data.task(name, alone=len(names) == 1) for name in names]
        for task in tasks:
            _check_kind(figure, task)
        no_ood = [task.name for task in tasks if figure.needs_ood and not load_task(task).ood]
        if no_ood:
            raise UserError(f"task '{no_ood[0]}' has no OOD set", "give one: --ood NAME=FILE, or ood in its YAML file")
        return tasks

    @cached_property
    def _own_task(self) -> TaskSpec:
        """The task of the user's files. All figures are shown on it, and its columns are guessed once."""
        return self.data.task()

    def _profile(self, figure: Figure, task: TaskSpec) -> Profile:
        make = PROFILES[figure.family][self.profile]
        profile = make(task, self.backbone) if self.backbone else make(task)
        if self.score_rate is not None and figure.family == "smp":
            raise UserError(f"{figure.name} has a score rate for each method", "leave out --score-rate")
        profile = replace(
            self.changed(profile),
            seeds=self.seeded().seeds,
            other_backbones=self.other_backbones or profile.other_backbones,
            bias=self.bias,
            words=profile.words if self.words is None else self.words,
        )
        return as_published(profile) if self.as_published else profile

    def _check_bias(self, debiased: list[Recipe], first: str) -> None:
        """The paper's bias models read word vectors: where ours do not, the user must say so."""
        if not debiased and self.bias != BiasSpec():
            raise UserError(f"no line of {first} uses a bias model", "leave out --shortcut and --vectors")
        words = [r for r in debiased if any("vectors" in part.kind.options for part in self.bias.parts(r.task))]
        if debiased and not words and self.without_vectors:
            written = with_commas(part.text for part in self.bias.parts(debiased[0].task))
            raise UserError(f"shortcut '{written}' reads no word vectors", "leave out --without-vectors")
        if words and self.profile == "paper" and self.bias.vectors is None and not self.without_vectors:
            fix = "give --vectors FILE, or --without-vectors to measure the shortcut on words alone"
            raise UserError(f"the bias model of {words[0].name} needs word vectors to be the paper's", fix)


def _check_kind(figure: Figure, task: TaskSpec) -> None:
    """Figures of language models have no classifiers, and the others nothing else."""
    if isinstance(task, Outline) or (figure.family == "language") == answer_of_spec(task).language:
        return
    if figure.family == "language":
        fix = "give stereotypes, sentences, or a YAML file with answer: pairs or answer: text"
        raise UserError(f"{figure.name} is about language models, and '{task.name}' is a task for classifiers", fix)
    problem = f"{figure.name} is about classifiers, and '{task.name}' is a task for language models"
    raise UserError(problem, "srnet reproduce generation is about language models")


def as_published(profile: Profile) -> Profile:
    """With every switch for what the published code does and our defaults do not: docs/reproduce.md lists them."""
    switches: dict[str, Options] = {name: {"penalty_until": "end"} for name in STATIC}
    switches["mask"] = {"cut": "kth", "refresh_every": profile.pruning.eval_every}
    searches = {**{name: Search(name) for name in switches}, **profile.searches}
    searches["gradual"] = replace(searches["mask"], options=searches["mask"].options | {"ramp": 1.0})
    for name, search in searches.items():
        searches[name] = replace(search, options=search.options | switches.get(search.pruner, {}))
    return replace(profile.each_training(selection="published"), searches=searches)
