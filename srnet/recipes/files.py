"""Recipes from YAML."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from srnet.errors import UserError, choose
from srnet.experiment import BiasSpec
from srnet.names import EMBEDDED
from srnet.objectives import get_objective
from srnet.options import first_seeds
from srnet.pruners import PRUNERS
from srnet.recipes.paradigms import PARADIGMS
from srnet.recipes.points import Axis, Point
from srnet.recipes.profile import Profile, Search
from srnet.recipes.profiles.defaults import finetuning_for, pruning_for
from srnet.recipes.recipe import Recipe
from srnet.recipes.tasks import task_from
from srnet.recipes.values import arguments_of, build, located
from srnet.training import TrainingSettings
from srnet.yaml_files import read_yaml

Settings = dict[str, Any]
"""Some settings of a training. The defaults of the others depend on the task, the backbone and the pruner."""


@dataclass(frozen=True)
class RecipeFile:
    """The keys of a recipe."""

    task: Any
    lines: tuple[dict[str, Any], ...]
    name: str | int = ""
    backbone: str = EMBEDDED
    seeds: int | tuple[int, ...] = 1
    finetuning: Settings = field(default_factory=dict)
    pruning: Settings = field(default_factory=dict)
    finetuning_of: dict[str, Settings] = field(default_factory=dict)
    pruning_of: dict[str, Settings] = field(default_factory=dict)
    stopping: Settings | None = None
    with_ood: Settings | None = None
    bias: BiasSpec = field(default_factory=BiasSpec)
    words: tuple[str, ...] = ()
    axis: Axis = "sparsity"
    title: str = ""
    control: bool = True


def load_recipe(path: Path) -> Recipe:
    """Read a recipe; relative paths in it start from its own folder."""
    values = read_yaml(path)
    with located(path):
        file = build(RecipeFile, values)
        series = [_series(number, line) for number, line in enumerate(file.lines, start=1)]
        if not series or len({line["label"] for line in file.lines}) != len(series):
            raise UserError("lines must be a list of at least one line, each with a label of its own")
        recipe = Recipe(
            str(file.name) or path.stem,
            _profile(file, path.parent),
            lambda profile: [point for each in series for point in each(profile)],
            file.axis,
            file.title,
            file.control,
        )
        recipe.figure(recipe.profile)  # what an expression refuses is an error of the file
    return recipe


def _series(number: int, line: dict[str, Any]) -> Callable[[Profile], list[Point]]:
    """A line as a function of a profile."""
    label, paradigm = line.get("label"), line.get("paradigm", "full")
    place = f"line {number} '{label!s:.80}', paradigm {paradigm!s:.80}"
    with located(place):
        if "as_long" in line:
            raise UserError("'as_long' is gone: every recipe has controls", "control: false leaves them out")
        make = PARADIGMS[choose("paradigm", paradigm, PARADIGMS)]
        known = tuple(name for name in inspect.signature(make).parameters if name not in ("profile", "search"))
        own = {"label": None} | {key: value for key, value in line.items() if key in known or paradigm == "full"}
        own.pop("paradigm", None)
        arguments = arguments_of(make, own, only=known)
        if paradigm != "full":
            rest = {key: value for key, value in line.items() if key not in ("paradigm", *known)}
            search = arguments["search"] = build(Search, rest)
            for sparsity in {**search.options_at, **search.lengths_at}:
                if sparsity not in search.sparsities:
                    raise UserError(f"options_at or lengths_at names {sparsity:g}, which is none of the sparsities")

    def series(profile: Profile) -> list[Point]:
        with located(place):
            return make(profile, **arguments)

    return series


def _profile(file: RecipeFile, folder: Path) -> Profile:
    task = task_from(file.task, "task", folder)
    finetuning = _changed(finetuning_for(file.backbone, task), "finetuning", file.finetuning)
    trained = [name for name, pruner in PRUNERS.items() if pruner.trains]
    usual = {name: _changed(pruning_for(file.backbone, name, task), "pruning", file.pruning) for name in trained}
    own = {name: _changed(usual[name], f"pruning_of: {name}", file.pruning_of.get(name, {})) for name in trained}
    for name in file.pruning_of:
        choose("pruner that trains", name, trained)
    for name in file.finetuning_of:
        get_objective(name)
    return Profile(
        task=task,
        backbone=file.backbone,
        seeds=first_seeds(file.seeds) if isinstance(file.seeds, int) else file.seeds,
        finetuning=finetuning,
        finetuning_of={n: _changed(finetuning, f"finetuning_of: {n}", each) for n, each in file.finetuning_of.items()},
        pruning=usual["mask"],
        pruning_of={name: settings for name, settings in own.items() if settings != usual["mask"]},
        with_ood=None if file.with_ood is None else _changed(usual["mask"], "with_ood", file.with_ood),
        stopping=None if file.stopping is None else _changed(finetuning, "stopping", file.stopping),
        words=file.words,
        bias=file.bias.resolved(folder),
    )


def _changed(default: TrainingSettings, place: str, given: Settings) -> TrainingSettings:
    with located(place):
        if "seed" in given:
            raise UserError("seeds belong to the recipe", "write seeds: [...] beside it")
        if "epochs" in given and "steps" in given:
            raise UserError("epochs and steps exclude each other", "keep one of them")
        default = replace(default, steps=None) if "epochs" in given else default
        return replace(default, **arguments_of(TrainingSettings, given))


def bias_from(values: Any, where: str, folder: Path = Path()) -> BiasSpec:
    with located(where):
        return build(BiasSpec, values).resolved(folder)
