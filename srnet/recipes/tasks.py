"""Tasks by name, from YAML, and from the options of the command line."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from srnet.config.fields import Described, option
from srnet.config.values import TEXT, Count, arguments_of, build, located
from srnet.config.yaml_files import read_yaml
from srnet.core.errors import UserError, choose
from srnet.experiment.nodes.base import TaskSpec
from srnet.tasks.base import DATASETS, TASK_FAMILIES
from srnet.tasks.files import BadRows, Leaks, OfFiles
from srnet.tasks.splits import Decision
from srnet.tasks.synthetic import SyntheticTask

_OOD_FILES = ("ood", "ood_train")
"""The OOD files of a published dataset, by name."""


def task_from(values: Any, where: str, folder: Path = Path()) -> TaskSpec:
    """A name, a YAML file, a mapping of the embedded benchmark's dials, a published dataset with options, or files.

    Errors begin with `where`. Relative paths start from `folder`.
    """
    if _is_task_file(values):
        return _load_task_file(folder / values)
    with located(where):
        if isinstance(values, str):
            values = _named(values)
        if isinstance(values, Mapping) and "dataset" in values:
            return _dataset(values, folder)
        families = TASK_FAMILIES.values() if isinstance(values, Mapping) else ()
        spec = next((family.spec for family in families if family.describes(values)), SyntheticTask)
        task: TaskSpec = build(spec, values)
        return task.resolved(folder) if isinstance(task, OfFiles) else task


def _named(name: str) -> dict[str, str]:
    if Path(name).suffix:  # no name of a task has one
        fix = "describe your files first, `srnet data describe --train FILE ...`, and give its YAML file"
        raise UserError(f"'{name[:80]}' is not the YAML file of a task", fix)
    choose("task", name, [*(each for family in TASK_FAMILIES.values() for each in family.names), *DATASETS])
    return {"dataset" if name in DATASETS else "name": name}


def _dataset(values: Mapping[str, Any], folder: Path) -> TaskSpec:
    """A published dataset: from the folder `data`, or from the Hub, with OOD files by name, and with changes."""
    name, data = TEXT.convert(values["dataset"]), values.get("data")
    make = DATASETS[choose("dataset", name, DATASETS)]
    files = {key: values[key] for key in _OOD_FILES if values.get(key) is not None}
    typed = getattr(make, "func", make)  # the function behind a partial one
    source = None if data is None else (folder / TEXT.convert(data)).resolve()
    task = make(folder=source, **arguments_of(typed, files)).resolved(folder)
    return _changed(task, {key: value for key, value in values.items() if key not in ("dataset", "data", *_OOD_FILES)})


def _changed(task: Any, changes: Mapping[str, Any]) -> TaskSpec:
    """A description with changes that options may make."""
    changeable = TASK_FAMILIES[type(task).__name__].changeable
    changed: TaskSpec = dataclasses.replace(task, **arguments_of(type(task), changes, only=changeable))
    return changed


def _load_task_file(path: Path) -> TaskSpec:
    """A YAML file that holds a task alone: the same mapping as under a recipe's `task`."""
    values = read_yaml(path)
    if _is_task_file(values):  # which might name this one again
        raise UserError(f"{path} holds the name of a file, '{values[:80]}', and no task", "give that file instead")
    return task_from(values, str(path), path.parent)


def _is_task_file(values: Any) -> bool:
    return isinstance(values, str) and values.endswith((".yaml", ".yml"))


@dataclasses.dataclass(frozen=True)
class DataOptions(Described):
    """Options about data: where a published dataset is, and how files are read."""

    data: str | None = None
    """Folder of a published dataset (mnli, ..., squad), or of several such folders. Default: the Hub."""
    ood: tuple[tuple[str, str], ...] = ()
    """An OOD test file for a published dataset, e.g. hans=FILE. Repeatable."""
    ood_train: tuple[tuple[str, str], ...] = option((), expert=True)
    """OOD training data for the upper bounds, e.g. hans=FILE. Repeatable."""
    rows: tuple[tuple[str, Count], ...] = ()
    """At most so many rows of a split: train=50000,dev=3000."""
    leaks: Leaks | None = option(None, expert=True)
    """Test rows that are also in train: check (an error beyond 1 %), drop or keep. Default: check."""
    bad_rows: BadRows | None = option(None, expert=True)
    """Rows that cannot be read: refuse them, or skip and count them. Default: refuse."""
    decision: Decision | None = option(None, expert=True)
    """Three-way answers on a two-way set such as HANS: argmax or sum. Default: argmax."""

    def task(self, name: str, alone: bool = True) -> TaskSpec:
        """The task called `name`, or described in the YAML file of that name; `alone`: the only one of a command."""
        if not alone and (self.ood or self.ood_train):
            raise UserError("--ood and --ood-train are for one task", "describe several in YAML files")
        given = {key: dict(value) if isinstance(value, tuple) else value for key, value in vars(self).items() if value}
        if name in DATASETS:
            return task_from({"dataset": name, **given}, name)
        task = task_from(name, "task")
        for key in given:
            if key not in TASK_FAMILIES[type(task).__name__].changeable:
                raise UserError(f"--{key.replace('_', '-')}: '{name}' brings its own data", "leave it out")
        return _changed(task, given) if given else task
