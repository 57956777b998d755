"""A task from data in memory. They are kept in the store, so that its models can be used later and elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from srnet.core.errors import UserError
from srnet.core.names import file_name
from srnet.experiment.engine import Engine
from srnet.experiment.stored_data import StoredData
from srnet.tasks.files import FilesTask
from srnet.tasks.memory import is_path, is_splits, json_lines, named_splits
from srnet.tasks.own import Say, task_of_files


def task_from(
    train: Any,
    dev: Any = None,
    ood: Mapping[str, Any] | None = None,
    *,
    id_tests: Mapping[str, Any] | None = None,
    ood_train: Any = None,
    name: str | None = None,
    engine: Engine | None = None,
    **options: Any,
) -> FilesTask:
    """A task from DataFrames, `datasets.Dataset`s, lists of dicts, dicts of lists, or files.

    `train` may be a `DatasetDict`: its validation split is then dev, and its test split a test set in distribution.
    Without `dev`, some of the training rows are split off. `ood` and `id_tests` are test sets by name; `ood_train` is
    for an upper bound. `name` is that of the task. `options` are the columns `text`, or `text_a` and `text_b`,
    and `label`, which are guessed otherwise; `labels`; and further fields of `FilesTask`, such as `shortcut`.

    What is in memory is written to the store of `engine` once, by its content: models of the task then have keys, and
    can be pruned, exported and audited from another process, also after the store was moved or copied.
    """
    engine = engine or Engine()
    if is_splits(train):
        train, dev, id_tests = _splits(train, dev, id_tests, engine.reporter.say)
    data = engine.store.data
    id_files = {split: _file(data, split, each) for split, each in (id_tests or {}).items()}
    ood_files = {split: _file(data, split, each) for split, each in (ood or {}).items()}
    if ood_train is not None:
        options["ood_train"] = _file(data, "ood_train", ood_train)
    return task_of_files(
        _file(data, "train", train),
        "" if dev is None else _file(data, "dev", dev),
        ood_files,
        name=name or (None if is_path(train) else "task"),
        id_tests=id_files,
        **options,
        say=engine.reporter.say,
    ).resolved(Path())


def _splits(splits: Mapping[str, Any], dev: Any, id_tests: Any, say: Say) -> tuple[Any, Any, Any]:
    found, unread = named_splits(splits)
    if unread:
        say(f"not read: {', '.join(unread)}; give them as ood={{name: data[name]}}")
    tests = {"test": found["test"]} if "test" in found and id_tests is None else id_tests
    return found["train"], found.get("dev") if dev is None else dev, tests


def _file(data: StoredData, split: str, source: Any) -> str:
    """The path of a split: a file that is given, or one of the store."""
    if is_path(source):
        if not str(source):
            raise UserError(f"{split}: the path is empty", "give a file")
        return str(source)
    return str(data.add(file_name("a split", split), json_lines(split, source)))
