"""Three scales of the same figures: the embedded benchmark, a small real backbone, the paper's own."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from srnet.errors import UserError, choose
from srnet.experiment import BiasSpec, load_task
from srnet.experiment.nodes import TaskSpec
from srnet.names import EMBEDDED
from srnet.objectives import get_objective
from srnet.options import COUNT, TEXT, as_cli_args, option, repeated
from srnet.recipes.cpu import cpu_setup
from srnet.recipes.figures import FIGURES, FULL_CE, Figure, get_figure
from srnet.recipes.paper import BACKBONE, PUBLISHED, paper_setup
from srnet.recipes.recipe import Line, Recipe
from srnet.recipes.setup import Setup
from srnet.recipes.smp import STATIC, cpu_smp, paper_smp, toy_smp
from srnet.recipes.spec import DATASETS, DataOptions
from srnet.recipes.toy import toy_setup
from srnet.tasks.synthetic import FAMILIES
from srnet.training import TrainingSettings
from srnet.training.settings import Precision

PROFILES = ("toy", "cpu", "paper")
SEEDS = {"toy": 1, "cpu": 1, "paper": 4}
"""How many seeds a profile takes if not told; the paper's tables are over four."""
ALL = "all"
SETUPS: dict[tuple[str, str], Callable[[TaskSpec, str], Setup]] = {
    ("srnet", "toy"): toy_setup,
    ("srnet", "cpu"): cpu_setup,
    ("srnet", "paper"): paper_setup,
    ("smp", "toy"): toy_smp,
    ("smp", "cpu"): cpu_smp,
    ("smp", "paper"): paper_smp,
}
SMP_TASKS = {"smp": ("mnli", "qqp", "squad"), "robust-smp": ("mnli", "qqp")}
"""Where the authors compare the methods, and where there is an OOD set for it."""


