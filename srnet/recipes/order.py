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
from srnet.options import COUNT, TEXT, as_cli_args, option, repeated
from srnet.recipes.figures import FIGURES, Figure, get_figure
from srnet.recipes.points import Point, labels_of
from srnet.recipes.profile import Profile
from srnet.recipes.profiles.cpu import cpu_profile
from srnet.recipes.profiles.paper import BACKBONE, PUBLISHED, paper_profile
from srnet.recipes.profiles.smp import STATIC, cpu_smp, paper_smp, toy_smp
from srnet.recipes.profiles.toy import toy_profile
from srnet.recipes.recipe import Recipe
from srnet.recipes.tasks import DATASETS, DataOptions
from srnet.tasks.synthetic import FAMILIES
from srnet.training import TrainingSettings
from srnet.training.settings import Precision

PROFILES = ("toy", "cpu", "paper")
SEEDS = {"toy": 1, "cpu": 1, "paper": 4}
"""The default number of seeds of a profile; the paper's tables are over four."""
ALL = "all"
PROFILE_OF: dict[tuple[str, str], Callable[[TaskSpec, str], Profile]] = {
    ("srnet", "toy"): toy_profile,
    ("srnet", "cpu"): cpu_profile,
    ("srnet", "paper"): paper_profile,
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
    score_rate: float | None = None
    """Of the mask's scores, instead of the profile's, in mask training: shorter runs take larger ones."""
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
    at evaluations only, gradual sparsity and SMP's lambda growing to the end of the run, and any checkpoint of a
    debiased full model."""

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
        made = [self._recipe(figure, task) for figure in self._figures() for task in self._tasks(figure)]
        recipes = [recipe for recipe in made if recipe is not None]
        if not recipes:
            raise UserError(f"profile '{self.profile}' knows no other backbones", "give --other-backbones")
        self._check_bias([recipe for recipe in recipes if recipe.bias_models], recipes[0].name)
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

    def _tasks(self, figure: Figure) -> list[TaskSpec]:
        """Those that the user names; otherwise those on which the paper shows the figure."""
        names = self.tasks or self._usual_tasks(figure)
        tasks = [self.data.task(name, alone=len(names) == 1) for name in names]
        return [_with_ood(task) if figure.needs_ood else task for task in tasks]

    def _usual_tasks(self, figure: Figure) -> tuple[str, ...]:
        if self.profile == "paper" and figure.family == "smp":
            return SMP_TASKS[figure.name]
        names = tuple(FAMILIES) if self.profile == "toy" else tuple(PUBLISHED)
        return {"all": names, "main": names[:1], "others": names[1:]}[figure.tasks]

    def _profile(self, task: TaskSpec, figure: Figure) -> Profile:
        usual = {"toy": EMBEDDED, "cpu": "", "paper": BACKBONE}[self.profile]
        profile = PROFILE_OF[figure.family, self.profile](task, self.backbone or usual)
        profile = replace(
            profile,
            seeds=self.seeds,
            other_backbones=self.other_backbones or profile.other_backbones,
            bias=self.bias,
            words=profile.words if self.words is None else self.words,
        )
        if self.learning_rate is not None:
            profile = _with_rate(profile, self.learning_rate)
        if self.score_rate is not None:
            profile = _with_score_rate(profile, self.score_rate, figure)
        profile = profile.each_training(self._trained)
        return as_published(profile) if self.as_published else profile

    def _trained(self, settings: TrainingSettings) -> TrainingSettings:
        settings = replace(settings, precision=self.precision, compile=self.compile)
        return settings if self.scale == 1.0 else scaled(settings, self.scale)

    def _recipe(self, figure: Figure, task: TaskSpec) -> Recipe | None:
        profile = self._profile(task, figure)
        if figure.name == "tab6" and not profile.other_backbones:
            return None  # an error of `recipes` if nothing else was asked for
        recipe = figure.recipe(profile, self.sparsities)
        return replace(recipe, figure=self._chosen(recipe)) if self.lines else recipe

    def _chosen(self, recipe: Recipe) -> Callable[[Profile], list[Point]]:
        for label in self.lines:
            choose(f"line of {recipe.name}", label, labels_of(recipe.figure(recipe.profile)))

        def chosen(profile: Profile) -> list[Point]:
            points = recipe.figure(profile)
            return [p for p in points if p.label in self.lines or p.node == profile.full(p.seed, backbone=p.backbone)]

        return chosen


def as_published(profile: Profile) -> Profile:
    """With every switch for what the published code does and our defaults do not: docs/reproduce.md lists them."""
    thresholds = {"cut": "kth", "refresh_every": profile.pruning.eval_every}
    static = {name: (*profile.options_of.get(name, ()), ("penalty_until", "end")) for name in STATIC}
    return replace(
        profile.each_training(lambda settings: replace(settings, selection="published")),
        mask_options=tuple({**dict(profile.mask_options), **thresholds}.items()),
        gradual_options=(("ramp", 1.0),),
        options_of={**profile.options_of, **static},
    )


def _with_rate(profile: Profile, rate: float) -> Profile:
    """What is listed by pruner trains weights; `pruning` itself trains scores."""
    changed = profile.each_training(lambda settings: replace(settings, learning_rate=rate))
    return replace(changed, pruning=profile.pruning, with_ood=profile.with_ood)


def _with_score_rate(profile: Profile, rate: float, figure: Figure) -> Profile:
    if figure.family == "smp":
        raise UserError(f"{figure.name} has a score rate for each method", "leave out --score-rate")
    with_ood = profile.with_ood and replace(profile.with_ood, learning_rate=rate)
    return replace(profile, pruning=replace(profile.pruning, learning_rate=rate), with_ood=with_ood)


def _with_ood(task: TaskSpec) -> TaskSpec:
    """Without an OOD set nothing can be said about robustness: an error before the training."""
    if not load_task(task).ood:
        raise UserError(f"task '{task.name}' has no OOD set", "give one: --ood NAME=FILE, or ood in its YAML file")
    return task


def scaled(settings: TrainingSettings, scale: float) -> TrainingSettings:
    """`scale` times as long, with as many evaluations."""
    steps = None if settings.steps is None else max(1, round(scale * settings.steps))
    every = max(1, round(scale * settings.eval_every))
    return replace(settings, steps=steps, epochs=scale * settings.epochs, eval_every=every)
