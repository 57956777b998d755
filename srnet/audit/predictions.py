"""Predictions of any systems as tables: one row for each system, seed, split and example, checked or written."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from scipy.special import softmax

from srnet.core.errors import UserError, choose, shortened
from srnet.core.files import require_writable, write_bytes
from srnet.core.names import loose_name
from srnet.tasks.answers.base import ANSWERS, METRICS
from srnet.tasks.answers.numbers import NUMBERS
from srnet.tasks.base import Task
from srnet.tasks.memory import is_path, json_lines
from srnet.tasks.reading import Nested, json_rows, read_rows
from srnet.tasks.splits import Split

_P = "p:"
"""How the columns of probabilities begin."""
_MOST_LABELS = 1000
_ID_NAMES = {"dev", "val", "valid", "validation", "validationmatched", "devmatched", "id", "iid", "indistribution"}


class _Row(NamedTuple):
    system: str
    seed: str
    split: str
    id: str
    label: str
    prediction: str
    group: str = ""


_NEEDED = _Row._fields[:-1]
_FORM = f"each row needs {', '.join(_NEEDED)}; for {_NEEDED[-1]} also the probability of each label, under {_P}LABEL"


class Run(NamedTuple):
    """One seed of a system."""

    system: str
    seed: str

    @property
    def key(self) -> str:
        return f"{self.system}, seed {self.seed}"


Answers = dict[Run, dict[str, np.ndarray]]
"""What each run answers, by split."""
_Rows = dict[str, dict[str, _Row]]
"""Rows by split and id."""


def read_predictions(tables: Sequence[Any], id: str | None, ood: Sequence[str], metric: str) -> tuple[Task, Answers]:
    """The splits as a task without training data, and what each run answers on them."""
    kind = next(each for each in ANSWERS.values() if choose("metric", metric, METRICS) in each.metrics)
    if not kind.in_cells:
        raise UserError(f"{metric} compares {kind.plural}, which do not fit into one cell", "choose another metric")
    runs, names, notes = _read(tables)
    splits = _shared_rows(runs)
    dev = one_of("split", "the ID set", id, list(splits), _ID_NAMES, "--id")
    tests = [name for name in ood or splits if choose("split", name, splits) != dev]
    if not tests:
        raise UserError(f"'{dev}' is the only split", "add predictions on a set out of distribution")
    labels = _labels(runs, names) if kind.has_classes else kind.outputs
    index = {label: number for number, label in enumerate(labels)}

    def values(rows: Mapping[str, _Row], column: str, ids: Iterable[str]) -> np.ndarray:
        cells = [getattr(rows[id], column) for id in ids]
        known = {cell: kind.parse(cell, index) for cell in set(cells)}
        for cell in (cell for cell in cells if known[cell] is None):
            raise UserError(f"{kind.unreadable(cell, column, labels)}", "correct it")
        return np.array([known[cell] for cell in cells], kind.dtype)

    def split_of(name: str) -> Split:
        rows, empty = splits[name], ("",) * len(splits[name])
        gold, groups = values(rows, "label", rows), tuple(row.group for row in rows.values())
        return Split(name, "OOD" if name in tests else "ID", tuple(rows), empty, empty, gold, groups)

    sets = {name: split_of(name) for name in splits}
    train = Split("", "ID", (), (), (), np.empty(0, kind.dtype), ())  # nothing was trained here
    roles = {"dev": sets.pop(dev), "ood": {name: sets.pop(name) for name in tests}, "id_tests": sets}
    task = Task("predictions", labels, metric, "unknown", train, **roles, notes=notes, answer=kind.name)  # type: ignore[arg-type]
    given = {run: {s: values(rows, "prediction", splits[s]) for s, rows in own.items()} for run, own in runs.items()}
    return task, given


def one_of(what: str, role: str, given: str | None, names: Sequence[str], usual: Iterable[str], option: str) -> str:
    """The name that is given, or the only one that is usual for its role."""
    found = [name for name in names if name == given or (given is None and loose_name(name) in usual)]
    if len(found) == 1:
        return found[0]
    problem = f"which {what} is {role}?" if given is None else f"there is no {what} '{given}'"
    raise UserError(problem, f"give {option} and one of: {shortened(', '.join(names), 300)}")


def _read(tables: Sequence[Any]) -> tuple[dict[Run, _Rows], list[str], tuple[str, ...]]:
    """The rows of each run; the labels that have columns, in their order; and a note about columns that have no use."""
    runs, columns = dict[Run, _Rows](), dict[str, None]()
    for table in tables:
        for where, cells in _cells(table):
            columns |= dict.fromkeys(cells)
            row = _row(where, cells)
            rows = runs.setdefault(Run(row.system, row.seed), {}).setdefault(row.split, {})
            if row.id in rows:
                raise UserError(f"{where}: id '{row.id}' is there twice in this split of this run", "name rows differently")
            rows[row.id] = row
    if not runs:
        raise UserError("there are no predictions", _FORM)
    unread = [name for name in columns if name not in _Row._fields and not name.startswith(_P)]
    notes = (f"not read: {shortened(', '.join(unread), 200)}",) if unread else ()
    return runs, [name.removeprefix(_P) for name in columns if name.startswith(_P)], notes


def _cells(table: Any) -> Iterator[tuple[str, dict[str, str]]]:
    """Where each row is, and its cells, without those that hold a list or nothing."""
    name = str(table) if is_path(table) else "table"

    def refuse(line: int, problem: str) -> NoReturn:
        raise UserError(f"{name}, line {line}: {problem}", "correct it")

    lines = read_rows(name, refuse) if is_path(table) else json_rows(_decoded(json_lines(name, table)), refuse)
    for line, cells in lines:
        yield f"{name}, line {line}", {n: cell for n, cell in cells.items() if cell and not isinstance(cell, Nested)}


def _decoded(lines: bytes) -> Iterable[str]:
    return io.TextIOWrapper(io.BytesIO(lines), "utf-8", newline="\n")


def _row(where: str, cells: dict[str, str]) -> _Row:
    given = {name.removeprefix(_P): cell for name, cell in cells.items() if name.startswith(_P)}
    shares = {label: share for label, cell in given.items() if (share := NUMBERS.parse(cell, {})) is not None}
    if given and (len(shares) < len(given) or min(shares.values()) < 0.0 or abs(sum(shares.values()) - 1.0) > 0.01):
        shown = shortened(", ".join(given.values()), 100)
        raise UserError(f"{where}: {shown} are no probabilities", "give shares with the sum 1, or a prediction alone")
    if shares:
        cells = {_NEEDED[-1]: max(shares, key=shares.__getitem__), **cells}
    for name in (name for name in _NEEDED if name not in cells):
        raise UserError(f"{where}: no text or number under '{name}'; there is {shortened(', '.join(cells), 200)}", _FORM)
    return _Row(**{name: cells[name] for name in _Row._fields if name in cells})


def _shared_rows(runs: Mapping[Run, _Rows]) -> _Rows:
    """The rows of each split, which must be the same for all runs."""
    splits = {split: rows for own in reversed(runs.values()) for split, rows in own.items()}
    for run, own in runs.items():
        for split, rows in splits.items():
            for id in (*rows, *own.get(split, ())):
                ours, theirs = ((each[id].label, each[id].group) if id in each else None for each in (rows, own.get(split, {})))
                if ours != theirs:
                    how = "has another label or group" if ours and theirs else "is missing"
                    raise UserError(f"split '{split}': row '{id}' {how} ... {run.key}", "give all the same rows")
    return splits


def _labels(runs: Mapping[Run, _Rows], names: Sequence[str]) -> tuple[str, ...]:
    """Those with columns of probabilities in their order, then the others by name."""
    rows = [row for own in runs.values() for split in own.values() for row in split.values()]
    labels, answers = {row.label for row in rows}, {row.prediction for row in rows}
    if not labels & answers:
        few = [shortened(", ".join(sorted(each)[:5]), 80) for each in (labels, answers)]
        raise UserError(f"no prediction is a label: labels are {few[0]}; predictions are {few[1]}", "name them alike")
    if len(labels | answers) > _MOST_LABELS:
        raise UserError(f"more than {_MOST_LABELS:,} labels are no classes", "of numbers, give --metric pearson")
    return tuple(dict.fromkeys([*names, *sorted(labels | answers)]))


# --- writing -------------------------------------------------------------------------------------------------------


def saving(file: Path | str | None, task: Task, system: str, seed: int) -> Callable[[Mapping[str, np.ndarray]], None]:
    """A function that writes a model's answers, given its logits by split; a wrong file is refused before that."""
    if file is None:
        return lambda logits: None
    path = Path(file)
    if path.suffix != ".csv":
        raise UserError(f"{path}: predictions are written as csv", "give NAME.csv")
    if not task.answer_kind.in_cells:
        raise UserError(f"predictions of {task.answer_kind.plural} do not fit into one cell", "leave out the file")
    require_writable(path.parent, path.name)
    return lambda logits: _write(path, task, logits, system, str(seed))


def _write(path: Path, task: Task, logits: Mapping[str, np.ndarray], system: str, seed: str) -> None:
    kind, rows = task.answer_kind, list[dict[str, str]]()
    for name, own in logits.items():
        split, classes = task.splits[name], task.classes_of(task.splits[name])
        ids = split.ids if len(set(split.ids)) == len(split) else [f"{id}#{at}" for at, id in enumerate(split.ids)]
        answers = [kind.cells(each, classes) for each in (split.labels, kind.decode(split, own))]
        # a split with classes of its own has no probabilities of them
        shares = softmax(own.astype(float), axis=1) if kind.has_classes and not split.coarse else [()] * len(split)
        for *cells, each in zip(ids, *answers, split.groups, shares, strict=True):
            row = _Row(system, seed, name, *cells)._asdict()
            rows.append(row | {f"{_P}{of}": f"{share:.9g}" for of, share in zip(classes, each, strict=False)})
    buffer = io.StringIO()
    table = csv.DictWriter(buffer, dict.fromkeys(name for row in rows for name in row), "", lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    write_bytes(path, buffer.getvalue().encode(errors="replace"))
