"""Tasks by name, from YAML, and from the options of the command line."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from srnet.errors import UserError, choose
from srnet.experiment.nodes import TaskSpec
from srnet.recipes.values import build, check_keys, convert, convert_fields, located
from srnet.tasks.files import BadRows, FilesTask, Leaks, Source
from srnet.tasks.published import PUBLISHED_OPTIONS, PUBLISHED_TASKS, published_task
from srnet.tasks.splits import Decision
from srnet.tasks.squad import SQUAD, SquadTask, squad_task
from srnet.tasks.synthetic import FAMILIES, SyntheticTask
from srnet.yaml_files import read_yaml

DATASETS = (*PUBLISHED_TASKS, SQUAD)
"""What can be read from a folder or the Hub by its name alone."""
SQUAD_OPTIONS = ("metric", "rows", "bad_rows")


def task_from(values: Any, where: str, folder: Path = Path()) -> TaskSpec:
    """A name, a mapping of the embedded benchmark's dials, a published dataset with options, or files described."""
    if isinstance(values, str):
        return located(where, lambda: named_task(values))
    if isinstance(values, Mapping) and "dataset" in values:
        return located(where, lambda: _published(values, where, folder))
    if isinstance(values, Mapping) and "train" in values:
        if values.get("answer") == SquadTask.answer:
            said = {key: value for key, value in values.items() if key != "answer"}
            return build(SquadTask, said, where).resolved(folder)
        return build(FilesTask, values, where).resolved(folder)
    return build(SyntheticTask, values, where)


def named_task(name: str) -> TaskSpec:
    """A task of the embedded benchmark, or a published dataset from the Hub."""
    choose("task", name, (*FAMILIES, *DATASETS))
    if name == SQUAD:
        return squad_task()
    return published_task(name) if name in PUBLISHED_TASKS else SyntheticTask(name)


def _squad(options: dict[str, Any], data: Path | None, where: str, folder: Path) -> SquadTask:
    plain = squad_task(data, _files(options, "ood", str, where))
    check_keys(options, SQUAD_OPTIONS, where)
    return dataclasses.replace(plain, **convert_fields(SquadTask, options, where)).resolved(folder)


def _published(values: Mapping[str, Any], where: str, folder: Path) -> FilesTask | SquadTask:
    """`dataset: snli` with `data`, `ood`, `ood_train` and other options of files."""
    options = dict(values)
    name = convert(options.pop("dataset"), str, f"{where}: dataset")
    given = convert(options.pop("data", None), str | None, f"{where}: data")
    data = None if given is None else (folder / given).resolve()
    if name == SQUAD:
        return _squad(options, data, where, folder)
    ood, ood_train = (_files(options, key, Source, where) for key in ("ood", "ood_train"))
    plain = published_task(name, data, ood, ood_train)
    check_keys(options, PUBLISHED_OPTIONS, where)
    return dataclasses.replace(plain, **convert_fields(FilesTask, options, where)).resolved(folder)


def _files(options: dict[str, Any], key: str, kind: Any, where: str) -> dict[str, Any]:
    given = options.pop(key, None)
    return {} if given is None else dict(convert(given, tuple[tuple[str, kind], ...], f"{where}: {key}"))


def load_task_file(path: Path) -> TaskSpec:
    """A YAML file that holds a task alone: the same mapping as under a recipe's `task`."""
    return task_from(read_yaml(path), str(path), path.parent)


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
            task = self._dataset(name, None if self.data is None else Path(self.data)).resolved(Path())
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
