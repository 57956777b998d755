"""Recipes from YAML."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_type_hints

from srnet.errors import UserError, choose
from srnet.experiment import BiasSpec
from srnet.names import EMBEDDED
from srnet.objectives import get_objective
from srnet.options import check_seed_count, first_seeds
from srnet.pruners import PRUNERS, get_pruner
from srnet.recipes.paradigms import PARADIGMS, Search
from srnet.recipes.points import Axis, Point
from srnet.recipes.profile import Profile
from srnet.recipes.profiles.defaults import finetuning_for, pruning_for
from srnet.recipes.recipe import Recipe
from srnet.recipes.tasks import task_from
from srnet.recipes.values import build, check_keys, convert, convert_fields, located
from srnet.training import TrainingSettings
from srnet.yaml_files import read_yaml

Series = Callable[[Profile], list[Point]]
_KEYS = (
    "name", "task", "lines", "backbone", "seeds", "finetuning", "pruning", "pruning_of", "bias", "finetuning_of",
    "stopping", "with_ood", "axis", "title", "words", "control",
)  # fmt: skip


def load_recipe(path: Path) -> Recipe:
    """Read a recipe; relative paths in it start from its own folder."""
    values = read_yaml(path)
    if not isinstance(values, Mapping):
        raise UserError(f"{path} must hold a mapping", f"with the keys {', '.join(_KEYS)}")
    check_keys(values, _KEYS, str(path))
    for key in ("task", "lines"):
        if key not in values:
            raise UserError(f"{path}: key '{key}' is missing")
    return located(str(path), lambda: _recipe(values, path))


def _recipe(values: Mapping[str, Any], path: Path) -> Recipe:
    lines = values["lines"]
    if not isinstance(lines, list) or not lines:
        raise UserError(f"{path}: lines must be a list of at least one line")
    profile = _profile(values, path)
    series = [_series(line, f"{path}: line {n}") for n, line in enumerate(lines, start=1)]
    labels = [line["label"] for line in lines]
    if len(set(labels)) != len(labels):
        raise UserError(f"{path}: every line needs a label of its own, not {labels}")
    recipe = Recipe(
        name=convert(values.get("name", path.stem), str, f"{path}: name"),
        profile=profile,
        figure=lambda profile: [point for each in series for point in each(profile)],
        axis=convert(values.get("axis", "sparsity"), Axis, f"{path}: axis"),
        title=convert(values.get("title", ""), str, f"{path}: title"),
        control=convert(values.get("control", True), bool, f"{path}: control"),
    )
    recipe.figure(profile)  # what an expression refuses is said with the file's name
    return recipe


def _profile(values: Mapping[str, Any], path: Path) -> Profile:
    task = task_from(values["task"], f"{path}: task", path.parent)
    backbone = convert(values.get("backbone", EMBEDDED), str, f"{path}: backbone")
    finetuning = _settings(values, "finetuning", finetuning_for(backbone, task), path)
    pruning = _settings(values, "pruning", pruning_for(backbone, task=task), path)
    return Profile(
        task=task,
        backbone=backbone,
        seeds=_seeds(values.get("seeds", 1), f"{path}: seeds"),
        finetuning=finetuning,
        finetuning_of=_settings_by("finetuning_of", values, finetuning, path, get_objective),
        pruning=pruning,
        pruning_of=_pruning_of(values, lambda pruner: pruning_for(backbone, pruner, task), path),
        with_ood=_settings(values, "with_ood", pruning, path) if "with_ood" in values else None,
        stopping=_settings(values, "stopping", finetuning, path) if "stopping" in values else None,
        words=convert(values.get("words", []), tuple[str, ...], f"{path}: words"),
        bias=bias_from(values.get("bias", {}), f"{path}: bias", path.parent),
    )


def _seeds(given: Any, where: str) -> tuple[int, ...]:
    """How many, or which."""
    if isinstance(given, int) and not isinstance(given, bool):
        return first_seeds(given)
    seeds: tuple[int, ...] = convert(given, tuple[int, ...], where)
    check_seed_count(len(seeds))
    return seeds


# --- lines ---------------------------------------------------------------------------------------------------------

_SEARCH = tuple(inspect.signature(Search).parameters)
_OWN = {
    name: tuple(each for each in inspect.signature(make).parameters if each not in ("profile", "search"))
    for name, make in PARADIGMS.items()
}
"""The keys of a line beside those of a search, by paradigm."""


def _series(values: Any, where: str) -> Series:
    """A line as a function of a profile."""
    if not isinstance(values, Mapping):
        raise UserError(f"{where}: a mapping is needed, not {values!r}")
    if "as_long" in values:
        raise UserError(f"{where}: 'as_long' is gone: every recipe has controls", "control: false leaves them out")
    check_keys(values, ("paradigm", *dict.fromkeys(key for keys in (_SEARCH, *_OWN.values()) for key in keys)), where)
    if not isinstance(values.get("label"), str):
        raise UserError(f"{where}: a label is needed, as text (quote it)")
    where = f"{where}: line '{values['label']}'"
    paradigm = values.get("paradigm", "full")
    located(where, lambda: choose("paradigm", paradigm, PARADIGMS))
    if (paradigm == "full") != ("pruner" not in values):
        raise UserError(f"{where}: a pruner goes with paradigm a, b or c, and only with them")
    given = {key: value for key, value in values.items() if key != "paradigm"}
    own = {key: given.pop(key) for key in _OWN[paradigm] if key in given}
    unused = [key for key in given if key not in _SEARCH or paradigm == "full"]
    if unused:
        raise UserError(f"{where}: paradigm {paradigm} has no use for '{unused[0]}'", "leave it out")
    more = convert_fields(PARADIGMS[paradigm], own, where)
    if paradigm != "full":
        more["search"] = build(Search, _with_options(given, where), where)
    return lambda profile: located(where, lambda: PARADIGMS[paradigm](profile, **more))


def _with_options(values: dict[str, Any], where: str) -> dict[str, Any]:
    """With the options of the pruner converted as its fields ask for."""
    pruner = get_pruner(convert(values["pruner"], str, f"{where}: pruner"))
    hints = get_type_hints(pruner)

    def converted(options: Any, place: str) -> Any:
        """What the pruner has no field for is left to the pruner to refuse."""
        if not isinstance(options, Mapping):
            return options
        return {k: convert(v, hints[k], f"{place}: {k}") if k in hints else v for k, v in options.items()}

    if "options" in values:
        values["options"] = converted(values["options"], f"{where}: options")
    if isinstance(values.get("options_at"), Mapping):
        at = values["options_at"].items()
        values["options_at"] = {share: converted(each, f"{where}: options_at: {share}") for share, each in at}
    return values


# --- settings ------------------------------------------------------------------------------------------------------


def _settings(values: Mapping[str, Any], key: str, default: TrainingSettings, path: Path) -> TrainingSettings:
    given = values.get(key, {})
    if isinstance(given, Mapping) and "seed" in given:
        raise UserError(f"{path}: {key}: seeds belong to the recipe", "write seeds: [...] beside it")
    if isinstance(given, Mapping) and "epochs" in given:
        if "steps" in given:
            raise UserError(f"{path}: {key}: epochs and steps exclude each other", "keep one of them")
        default = dataclasses.replace(default, steps=None)
    return build(TrainingSettings, given, f"{path}: {key}", **dataclasses.asdict(default))


def _settings_by(
    key: str, values: Mapping[str, Any], default: TrainingSettings, path: Path, known: Callable[[str], Any]
) -> tuple[tuple[str, TrainingSettings], ...]:
    """Settings for each objective or pruner that is named."""
    given = values.get(key, {})
    if not isinstance(given, Mapping):
        raise UserError(f"{path}: {key}: a mapping is needed, not {given!r}")
    for name in given:
        known(str(name))
    return tuple((str(name), _settings(given, name, default, path)) for name in given)


def _pruning_of(
    values: Mapping[str, Any], usual: Callable[[str], TrainingSettings], path: Path
) -> tuple[tuple[str, TrainingSettings], ...]:
    """For pruners with settings of their own, or with some in the file: those, then `pruning`, then `pruning_of`."""
    given = values.get("pruning_of", {})
    named = dict(_settings_by("pruning_of", values, usual("mask"), path, get_pruner))
    own = {name for name, pruner in PRUNERS.items() if pruner.trains and usual(name) != usual("mask")}
    return tuple(
        (name, _settings(given, name, _settings(values, "pruning", usual(name), path), path))
        for name in sorted({*named, *own})
    )


def bias_from(values: Any, where: str, folder: Path = Path()) -> BiasSpec:
    return build(BiasSpec, values, where).resolved(folder)
