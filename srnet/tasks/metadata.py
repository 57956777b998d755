"""Metadata of a task: columns beside the texts, which are read only where something needs them."""

from __future__ import annotations

import dataclasses
from itertools import islice
from typing import Any, TypeVar

from srnet.tasks.files import FilesTask
from srnet.tasks.layout import ALL_COLUMNS
from srnet.tasks.reading import read_rows

S = TypeVar("S")
_ROWS = 100
"""Rows from which the columns of a file are known; jsonl has no header."""


def with_metadata(spec: S, columns: tuple[str, ...] = (ALL_COLUMNS,)) -> S:
    """A task's description whose splits also have these columns, or all; others than files have what they have."""
    if not isinstance(spec, FilesTask) or set(columns) <= set(spec.metadata):
        return spec
    changed: Any = dataclasses.replace(spec, metadata=tuple(dict.fromkeys((*spec.metadata, *columns))))
    found: S = changed
    return found


def metadata_columns(spec: Any) -> tuple[str, ...]:
    """The columns of the training data that are neither texts nor labels, without reading all of it."""
    if not isinstance(spec, FilesTask):
        return tuple(spec.load().train.columns)
    file = spec.files["train"]
    rows = islice(read_rows(file.path, lambda *_: None, file.columns or spec.columns), _ROWS)
    names = dict.fromkeys(name for _, row in rows for name in row)
    return tuple(name for name in names if name not in spec.read_columns)
