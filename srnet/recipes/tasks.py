"""Tasks by name, from YAML, and from the options of the command line."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from srnet.errors import UserError, choose
from srnet.experiment.nodes import TaskSpec
from srnet.recipes.values import arguments_of, build, located
from srnet.tasks.files import BadRows, FilesTask, Leaks
from srnet.tasks.published import PUBLISHED_OPTIONS, PUBLISHED_TASKS, published_task
from srnet.tasks.splits import Decision
from srnet.tasks.squad import SQUAD, SquadTask, squad_task
from srnet.tasks.synthetic import FAMILIES, SyntheticTask
from srnet.yaml_files import read_yaml

Files = dict[str, str] | None
DATASETS = (*PUBLISHED_TASKS, SQUAD)
"""What can be read from a folder or the Hub by its name alone."""
CHANGEABLE = {FilesTask: PUBLISHED_OPTIONS, SquadTask: ("metric", "rows", "bad_rows")}
"""What may be said about a task from files that is already described."""


def task_from(values: Any, where: str, folder: Path = Path()) -> TaskSpec:
    """A name, a mapping of the embedded benchmark's dials, a published dataset with options, or files described.

    Errors begin with `where`. Relative paths start from `folder`.
    """
    with located(where):
        if isinstance(values, str):
            return named_task(values)
        if isinstance(values, Mapping) and "dataset" in values:
            return _changed_dataset(values, folder)
        if isinstance(values, Mapping) and values.get("answer") == SquadTask.answer:
            files = {key: value for key, value in values.items() if key != "answer"}
            return build(SquadTask, files).resolved(folder)
        if isinstance(values, Mapping) and "train" in values:
            return build(FilesTask, values).resolved(folder)
        return build(SyntheticTask, values)


def named_task(name: str) -> TaskSpec:
    """A task of the embedded benchmark, or a published dataset from the Hub."""
    choose("task", name, (*FAMILIES, *DATASETS))
    return dataset(name) if name in DATASETS else SyntheticTask(name)


def dataset(
    dataset: str, data: str | None = None, ood: Files = None, ood_train: Files = None, folder: Path = Path()
) -> FilesTask | SquadTask:
    """A published dataset: from the folder `data`, or from the Hub, with OOD files by name."""
    source = None if data is None else (folder / data).resolve()
    if dataset != SQUAD:
        return published_task(dataset, source, ood, ood_train).resolved(folder)
    if ood_train:
        raise UserError("squad has no OOD training data", "leave it out")
    return squad_task(source, ood).resolved(folder)


def _changed_dataset(values: Mapping[str, Any], folder: Path) -> FilesTask | SquadTask:
    """`dataset: snli` with `data`, `ood`, `ood_train` and other options of files."""
    sources = {key: value for key, value in values.items() if key in ("dataset", "data", "ood", "ood_train")}
    task = dataset(**arguments_of(dataset, sources), folder=folder)
    options = {key: value for key, value in values.items() if key not in sources}
    return dataclasses.replace(task, **arguments_of(type(task), options, only=CHANGEABLE[type(task)]))


def load_task_file(path: Path) -> TaskSpec:
    """A YAML file that holds a task alone: the same mapping as under a recipe's `task`."""
    return task_from(read_yaml(path), str(path), path.parent)


@dataclasses.dataclass(frozen=True)
class DataOptions:
    """Options about data: where a published dataset is, and how files are read."""

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
        """The task called `name`, or described in the YAML file of that name; `alone`: the only one of a command."""
        if not alone and (self.ood or self.ood_train):
            raise UserError("--ood and --ood-train are for one task", "describe several in YAML files")
        given = {key: dict(value) if isinstance(value, tuple) else value for key, value in vars(self).items() if value}
        if name in DATASETS:
            return task_from({"dataset": name, **given}, name)
        task = load_task_file(Path(name)) if name.endswith((".yaml", ".yml")) else named_task(name)
        for key in given:
            if not isinstance(task, (FilesTask, SquadTask)) or key not in CHANGEABLE[type(task)]:
                problem = f"--{key.replace('_', '-')}: '{name}' brings its own data"
                raise UserError(problem, "leave it out, or name a published dataset")
        return dataclasses.replace(task, **arguments_of(type(task), given)) if given else task  # type: ignore[type-var]