@dataclass(frozen=True)
class Order:
    """What a user wants reproduced, and on what scale."""

    figures: tuple[str, ...] = option((ALL,), name=None)
    """Which figures and tables; a command's argument."""
    profile: Literal["toy", "cpu", "paper"] = option("toy", always=True)
    """toy: the embedded benchmark. cpu: your data, a small backbone. paper: the published settings."""
    tasks: tuple[str, ...] = ()
    """With commas: inference, paraphrase, verification; mnli, snli, qqp, fever; the rest of GLUE and squad for smp;
    YAML files. Default: all that a figure is shown on."""
    seeds: tuple[int, ...] = option((), kind=COUNT)
    """How many seeds. Default 1, for claims 3; 4 with the profile paper."""
    sparsities: tuple[float, ...] = ()
    """Shares to prune, with commas, where a figure shows several. Default: the profile's."""
    backbone: str | None = None
    """A folder or a hub name, instead of the profile's backbone."""
    other_backbones: tuple[str, ...] = ()
    """For tab6: folders or hub names, with commas."""
    scale: float = 1.0
    """Multiply the length of every training, e.g. 0.1 for a trial."""
    data: DataOptions = option(DataOptions(), heading="Data")
    """Where the data are and how they are read."""
    bias: BiasSpec = option(BiasSpec(), heading="Bias model")
    """How the shortcut is measured."""
    learning_rate: float | None = None
    """Of the weights, instead of the profile's, in fine-tuning and for pruners that train them: smaller backbones take
    larger ones."""
    precision: Precision = "float32"
    """Precision of the layers in training. Weights, scores, thresholds and the optimiser stay in float32."""
    compile: bool = False
    """Use torch.compile: faster steps after minutes of compilation."""
    lines: tuple[str, ...] = option((), name="--line", kind=repeated(TEXT))
    """Only this line of a figure, by its label, and the full CE model to compare with. Repeatable."""
    words: tuple[str, ...] | None = option(None, name="--label-words")
    """One word a label, with commas, or none for a classifier. Default, for smp and robust-smp: the task's own words
    where the backbone brings a masked-language-model head."""
    without_vectors: bool = option(False, alone=True)
    """Profile paper: measure the shortcut on words alone, though the paper's bias models read word vectors."""
    as_published: bool = option(False, alone=True)
    """Do as the published code does where ours departs from it and has a switch: thresholds at the k-th score and moved
    at evaluations only, gradual sparsity and SMP's lambda growing to the end of the run."""

    def __post_init__(self) -> None:
        choose("profile", self.profile, PROFILES)
        for name in self.figures:
            choose("recipe", name, (ALL, *FIGURES))
        if not 0.0 < self.scale <= 100.0:
            raise UserError(f"scale {self.scale:g} is out of range", "it multiplies the length of every training")
        if self.profile == "cpu" and not self.backbone:
            raise UserError("profile 'cpu' needs a backbone", "give --backbone FOLDER or a hub name")
        if self.profile == "cpu" and not self.tasks:
            raise UserError("profile 'cpu' needs data", f"give --tasks {', '.join(DATASETS)} or a YAML file")
        if self.without_vectors and self.bias.vectors is not None:
            raise UserError("--vectors and --without-vectors exclude each other", "keep one of them")
        if not self.seeds:
            object.__setattr__(self, "seeds", tuple(range(SEEDS[self.profile])))

    def command(self, figure: str | None = None) -> str:
        """The command that reproduces this, or one figure of it."""
        figures = [figure] if figure else self.figures
        return shlex.join(["srnet", "reproduce", *figures, *as_cli_args(self)])

    def recipes(self) -> list[Recipe]:
        """Every figure on every task it is shown on, figures in the paper's order."""
        made = [self._recipe(figure, setup) for figure in self._figures() for setup in self._setups(figure)]
        recipes = [recipe for recipe in made if recipe is not None]
        if not recipes:
            raise UserError(f"profile '{self.profile}' knows no other backbones", "give --other-backbones")
        self._check_bias([recipe for recipe in recipes if any(map(_debiases, recipe.lines))], recipes[0].name)
        return recipes

    def _check_bias(self, debiased: list[Recipe], first: str) -> None:
        """The paper's bias models read word vectors: a run that is to be compared with it says so if its own do not."""
        if not debiased and self.bias != BiasSpec():
            raise UserError(f"no line of {first} uses a bias model", "leave out --shortcut and --vectors")
        words = [recipe for recipe in debiased if (self.bias.shortcut or load_task(recipe.task).shortcut) != "unknown"]
        if debiased and not words and self.without_vectors:
            raise UserError("shortcut 'unknown' reads no word vectors", "leave out --without-vectors")
        if words and self.profile == "paper" and self.bias.vectors is None and not self.without_vectors:
            raise UserError(
                f"the bias model of {words[0].name} needs word vectors to be the paper's",
                "give --vectors FILE, or --without-vectors to measure the shortcut on words alone",
            )

    def _figures(self) -> list[Figure]:
        paper = [figure.name for figure in FIGURES.values() if figure.family == "srnet"]
        names = paper if ALL in self.figures else dict.fromkeys(self.figures)
        return [get_figure(name) for name in names]

    def _setups(self, figure: Figure) -> list[Setup]:
        """On every task the user names; otherwise where the paper shows the figure."""
        names = self.tasks or self._usual_tasks(figure)
        tasks = [self.data.task(name, alone=len(names) == 1) for name in names]
        return [self._setup(_with_ood(task) if figure.needs_ood else task, figure) for task in tasks]

    def _usual_tasks(self, figure: Figure) -> tuple[str, ...]:
        if self.profile == "paper" and figure.family == "smp":
            return SMP_TASKS[figure.name]
        names = tuple(FAMILIES) if self.profile == "toy" else tuple(PUBLISHED)
        return {"all": names, "main": names[:1], "others": names[1:]}[figure.tasks]

    def _setup(self, task: TaskSpec, figure: Figure) -> Setup:
        usual = {"toy": EMBEDDED, "cpu": "", "paper": BACKBONE}[self.profile]
        setup = SETUPS[figure.family, self.profile](task, self.backbone or usual)
        others = self.other_backbones or setup.other_backbones
        words = setup.words if self.words is None else self.words
        setup = replace(setup, other_backbones=others, bias=self.bias, words=words)

        def faster(settings: TrainingSettings) -> TrainingSettings:
            return replace(settings, precision=self.precision, compile=self.compile)

        if self.learning_rate is not None:
            setup = _with_rate(setup, self.learning_rate)
        setup = scaled(changed(setup, faster), self.scale)
        return as_published(setup) if self.as_published else setup

    def _recipe(self, figure: Figure, setup: Setup) -> Recipe | None:
        if figure.name == "tab6" and not setup.other_backbones:
            return None  # said by `recipes`, if it was all that was asked for
        recipe = figure.recipe(setup, self.seeds, self.sparsities or None)
        return replace(recipe, lines=self._chosen(recipe)) if self.lines else recipe

    def _chosen(self, recipe: Recipe) -> tuple[Line, ...]:
        for label in self.lines:
            choose(f"line of {recipe.name}", label, [line.label for line in recipe.lines])
        return tuple(line for line in recipe.lines if line.as_long or line.label in (FULL_CE.label, *self.lines))


