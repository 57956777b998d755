"""Recipes from YAML: every key and every value is checked, and an error names the file and the place."""

from __future__ import annotations

import contextlib
import dataclasses
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from srnet.errors import UserError, choose
from srnet.experiment import BiasSpec
from srnet.experiment.nodes import TaskSpec
from srnet.names import EMBEDDED
from srnet.objectives import get_objective
from srnet.pruners import PRUNERS, get_pruner
from srnet.recipes.recipe import Axis, Line, Recipe, with_controls
from srnet.recipes.usual import finetuning_for, pruning_for
from srnet.tasks.files import BadRows, FilesTask, Leaks
from srnet.tasks.published import PUBLISHED_OPTIONS, PUBLISHED_TASKS, published_task
from srnet.tasks.splits import Decision
from srnet.tasks.squad import SQUAD, SquadTask, squad_task
from srnet.tasks.synthetic import FAMILIES, SyntheticTask
from srnet.training import TrainingSettings

T = TypeVar("T")
DATASETS = (*PUBLISHED_TASKS, SQUAD)
"""What can be read from a folder or the Hub by its name alone."""
SQUAD_OPTIONS = ("metric", "rows", "bad_rows")


def build(cls: type[T], values: Any, where: str, **defaults: Any) -> T:
    """A dataclass from a mapping, each value converted to its field's type."""
    if not isinstance(values, Mapping):
        raise UserError(f"{where}: a mapping is needed, not {values!r}")
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    check_keys(values, fields, where)
    required = [n for n, f in fields.items() if f.default is f.default_factory is dataclasses.MISSING]
    missing = [name for name in required if name not in values and name not in defaults]
    if missing:
        raise UserError(f"{where}: key '{missing[0]}' is missing")
    hints = get_type_hints(cls)
    given = {key: convert(value, hints[key], f"{where}: {key}") for key, value in values.items()}
    return located(where, lambda: cls(**{**defaults, **given}))  # type: ignore[no-any-return]


def located(where: str, make: Any) -> Any:
    """Whatever `make` objects to is said with its place."""
    try:
        return make()
    except UserError as error:
        message = str(error)
        raise UserError(message if message.startswith(where) else f"{where}: {message}") from None


def check_keys(values: Mapping[str, Any], known: Any, where: str) -> None:
    unknown = [str(key) for key in values if key not in known]
    if unknown:
        raise UserError(f"{where}: unknown key '{unknown[0]}'", f"known: {', '.join(known)}")


def convert(value: Any, hint: Any, where: str) -> Any:
    """`value`, as YAML gave it, as the type a field asks for."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any or (origin is Literal and value in arguments):
        return value
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return build(hint, value, where)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _first_that_fits(value, [a for a in arguments if a is not type(None)], where)
    if origin is tuple:
        return _tuple(value, arguments, where)
    if hint is float and isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            return float(value)  # YAML reads 5e-5 as text, for want of a dot
        except ValueError:
            raise UserError(f"{where}: '{value}' is not a number") from None
    if hint in (int, str, bool) and isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    names = {int: "a whole number", float: "a number", str: "text (quote it)", bool: "true or false"}
    wanted = f"one of {', '.join(map(repr, arguments))}" if origin is Literal else names.get(hint, str(hint))
    raise UserError(f"{where}: {value!r} is not {wanted}")


def _first_that_fits(value: Any, hints: list[Any], where: str) -> Any:
    if isinstance(value, Mapping):  # what is wrong inside it should be said, not that it is no text
        hints = [hint for hint in hints if dataclasses.is_dataclass(hint)] or hints
    for hint in hints[:-1]:
        with contextlib.suppress(UserError):
            return convert(value, hint, where)
    return convert(value, hints[-1], where)


def _tuple(value: Any, arguments: tuple[Any, ...], where: str) -> tuple[Any, ...]:
    inner = arguments[0]
    if get_origin(inner) is tuple:  # pairs are written as a mapping
        if not isinstance(value, Mapping):
            raise UserError(f"{where}: a mapping is needed, not {value!r}")
        key, kind = get_args(inner)
        return tuple(
            (str(name) if key is str else convert(name, key, where), convert(each, kind, f"{where}: {name}"))
            for name, each in value.items()
        )
    if not isinstance(value, list):
        raise UserError(f"{where}: a list is needed, not {value!r}")
    return tuple(convert(each, inner, where) for each in value)


def task_from(values: Any, where: str, folder: Path = Path()) -> TaskSpec:
    """A name, a mapping of the embedded benchmark's dials, a published dataset with options, or files described."""
    if isinstance(values, str):
        return located(where, lambda: named_task(values))  # type: ignore[no-any-return]
    if isinstance(values, Mapping) and "dataset" in values:
        return located(where, lambda: _published(values, where, folder))  # type: ignore[no-any-return]
    if isinstance(values, Mapping) and "train" in values:
        if values.get("answer") == SquadTask.answer:
            said = {key: value for key, value in values.items() if key != "answer"}
            return build(SquadTask, said, where).moved(folder)
        return build(FilesTask, values, where).moved(folder)
    return build(SyntheticTask, values, where)


