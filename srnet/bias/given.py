"""Numbers for every row of a task that a user brings in a file: a table with a column `split`, or an .npz file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from srnet.core.errors import UserError, reason, shortened
from srnet.core.files import content_hash, require_readable
from srnet.tasks.base import Task
from srnet.tasks.reading import read_rows
from srnet.tasks.splits import Split

SPLIT = "split"
_ARCHIVE = ".npz"


@dataclass(frozen=True)
class Given:
    """Numbers of some splits, in the order of their rows."""

    names: tuple[str, ...]
    """The columns of a table; none for an archive."""
    by_split: dict[str, np.ndarray]


def read_given(task: Task, path: str, columns: tuple[str, ...] | None = None) -> Given:
    """The numbers of a file: of a table those under `columns`, or all; of an archive one array for each split."""
    if path.endswith(".npy"):
        raise UserError(
            f"{path} holds one array", "one for each split is needed: numpy.savez('FILE.npz', train=..., dev=...)"
        )
    return _of_archive(task, path) if path.endswith(_ARCHIVE) else _of_table(task, path, columns)


def file_hash(path: str) -> str:
    """The hash of the content, for a key."""
    return content_hash(Path(path))[:16]


def check_rows(path: str, split: Split, numbers: np.ndarray) -> None:
    if len(numbers) != len(split):
        fix = "give one for each row that is read, in their order; a column of the data itself always fits"
        raise UserError(f"{path} has {len(numbers):,} rows for {split.name}, and the split has {len(split):,}", fix)


def _of_table(task: Task, path: str, columns: tuple[str, ...] | None) -> Given:
    rows: dict[str, list[list[float]]] = {}
    for line, row in read_rows(path):
        if columns is None:
            columns = tuple(name for name in row if name != SPLIT)
        needed = (SPLIT, *columns)
        absent = [name for name in needed if name not in row]
        if absent:
            raise UserError(f"{path}, line {line}: no column '{absent[0]}'", f"give the columns {', '.join(needed)}")
        try:
            rows.setdefault(row[SPLIT].strip(), []).append([float(row[name]) for name in columns])
        except ValueError as error:
            raise UserError(f"{path}, line {line}: {reason(error)}", "give numbers") from None
    _check_names(task, path, rows)
    return Given(columns or (), {name: np.array(each) for name, each in rows.items()})


def _of_archive(task: Task, path: str) -> Given:
    require_readable(Path(path))
    try:
        with np.load(path, allow_pickle=False) as file:
            _check_names(task, path, file.files)
            return Given((), {name: _numbers(path, name, file[name]) for name in file.files})
    except UserError:
        raise
    except FileNotFoundError:
        raise UserError(f"{path} does not exist", "check the path") from None
    except Exception as error:  # NumPy and zipfile have no common exception for damaged files
        fix = "write it with numpy.savez, one array for each split"
        raise UserError(f"cannot read {path}: {reason(error)}", fix) from None


def _numbers(path: str, name: str, found: np.ndarray) -> np.ndarray:
    fix = "give an array of numbers with one row for each row of the split"
    if found.dtype.kind not in "biuf":
        raise UserError(f"{path}: '{name}' holds {found.dtype}, not real numbers", fix)
    if found.ndim == 0:
        raise UserError(f"{path}: '{name}' is a single number", fix)
    with np.errstate(over="ignore"):  # what is too large is infinite, which is refused where the numbers are used
        return found.astype(np.float64)


def _check_names(task: Task, path: str, names: Iterable[str]) -> None:
    unknown = [name for name in names if name not in task.splits]
    if unknown:
        raise UserError(f"{path}: '{shortened(unknown[0], 80)}' is not a split", f"splits: {', '.join(task.splits)}")
