"""Tasks by name, from YAML, and from the options of the command line."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from srnet.config.fields import Described, option
from srnet.config.values import NAMED_FILES, TEXT, Count, arguments_of, build, located
from srnet.config.yaml_files import read_yaml
from srnet.core.errors import UserError, choose
from srnet.core.progress import Reporter
from srnet.experiment.nodes.base import TaskSpec
from srnet.tasks.base import DATASETS, TASK_FAMILIES
from srnet.tasks.files import DevShare, Leaks
from srnet.tasks.own import Say, task_of_files
from srnet.tasks.planted import PlantedTask, Strength
from srnet.tasks.sources import BadRows, OfFiles
from srnet.tasks.splits import Decision
from srnet.tasks.synthetic import SyntheticTask

_OOD_FILES = ("ood", "ood_train")
"""The OOD files of a published dataset, by name."""
_PLANT = "plant"
"""The key of a planted shortcut: its strength, or a mapping of the fields of `PlantedTask`."""


def read_task(values: Any, where: str, folder: Path = Path()) -> TaskSpec:
    """A name, a YAML file, a mapping of the embedded benchmark's dials, a published dataset with options, or files.

    Errors begin with `where`. Relative paths start from `folder`.
    """
    if _is_task_file(values):
        return _load_task_file(folder / values)
    with located(where):
        if isinstance(values, str):
            values = _named(values)
        if isinstance(values, Mapping) and _PLANT in values:
            return _planted({key: each for key, each in values.items() if key != _PLANT}, values[_PLANT], folder)
        if isinstance(values, Mapping) and "dataset" in values:
            return _dataset(values, folder)
        families = TASK_FAMILIES.values() if isinstance(values, Mapping) else ()
        spec = next((family.spec for family in families if family.describes(values)), SyntheticTask)
        task: TaskSpec = build(spec, values)
        return task.resolved(folder) if isinstance(task, OfFiles) else task


def _named(name: str) -> dict[str, str]:
    if Path(name).suffix:  # no name of a task has one
        fix = "give files as --train FILE, in Python as srnet.task_from(train=FILE)"
        raise UserError(f"'{name[:80]}' is not the YAML file of a task", fix)
    choose("task", name, [*(each for family in TASK_FAMILIES.values() for each in family.names), *DATASETS])
    return {"dataset" if name in DATASETS else "name": name}


def _planted(values: Mapping[str, Any], plant: Any, folder: Path) -> TaskSpec:
    """A copy of the task that is described by `values`, with a planted shortcut."""
    fields = dict(plant) if isinstance(plant, Mapping) else {"strength": plant}
    with located(_PLANT):
        known = tuple(each.name for each in dataclasses.fields(PlantedTask) if each.name != "of")
        options = arguments_of(PlantedTask, fields, only=known)
    return PlantedTask(read_task(values, "task", folder), **options)


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
    return read_task(values, str(path), path.parent)


def _is_task_file(values: Any) -> bool:
    return isinstance(values, str) and values.endswith((".yaml", ".yml"))


@dataclasses.dataclass(frozen=True)
class DataOptions(Described):
    """Options about data: your own files, where a published dataset is, and how files are read."""

    train: str | None = None
    """Your own training file instead of a task: csv, tsv, txt, jsonl (.gz), parquet. Columns are guessed."""
    dev: str | None = None
    """With --train: examples that choose checkpoints. Default: a fifth of the training file."""
    ood: tuple[tuple[str, str], ...] = option((), kind=NAMED_FILES)
    """An OOD test file, with --train or for a published dataset; hard.csv alone is hard=hard.csv. Repeatable."""
    text: str | None = None
    """With --train: the column of the text."""
    text_a: str | None = None
    """With --train, for pairs: the column of the first text (premise, evidence)."""
    text_b: str | None = None
    """With --train, for pairs: the column of the second text (hypothesis, claim)."""
    label: str | None = None
    """With --train: the column of the label."""
    labels: tuple[str, ...] = option((), expert=True)
    """With --train: labels, with commas. Default: those in the training file, sorted."""
    group: str | tuple[str, ...] | None = option(None, expert=True)
    """With --train: the column of the sub-case of a row; several, with commas, make a hierarchy."""
    answer: str | None = option(None, expert=True)
    """With --train: class, or score if the label is a number to predict. Default: class."""
    metric: str | None = option(None, expert=True)
    """With --train: accuracy, f1, matthews or positive_f1; for scores pearson or spearman. Default: the first."""
    columns: tuple[str, ...] = option((), expert=True)
    """With --train, for files without a header: the names of their columns, in order, with commas."""
    dev_share: DevShare | None = option(None, expert=True)
    """With --train and without --dev: the share of rows that is split off as dev. Default: 0.2, at most 2,000."""
    data: str | None = None
    """Folder of a published dataset (mnli, ..., squad), or of several such folders. Default: the Hub."""
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
    plant: Strength | None = option(None, expert=True)
    """Train on a copy of the task with a planted shortcut: an opening word that is right with this probability."""

    def task(self, name: str | None = None, alone: bool = True, say: Say | None = None) -> TaskSpec:
        """The task called `name`, described in the YAML file of that name, or without a name that of the files.

        `alone`: it is the only one of a command. `say` is called with what is read of files; by default it is printed.
        """
        task = self._unplanted(name, alone, say)
        return task if self.plant is None else PlantedTask(task, self.plant)

    def _unplanted(self, name: str | None, alone: bool, say: Say | None) -> TaskSpec:
        for key, value in vars(self).items():
            if value == "" and key != "text_b":
                raise UserError(f"{_flag(key)}: the value is empty", "give one, or leave the option out")
        if not alone and (self.ood or self.ood_train):
            raise UserError("--ood and --ood-train are for one task", "describe several in YAML files")
        if name is None:
            return self._of_files(say or Reporter().say)
        for key in FILE_OPTIONS:
            if key in self.given:
                raise UserError(f"{_flag(key)}: '{name}' brings its own data", f"leave out {_flag(key)} or the task")
        given = {key: dict(value) if isinstance(value, tuple) else value for key, value in self.given.items()}
        if name in DATASETS:
            return read_task({"dataset": name, **given}, name)
        task = read_task(name, "task")
        for key in given:
            if key not in TASK_FAMILIES[type(task).__name__].changeable:
                raise UserError(f"{_flag(key)}: '{name}' brings its own data", "leave it out")
        return _changed(task, given) if given else task

    @property
    def given(self) -> dict[str, Any]:
        """The options that were given. An empty --text-b is for single texts."""
        given = {key: value for key, value in vars(self).items() if key != _PLANT}
        return {key: value for key, value in given.items() if value or (key == "text_b" and value is not None)}

    def _of_files(self, say: Say) -> TaskSpec:
        given = self.given
        if self.train is None:
            raise UserError("no task", "give its name, its YAML file, or your own files: --train FILE")
        if self.data is not None:
            raise UserError("--data is for published datasets", "leave it out, or --train")
        ood, extra = dict(given.pop("ood", ())), dict(given.pop("ood_train", ()))
        if extra:
            given["ood_train"] = tuple(extra.values())
        return task_of_files(**given, ood=ood, say=say).resolved(Path())


FILE_OPTIONS = (
    "train", "dev", "text", "text_a", "text_b", "label", "labels", "group", "answer", "metric", "columns", "dev_share",
)  # fmt: skip
"""Options that are for files, not for a task that has a name."""


def _flag(key: str) -> str:
    return f"--{key.replace('_', '-')}"