def named_task(name: str) -> TaskSpec:
    """A task of the embedded benchmark, or a published dataset from the Hub."""
    choose("task", name, (*FAMILIES, *DATASETS))
    if name == SQUAD:
        return squad_task()
    return published_task(name) if name in PUBLISHED_TASKS else SyntheticTask(name)


def _squad(options: dict[str, Any], data: Any, where: str, folder: Path) -> SquadTask:
    ood = {str(name): str(file) for name, file in dict(options.pop("ood", None) or {}).items()}
    plain = squad_task(None if data is None else (folder / str(data)).resolve(), ood)
    check_keys(options, SQUAD_OPTIONS, where)
    hints = get_type_hints(SquadTask)
    given = {key: convert(value, hints[key], f"{where}: {key}") for key, value in options.items()}
    return dataclasses.replace(plain, **given).moved(folder)


def _published(values: Mapping[str, Any], where: str, folder: Path) -> FilesTask | SquadTask:
    """`dataset: snli` with `data`, `ood`, `ood_train` and whatever else files can be told."""
    options = dict(values)
    name, data = options.pop("dataset"), options.pop("data", None)
    if name == SQUAD:
        return _squad(options, data, where, folder)
    ood, ood_train = (dict(options.pop(key, None) or {}) for key in ("ood", "ood_train"))
    plain = published_task(str(name), None if data is None else (folder / str(data)).resolve(), ood, ood_train)
    check_keys(options, PUBLISHED_OPTIONS, where)
    hints = get_type_hints(FilesTask)
    given = {key: convert(value, hints[key], f"{where}: {key}") for key, value in options.items()}
    return dataclasses.replace(plain, **given).moved(folder)


def _read_yaml(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {getattr(error, 'strerror', error)}", "check the path") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path} is not YAML: {' '.join(str(error).split())}") from None


_KEYS = (*(f.name for f in dataclasses.fields(Recipe)), "control")


def load_recipe(path: Path) -> Recipe:
    """Read a recipe; relative paths in it start from its own folder."""
    values = _read_yaml(path)
    if not isinstance(values, Mapping):
        raise UserError(f"{path} must hold a mapping", f"with the keys {', '.join(_KEYS)}")
    check_keys(values, _KEYS, str(path))
    for key in ("task", "lines"):
        if key not in values:
            raise UserError(f"{path}: key '{key}' is missing")
    return located(str(path), lambda: _recipe(values, path))  # type: ignore[no-any-return]


def _recipe(values: Mapping[str, Any], path: Path) -> Recipe:
    task = task_from(values["task"], f"{path}: task", path.parent)
    if not isinstance(values["lines"], list):
        raise UserError(f"{path}: lines must be a list")
    seeds = values.get("seeds", 1)
    backbone = convert(values.get("backbone", EMBEDDED), str, f"{path}: backbone")
    whole = isinstance(seeds, int) and not isinstance(seeds, bool)
    finetuning = _settings(values, "finetuning", finetuning_for(backbone, task), path)
    pruning = _settings(values, "pruning", pruning_for(backbone, task=task), path)
    lines = tuple(_line(line, f"{path}: line {n}") for n, line in enumerate(values["lines"], start=1))
    return Recipe(
        name=str(values.get("name", path.stem)),
        task=task,
        lines=with_controls(lines) if convert(values.get("control", True), bool, f"{path}: control") else lines,
        backbone=backbone,
        seeds=tuple(range(seeds)) if whole else convert(seeds, tuple[int, ...], f"{path}: seeds"),
        finetuning=finetuning,
        finetuning_of=_settings_by("finetuning_of", values, finetuning, path, get_objective),
        pruning=pruning,
        with_ood=_settings(values, "with_ood", pruning, path) if "with_ood" in values else None,
        stopping=_settings(values, "stopping", finetuning, path) if "stopping" in values else None,
        axis=convert(values.get("axis", "sparsity"), Axis, f"{path}: axis"),
        title=convert(values.get("title", ""), str, f"{path}: title"),
        pruning_of=_pruning_of(values, lines, lambda pruner: pruning_for(backbone, pruner, task), path),
        words=convert(values.get("words", []), tuple[str, ...], f"{path}: words"),
        bias=bias_from(values.get("bias", {}), f"{path}: bias", path.parent),
    )


