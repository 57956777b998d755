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
from srnet.tasks.answers.classes import CLASSES
from srnet.tasks.base import Task
from srnet.tasks.files import FilesTask
from srnet.tasks.layout import label_counts
from srnet.tasks.splits import Split


def describe_files(
    out: Path | str,
    train: Path | str,
    dev: Path | str,
    ood: Sequence[tuple[str, str]] = (),
    *,
    labels: tuple[str, ...] | None = None,
    ood_train: Path | str | None = None,
    **options: Any,
) -> Path:
    """Write the YAML file that describes a user's files; local paths in it are relative to it.

    `options` are further fields of `FilesTask`. The default of `metric` is the first one of the answer.
    """
    out = Path(out)
    options = {"metric": next(iter(get_answer(options.get("answer", CLASSES.name)).metrics)), **options}
    if out.suffix not in (".yaml", ".yml"):
        raise UserError(f"{out} is not a YAML file", "choose a name that ends in .yaml")
    if out.exists():
        raise UserError(f"{out} exists already", "remove it or choose another name")
    found = labels or _labels_of(str(train), options)
    extra: dict[str, Any] = {} if ood_train is None else {"ood_train": str(ood_train)}
    spec = FilesTask(out.stem, found, str(train), str(dev), tuple(ood), **extra, **options)
    # a wrong column or a missing file is an error now; bad rows are reported by `srnet data check`
    spec.check_groups({name: spec.read(name, collect=True) for name in spec.files})
    write_text(out, yaml_text(_description(spec, out.parent.resolve())))
    return out


def _labels_of(train: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    if get_answer(options.get("answer", CLASSES.name)).outputs:
        return ()
    column, unlabelled = options.get("label", "label"), options.get("unlabelled", ())
    return tuple(sorted(label_counts(train, column, unlabelled, options.get("columns", ()))))


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
    """One file per split, with the columns text_a, text_b, label and group."""
    kind, folder = task.answer_kind, Path(folder)
    if not kind.in_cells:
        raise UserError(f"task '{task.name}' has {kind.plural}, which do not fit into a csv file", "use its own files")
    with new_folder(require_new(folder)) as staging:
        for name, split in task.splits.items():
            write_text(staging / f"{name}.csv", _csv(split, kind.cells(split.labels, task.classes_of(split))))
    return [folder / f"{name}.csv" for name in task.splits]


def _csv(split: Split, labels: list[Any]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(("text_a", "text_b", "label", "group"))
    writer.writerows(zip(split.text_a, split.text_b, labels, split.groups, strict=True))
    return buffer.getvalue()
