"""Recipes from YAML."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from srnet.config.fields import Described, first_seeds
from srnet.config.values import Seed, SeedCount, arguments_of, build, located
from srnet.config.yaml_files import read_yaml
from srnet.core.errors import UserError, choose
from srnet.core.names import EMBEDDED
from srnet.experiment.nodes.base import answer_of_spec, backbone_for
from srnet.experiment.nodes.bias import BiasSpec
from srnet.objectives.base import parse_objective
from srnet.pruners.base import PRUNERS
from srnet.recipes.paradigms import PARADIGMS, Axis, Point, Profile, Search, labels_of
from srnet.recipes.profiles import check_rates, finetuning_for, pruning_for
from srnet.recipes.recipe import Recipe
from srnet.recipes.tasks import read_task
from srnet.training.settings import TrainingSettings

Settings = dict[str, Any]
"""Some settings of a training. The defaults of the others depend on the task, the backbone and the pruner."""


@dataclass(frozen=True)
class _RecipeFile(Described):
    """The keys of a recipe."""

    task: Any
    lines: tuple[dict[str, Any], ...]
    name: str | int = ""
    backbone: str = EMBEDDED
    seeds: SeedCount | tuple[Seed, ...] = 1
    finetuning: Settings = field(default_factory=dict)
    finetuning_of: dict[str, Settings] = field(default_factory=dict)
    pruning: Settings = field(default_factory=dict)
    pruning_of: dict[str, Settings] = field(default_factory=dict)
    stopping: Settings | None = None
    with_ood: Settings | None = None
    bias: BiasSpec = field(default_factory=BiasSpec)
    words: tuple[str, ...] = ()
    axis: Axis = "sparsity"
    title: str = ""
    control: bool = True


def load_recipe(path: Path | str) -> Recipe:
    """Read a recipe from the YAML file `path`; relative paths in it start from its own folder."""
    path = Path(path)
    values = read_yaml(path)
    with located(path):
        file = build(_RecipeFile, values)
        name, profile = str(file.name) or path.stem, _profile(file, path.parent)
        recipe = Recipe(name, profile, partial(_points, file.lines), file.axis, file.title, file.control)
        if len(labels_of(recipe.shown)) != len(file.lines):  # reading them also finds what expressions refuse
            raise UserError("lines: each needs a label of its own")
    return recipe


def _profile(file: _RecipeFile, folder: Path) -> Profile:
    task = read_task(file.task, "task", folder)
    file = replace(file, backbone=backbone_for(task, file.backbone))
    if answer_of_spec(task).language and file.bias != BiasSpec():
        raise UserError(f"bias: '{task.name}' is a task for language models, which have no bias model", "leave it out")
    finetuning = _changed(finetuning_for(file.backbone, task), "finetuning", file.finetuning)
    trained = [name for name, pruner in PRUNERS.items() if pruner.trains]
    defaults = {name: _changed(pruning_for(file.backbone, name, task), "pruning", file.pruning) for name in trained}
    of_pruner = {n: _changed(defaults[n], f"pruning_of: {n}", file.pruning_of.get(n, {})) for n in trained}
    for name, given in file.pruning_of.items():
        choose("pruner that trains", name, trained)
        with located(f"pruning_of: {name}"):
            check_rates(name, file.words, given)
    for name in file.finetuning_of:
        parse_objective(name)
    seeds = first_seeds(file.seeds) if isinstance(file.seeds, int) else file.seeds  # how many, or which
    return Profile(
        task=task,
        backbone=file.backbone,
        seeds=seeds,
        finetuning=finetuning,
        finetuning_of={n: _changed(finetuning, f"finetuning_of: {n}", each) for n, each in file.finetuning_of.items()},
        pruning=defaults["mask"],
        pruning_of={name: settings for name, settings in of_pruner.items() if settings != defaults["mask"]},
        stopping=None if file.stopping is None else _changed(finetuning, "stopping", file.stopping),
        with_ood=None if file.with_ood is None else _changed(defaults["mask"], "with_ood", file.with_ood),
        bias=file.bias.resolved(folder),
        words=file.words,
    )


def _changed(default: TrainingSettings, place: str, given: Settings) -> TrainingSettings:
    with located(place):
        if "seed" in given:
            raise UserError("seeds belong to the recipe", "write seeds: [...] beside it")
        return default.changed(arguments_of(TrainingSettings, given))


def _points(lines: tuple[dict[str, Any], ...], profile: Profile) -> list[Point]:
    points = []
    for number, line in enumerate(lines, start=1):
        with located(f"line {number} '{line.get('label')!s:.80}'"):
            points += _series(profile, {"label": None, "paradigm": "full", **line})
    return points


def _series(profile: Profile, line: dict[str, Any]) -> list[Point]:
    """A line is a call of its paradigm: some keys are the function's own parameters, the others are of its search."""
    is_control = line.pop("control", False)
    if not isinstance(is_control, bool):
        raise UserError(f"control is {is_control!r:.80}", "write control: true, or leave it out")
    paradigm = choose("paradigm", line.pop("paradigm"), PARADIGMS)
    make = PARADIGMS[paradigm]
    own = [name for name in inspect.signature(make).parameters if name not in ("profile", "search")]
    known = own if paradigm == "full" else [*own, *inspect.signature(Search).parameters]
    known = [*known, "control"]
    for key in line:
        if key not in known:
            raise UserError(f"paradigm {paradigm} has no key '{key}'", f"known: {', '.join(known)}")
    arguments = arguments_of(make, {key: line.pop(key) for key in own if key in line})
    if paradigm != "full":
        search = arguments["search"] = build(Search, line)
        for sparsity in {**search.options_at, **search.lengths_at}:
            if sparsity not in search.sparsities:
                raise UserError(f"options_at or lengths_at names {sparsity:g}, which is none of the sparsities")
    points = make(profile, **arguments)
    return [replace(each, is_control=True, is_baseline=not each.is_pruned) for each in points] if is_control else points
