"""Three scales of the same figures: the embedded benchmark, a small real backbone, the paper's own."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from srnet.errors import UserError, choose
from srnet.experiment.nodes import TaskSpec
from srnet.names import EMBEDDED
from srnet.recipes.cpu import cpu_setup
from srnet.recipes.figures import FIGURES, Figure, get_figure
from srnet.recipes.paper import BACKBONE, PUBLISHED, paper_setup
from srnet.recipes.recipe import Recipe
from srnet.recipes.setup import Setup
from srnet.recipes.spec import load_task_file
from srnet.recipes.toy import toy_setup
from srnet.tasks.synthetic import FAMILIES, SyntheticTask
from srnet.training import TrainingSettings

PROFILES = ("toy", "cpu", "paper")
ALL = "all"


@dataclass(frozen=True)
class Order:
    """What a user wants reproduced, and on what scale."""

    figures: tuple[str, ...] = (ALL,)
    profile: str = "toy"
    tasks: tuple[str, ...] = ()
    """Names, or YAML files that describe data; none: the tasks on which the paper shows each figure."""
    seeds: tuple[int, ...] = (0,)
    sparsities: tuple[float, ...] = ()
    """Instead of the profile's, where a figure is about sparsities."""
    backbone: str | None = None
    other_backbones: tuple[str, ...] = ()
    """Instead of the profile's, for tab6."""
    scale: float = 1.0
    """Multiplies the length of every training: 0.1 for a trial."""

    def __post_init__(self) -> None:
        choose("profile", self.profile, PROFILES)
        for name in self.figures:
            choose("recipe", name, (ALL, *FIGURES))
        if not 0.0 < self.scale <= 100.0:
            raise UserError(f"scale {self.scale:g} is out of range", "it multiplies the length of every training")
        if self.profile == "cpu" and not self.backbone:
            raise UserError("profile 'cpu' needs a backbone", "give --backbone FOLDER or a hub name")
        if self.profile != "toy" and not self.tasks:
            names = f" with the name {' or '.join(PUBLISHED)}" if self.profile == "paper" else ""
            raise UserError(
                f"profile '{self.profile}' needs data", f"give --tasks FILE.yaml{names}: see docs/recipes.md"
            )

    def command(self, figure: str | None = None) -> str:
        """What one types to get this again, or one figure of it."""
        options = {
            "profile": self.profile,
            "tasks": ",".join(self.tasks),
            "seeds": str(len(self.seeds)),
            "sparsities": ",".join(str(sparsity) for sparsity in self.sparsities),
            "backbone": self.backbone or "",
            "other-backbones": ",".join(self.other_backbones),
            "scale": "" if self.scale == 1.0 else str(self.scale),
        }
        given = [f"--{name} {shlex.quote(value)}" for name, value in options.items() if value]
        return " ".join(["srnet reproduce", *([figure] if figure else self.figures), *given])

    def recipes(self) -> list[Recipe]:
        """Every figure on every task it is shown on, figures in the paper's order."""
        setups = {name: self._setup(_task(name, self.profile)) for name in self.tasks or tuple(FAMILIES)}
        made = [
            self._recipe(figure, setup)
            for figure in self._figures()
            for setup in self._setups(figure, list(setups.values()))
        ]
        recipes = [recipe for recipe in made if recipe is not None]
        if not recipes:
            raise UserError(f"profile '{self.profile}' knows no other backbones", "give --other-backbones")
        return recipes

    def _figures(self) -> list[Figure]:
        names = FIGURES if ALL in self.figures else dict.fromkeys(self.figures)
        return [get_figure(name) for name in names]

    def _setups(self, figure: Figure, setups: Sequence[Setup]) -> Sequence[Setup]:
        """On every task the user names; otherwise where the paper shows the figure."""
        if self.tasks or figure.tasks == "all":
            return setups
        return setups[:1] if figure.tasks == "main" else setups[1:]

    def _setup(self, task: TaskSpec) -> Setup:
        if self.profile == "toy":
            setup = toy_setup(task, self.backbone or EMBEDDED)
        elif self.profile == "cpu":
            setup = cpu_setup(task, self.backbone or "")
        else:
            setup = paper_setup(task, self.backbone or BACKBONE)
        return scaled(replace(setup, other_backbones=self.other_backbones or setup.other_backbones), self.scale)

    def _recipe(self, figure: Figure, setup: Setup) -> Recipe | None:
        if figure.name == "tab6" and not setup.other_backbones:
            return None  # said by `recipes`, if it was all that was asked for
        return figure.recipe(setup, self.seeds, self.sparsities or None)


def scaled(setup: Setup, scale: float) -> Setup:
    """Every training `scale` times as long, with as many evaluations."""
    if scale == 1.0:
        return setup

    def shorter(settings: TrainingSettings) -> TrainingSettings:
        steps = None if settings.steps is None else max(1, round(scale * settings.steps))
        every = max(1, round(scale * settings.eval_every))
        return replace(settings, steps=steps, epochs=scale * settings.epochs, eval_every=every)

    return replace(
        setup,
        finetuning=shorter(setup.finetuning),
        finetuning_of=tuple((name, shorter(each)) for name, each in setup.finetuning_of),
        pruning=shorter(setup.pruning),
        stopping=shorter(setup.stopping),
        with_ood=shorter(setup.with_ood),
    )


def _task(name: str, profile: str) -> TaskSpec:
    if name.endswith((".yaml", ".yml")):
        return load_task_file(Path(name))
    if profile == "toy":
        return SyntheticTask(name)
    raise UserError(f"profile '{profile}' has no data for '{name}'", "give a YAML file that describes it")