def as_published(setup: Setup) -> Setup:
    """With every switch for what the published code does and our defaults do not: docs/reproduce.md lists them."""
    thresholds = {"cut": "kth", "refresh_every": setup.pruning.eval_every}
    static = {name: (*setup.options_of.get(name, ()), ("penalty_until", "end")) for name in STATIC}
    return replace(
        changed(setup, lambda settings: replace(settings, selection="published")),
        mask_options=tuple({**dict(setup.mask_options), **thresholds}.items()),
        gradual_options=(("ramp", 1.0),),
        options_of={**setup.options_of, **static},
    )


def _debiases(line: Line) -> bool:
    objectives = {line.finetune, line.prune, line.isolated} - {None}
    return any("bias" in get_objective(str(name)).needs for name in objectives)


def _with_rate(setup: Setup, rate: float) -> Setup:
    """What is listed by pruner trains weights; `pruning` itself trains scores."""

    def those(pairs: tuple[tuple[str, TrainingSettings], ...]) -> tuple[tuple[str, TrainingSettings], ...]:
        return tuple((name, replace(settings, learning_rate=rate)) for name, settings in pairs)

    return replace(
        setup,
        finetuning=replace(setup.finetuning, learning_rate=rate),
        stopping=replace(setup.stopping, learning_rate=rate),
        finetuning_of=those(setup.finetuning_of),
        pruning_of=those(setup.pruning_of),
    )


def _with_ood(task: TaskSpec) -> TaskSpec:
    """Without an OOD set nothing could be said about robustness: better known before the hours of training."""
    if not load_task(task).ood:
        raise UserError(f"task '{task.name}' has no OOD set", "give one: --ood NAME=FILE, or ood in its YAML file")
    return task


def scaled(setup: Setup, scale: float) -> Setup:
    """Every training `scale` times as long, with as many evaluations."""
    if scale == 1.0:
        return setup

    def shorter(settings: TrainingSettings) -> TrainingSettings:
        steps = None if settings.steps is None else max(1, round(scale * settings.steps))
        every = max(1, round(scale * settings.eval_every))
        return replace(settings, steps=steps, epochs=scale * settings.epochs, eval_every=every)

    return changed(setup, shorter)


def changed(setup: Setup, change: Callable[[TrainingSettings], TrainingSettings]) -> Setup:
    """With another setting for every training."""
    return replace(
        setup,
        finetuning=change(setup.finetuning),
        finetuning_of=tuple((name, change(each)) for name, each in setup.finetuning_of),
        pruning=change(setup.pruning),
        pruning_of=tuple((name, change(each)) for name, each in setup.pruning_of),
        stopping=change(setup.stopping),
        with_ood=change(setup.with_ood),
    )
