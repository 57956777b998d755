"""A task's examples as csv files."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from srnet.errors import UserError
from srnet.files import new_folder, require_new, write_text
from srnet.tasks.base import Task
from srnet.tasks.splits import Split


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
