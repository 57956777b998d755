"""Recipes from YAML: every key is checked, an unknown one is an error."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from srnet.errors import UserError
from srnet.experiment import BiasModel
from srnet.experiment.nodes import TaskSpec
from srnet.names import EMBEDDED
from srnet.recipes.recipe import Line, Recipe
from srnet.recipes.toy import FINETUNING, PRUNING, RATES
from srnet.tasks.files import FilesTask
from srnet.tasks.synthetic import SyntheticTask
from srnet.training import TrainingSettings


def build(cls: Callable[..., Any], values: Any, where: str, **defaults: Any) -> Any:
    """A dataclass from a mapping. Lists become tuples, mappings become tuples of pairs."""
    if not isinstance(values, Mapping):
        raise UserError(f"{where} must be a mapping, not {type(values).__name__}")
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    unknown = [str(key) for key in values if key not in fields]
    if unknown:
        raise UserError(f"{where}: unknown key '{unknown[0]}'", f"known: {', '.join(fields)}")
    required = [n for n, f in fields.items() if f.default is f.default_factory is dataclasses.MISSING]
    missing = [name for name in required if name not in values and name not in defaults]
    if missing:
        raise UserError(f"{where}: key '{missing[0]}' is missing")
    given = {key: _frozen(value, fields[key].type, f"{where}.{key}") for key, value in values.items()}
    return cls(**{**defaults, **given})


def _frozen(value: Any, annotation: Any, where: str) -> Any:
    if isinstance(value, list):
        inner = "str" if str(annotation).startswith("tuple[str, ...]") else ""
        return tuple(_frozen(each, inner, where) for each in value)
    if isinstance(value, Mapping):
        return tuple((str(key), _frozen(each, "", where)) for key, each in value.items())
    wanted = str(annotation).split(" | ")[0]
    # YAML reads 5e-5 as text, for want of a dot
    try:
        if wanted == "float" and not isinstance(value, bool) and value is not None:
            return float(value)
    except (TypeError, ValueError):
        raise UserError(f"{where}: '{value}' is not a number") from None
    if wanted == "int" and value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise UserError(f"{where}: '{value}' is not a whole number")
    if wanted in ("str", "Paradigm", "Metric", "Shortcut") and value is not None and not isinstance(value, str):
        raise UserError(f"{where}: {value!r} is not text", "put it in quotes")
    return value


def task_from(values: Any, where: str, folder: Path = Path()) -> TaskSpec:
    """A name of the embedded benchmark, a mapping of its dials, or a mapping that describes files."""
    if isinstance(values, str):
        return SyntheticTask(values)
    if isinstance(values, Mapping) and "train" in values:
        task: FilesTask = build(FilesTask, values, where)
        ood = tuple((name, str(folder / path)) for name, path in task.ood)
        return dataclasses.replace(task, train=str(folder / task.train), dev=str(folder / task.dev), ood=ood)
    return build(SyntheticTask, values, where)  # type: ignore[no-any-return]


def _read_yaml(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {getattr(error, 'strerror', error)}") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path} is not YAML: {' '.join(str(error).split())}") from None


_KEYS = ("name", "task", "lines", "backbone", "seeds", "finetuning", "pruning", "rates", "bias")


def load_recipe(path: Path) -> Recipe:
    """Read a recipe; relative paths in it start from its own folder."""
    values = _read_yaml(path)
    if not isinstance(values, Mapping):
        raise UserError(f"{path} must hold a mapping", f"with the keys {', '.join(_KEYS)}")
    unknown = [str(key) for key in values if key not in _KEYS]
    if unknown:
        raise UserError(f"{path}: unknown key '{unknown[0]}'", f"known: {', '.join(_KEYS)}")
    for key in ("task", "lines"):
        if key not in values:
            raise UserError(f"{path}: key '{key}' is missing")
    return _recipe(values, path)


def _recipe(values: Mapping[str, Any], path: Path) -> Recipe:
    task = task_from(values["task"], f"{path}: task", path.parent)
    lines = values["lines"]
    if not isinstance(lines, list):
        raise UserError(f"{path}: lines must be a list")
    seeds = values.get("seeds", 1)
    backbone = values.get("backbone", EMBEDDED)
    toy = backbone == EMBEDDED
    return Recipe(
        name=str(values.get("name", path.stem)),
        task=task,
        lines=tuple(build(Line, line, f"{path}: line {n}") for n, line in enumerate(lines, start=1)),
        backbone=backbone,
        seeds=tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds),
        finetuning=_settings(values, "finetuning", FINETUNING if toy else TrainingSettings(), path),
        pruning=_settings(values, "pruning", PRUNING if toy else TrainingSettings(), path),
        rates=tuple(dict(values.get("rates", dict(RATES) if toy else {})).items()),
        bias=build(BiasModel, values["bias"], f"{path}: bias", task=task) if "bias" in values else None,
    )


def _settings(values: Mapping[str, Any], key: str, default: TrainingSettings, path: Path) -> TrainingSettings:
    given = values.get(key, {})
    return build(TrainingSettings, given, f"{path}: {key}", **dataclasses.asdict(default))  # type: ignore[no-any-return]


def load_task_file(path: Path) -> TaskSpec:
    """A YAML file that holds a task alone: the same mapping as under a recipe's `task`."""
    return task_from(_read_yaml(path), str(path), path.parent)