def _line(values: Any, where: str) -> Line:
    if not isinstance(values, Mapping) or values.get("pruner") not in PRUNERS:
        return build(Line, values, where)
    hints = get_type_hints(PRUNERS[values["pruner"]])

    def converted(options: Any, place: str) -> Any:
        """As the pruner's fields ask for; what it has no field for is left to the pruner to refuse."""
        if not isinstance(options, Mapping):
            return options
        return {k: convert(v, hints[k], f"{place}: {k}") if k in hints else v for k, v in options.items()}

    values = dict(values)
    if "options" in values:
        values["options"] = converted(values["options"], f"{where}: options")
    if isinstance(values.get("options_at"), Mapping):
        at = values["options_at"].items()
        values["options_at"] = {share: converted(each, f"{where}: options_at: {share}") for share, each in at}
    return build(Line, values, where)


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
    values: Mapping[str, Any], lines: tuple[Line, ...], usual: Callable[[str], TrainingSettings], path: Path
) -> tuple[tuple[str, TrainingSettings], ...]:
    """For pruners that start from settings of their own, or are told some: those, then `pruning`, then `pruning_of`."""
    given = values.get("pruning_of", {})
    told = dict(_settings_by("pruning_of", values, usual("mask"), path, get_pruner))
    own = {line.pruner for line in lines if line.pruner and usual(line.pruner) != usual("mask")}
    return tuple(
        (name, _settings(given, name, _settings(values, "pruning", usual(name), path), path))
        for name in sorted({*told, *own})
    )


def bias_from(values: Any, where: str, folder: Path = Path()) -> BiasSpec:
    return build(BiasSpec, values, where).moved(folder)


def load_task_file(path: Path) -> TaskSpec:
    """A YAML file that holds a task alone: the same mapping as under a recipe's `task`."""
    return task_from(_read_yaml(path), str(path), path.parent)


@dataclasses.dataclass(frozen=True)
class DataOptions:
    """What a command line says about data: where a published dataset lies, and how any files are read."""

    data: str | None = None
    """Folder of a published dataset (mnli, ..., squad), or of several such folders. Default: the Hub."""
    ood: tuple[tuple[str, str], ...] = ()
    """An OOD test file for a published dataset, e.g. hans=FILE. Repeatable."""
    ood_train: tuple[tuple[str, str], ...] = ()
    """OOD training data for the upper bounds, e.g. hans=FILE. Repeatable."""
    rows: tuple[tuple[str, int], ...] = ()
    """At most so many rows of a split: train=50000,dev=3000."""
    leaks: Leaks | None = None
    """Test rows that are also in train: check (an error beyond 1 %), drop or keep. Default: check."""
    bad_rows: BadRows | None = None
    """Rows that cannot be read: refuse them, or skip and count them. Default: refuse."""
    decision: Decision | None = None
    """Three-way answers on a two-way set such as HANS: argmax or sum. Default: argmax."""

    def task(self, name: str, alone: bool = True) -> TaskSpec:
        """The task called `name`, or described in the YAML file of that name."""
        if not alone and (self.ood or self.ood_train):
            raise UserError("--ood and --ood-train are for one task", "describe several in YAML files")
        is_file = name.endswith((".yaml", ".yml"))
        if not is_file:
            choose("task", name, (*FAMILIES, *DATASETS))
        if is_file or name not in DATASETS:
            for option in ("data", "ood", "ood_train"):
                if getattr(self, option):
                    what = "a file says where its data lie" if is_file else f"'{name}' brings its own data"
                    raise UserError(f"--{option.replace('_', '-')}: {what}", f"use it with {', '.join(DATASETS)}")
            task = load_task_file(Path(name)) if is_file else task_from(name, "--task")
        else:
            task = self._dataset(name, None if self.data is None else Path(self.data)).moved(Path())
        changes = {key: value for key in ("rows", "leaks", "bad_rows", "decision") if (value := getattr(self, key))}
        unused = [key for key in changes if isinstance(task, SquadTask) and key not in SQUAD_OPTIONS]
        if unused:
            raise UserError(f"--{unused[0].replace('_', '-')}: it has no meaning for '{name}'", "leave it out")
        if changes and not isinstance(task, (FilesTask, SquadTask)):
            raise UserError(f"--{next(iter(changes)).replace('_', '-')}: '{name}' brings its own data", "leave it out")
        return dataclasses.replace(task, **changes) if changes else task  # type: ignore[type-var]

    def _dataset(self, name: str, folder: Path | None) -> FilesTask | SquadTask:
        if name != SQUAD:
            return published_task(name, folder, dict(self.ood), dict(self.ood_train))
        if self.ood_train:
            raise UserError("--ood-train: it has no meaning for 'squad'", "leave it out")
        return squad_task(folder, dict(self.ood))
