"""Tasks as files: the YAML that describes a user's files, and the examples of a task as csv."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from srnet.config.yaml_files import yaml_text
from srnet.core.errors import UserError
from srnet.core.files import new_folder, require_new, write_text
from srnet.tasks.answers.base import get_answer
from srnet.tasks.base import Task
from srnet.tasks.files import FilesTask
from srnet.tasks.own import Say, task_of_files
from srnet.tasks.splits import Split


def describe_files(
    out: Path | str,
    train: Path | str,
    dev: Path | str | None = None,
    ood: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    *,
    ood_train: Path | str | None = None,
    force: bool = False,
    say: Say = lambda line: None,
    **options: Any,
) -> Path:
    """Write the YAML file `out` that describes a user's files; local paths in it are relative to it.

    The files are `train`, `dev`, those of `ood` by name, and `ood_train`, for an upper bound. `options` are columns and
    labels, which are guessed otherwise, and further fields of `FilesTask`; `text` is the column of single texts. `say`
    is called with what is read. `force` replaces a file that exists.
    """
    out = Path(out)
    if out.suffix not in (".yaml", ".yml"):
        raise UserError(f"{out} is not a YAML file", "choose a name that ends in .yaml")
    if out.exists() and not force:
        raise UserError(f"{out} exists already", "choose another name, or replace it: --force")
    extra: dict[str, Any] = {} if ood_train is None else {"ood_train": str(ood_train)}
    spec = task_of_files(str(train), str(dev or ""), dict(ood), name=out.stem, **extra, **options, say=say)
    # a wrong column or a missing file is an error now; bad rows are reported by `srnet data check`
    spec.check_groups(spec.read_all(collect=True))
    write_text(out, yaml_text(_description(spec, out.parent.resolve())))
    return out


def _description(spec: FilesTask, folder: Path) -> dict[str, Any]:
    """The fields that differ from their defaults, in YAML's types."""

    spec = spec.with_paths(lambda path: os.path.relpath(Path(path).resolve(), folder))
    values = {f.name: getattr(spec, f.name) for f in fields(spec) if getattr(spec, f.name) != f.default}
    if get_answer(spec.answer).outputs:
        del values["labels"]  # they follow from the answer
    values |= {name: dict(values[name]) for name in ("ood", "id_tests", "spellings", "rows") if name in values}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


# --- the examples of a task as csv files ---------------------------------------------------------------------------


def write_csv(task: Task, folder: Path | str) -> list[Path]:
    """Write `task` to `folder`: one file per split, with the columns text_a, text_b, label, group and its metadata."""
    return write_task_files(task, Path(folder), {})


def write_task_files(task: Task, folder: Path, also: Mapping[str, str]) -> list[Path]:
    """The files of the splits, and `also` texts by file name, all or none."""
    kind = task.answer_kind
    if not kind.in_cells:
        raise UserError(f"task '{task.name}' has {kind.plural}, which do not fit into a csv file", "use its own files")
    with new_folder(require_new(folder)) as staging:
        for name, split in task.splits.items():
            write_text(staging / f"{name}.csv", _csv(split, kind.cells(split.labels, task.classes_of(split))))
        for name, text in also.items():
            write_text(staging / name, text)
    return [*(folder / f"{name}.csv" for name in task.splits), *(folder / name for name in also)]


_WRITTEN = ("text_a", "text_b", "label", "group")


def _csv(split: Split, labels: list[Any]) -> str:
    further = {name: cells for name, cells in split.columns.items() if name not in _WRITTEN}
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow((*_WRITTEN, *further))
    writer.writerows(zip(split.text_a, split.text_b, labels, split.groups, *further.values(), strict=True))
    return buffer.getvalue()
