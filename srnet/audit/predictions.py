"""Predictions of any systems as tables: one row for each system, seed, split and example, checked or written."""

from __future__ import annotations

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
from srnet.tasks.splits import PAIR, Split

_NEEDED, _P = ("system", "seed", "split", "id", "label", "prediction"), "p:"
_GROUP = "group"
_OPTIONAL = (_GROUP, PAIR)
_FORM = f"each row needs {', '.join(_NEEDED)}; for prediction also the probability of each label, under {_P}LABEL"
_MOST_LABELS = 1000
_ID_NAMES = {"dev", "val", "valid", "validation", "validationmatched", "devmatched", "id", "iid", "indistribution"}


class Run(NamedTuple):
    """One seed of a system."""

    system: str
    seed: str

    @property
    def key(self) -> str:
        return f"{self.system}, seed {self.seed}"


Answers = dict[Run, dict[str, np.ndarray]]
"""What each run answers, by split."""
_Rows = dict[str, dict[str, dict[str, str]]]
"""The cells of rows, by split and id."""


def read_predictions(tables: Sequence[Any], id: str | None, ood: Sequence[str], metric: str) -> tuple[Task, Answers]:
    """The splits as a task without training data, and what each run answers on them."""
    kind = next(each for each in ANSWERS.values() if choose("metric", metric, METRICS) in each.metrics)
    if not kind.in_cells:
        raise UserError(f"{metric} compares {kind.plural}, which do not fit into one cell", "choose another metric")
    runs, columns = _read(tables)
    splits = _shared_rows(runs)
    dev = one_of("split", "the ID set", id, list(splits), _ID_NAMES, "--id")
    tests = [name for name in dict.fromkeys(ood or splits) if choose("split", name, splits) != dev]
    if not tests:
        raise UserError(f"'{dev}' is the only split", "add predictions on a set out of distribution")
    labels = _labels(runs, columns) if kind.has_classes else kind.outputs
    index = {label: number for number, label in enumerate(labels)}

    def values(rows: Mapping[str, Mapping[str, str]], ids: Iterable[str], column: str) -> np.ndarray:
        found = [kind.parse(rows[id][column], index) for id in ids]
        if None in found:
            fix = f"correct it, or choose another metric than {metric}"
            raise UserError(f"a {column} is not among {kind.plural}", fix)
        return np.array(found, kind.dtype)

    def split_of(name: str) -> Split:
        rows, empty = splits[name], ("",) * len(splits[name])
        groups = tuple(row.get(_GROUP, "") for row in rows.values())
        gold = values(rows, rows, "label")
        pairs = {PAIR: tuple(row.get(PAIR, "") for row in rows.values())} if PAIR in columns else {}
        return Split(name, "OOD" if name in tests else "ID", tuple(rows), empty, empty, gold, groups, columns=pairs)

    sets = {name: split_of(name) for name in splits}
    train = Split("", "ID", (), (), (), np.empty(0, kind.dtype), ())  # nothing was trained here
    roles: Any = {"dev": sets.pop(dev), "ood": {name: sets.pop(name) for name in tests}, "id_tests": sets}
    unread = [name for name in columns if name not in (*_NEEDED, *_OPTIONAL) and not name.startswith(_P)]
    notes = (f"not read: {shortened(', '.join(unread), 200)}",) if unread else ()
    task = Task("predictions", labels, metric, "unknown", train, **roles, notes=notes, answer=kind.name)
    return task, {run: {s: values(own[s], splits[s], "prediction") for s in splits} for run, own in runs.items()}


def one_of(what: str, role: str, given: str | None, names: Sequence[str], usual: Iterable[str], option: str) -> str:
    """The name that is given, or the only one that is usual for its role."""
    found = [name for name in names if name == given or (given is None and loose_name(name) in usual)]
    if len(found) == 1:
        return found[0]
    problem = f"which {what} is {role}?" if given is None else f"there is no {what} '{given}'"
    raise UserError(problem, f"give {option} and one of: {shortened(', '.join(names), 300)}")


def _read(tables: Sequence[Any]) -> tuple[dict[Run, _Rows], dict[str, None]]:
    """The rows of each run, and all columns in their order."""
    runs, columns = dict[Run, _Rows](), dict[str, None]()
    for where, cells in (each for table in tables for each in _cells(table)):
        columns |= dict.fromkeys(cells)
        _complete(where, cells)
        run = Run(cells.pop("system"), cells.pop("seed"))
        rows, id = runs.setdefault(run, {}).setdefault(cells.pop("split"), {}), cells.pop("id")
        if id in rows:
            raise UserError(f"{where}: id '{id}' of {run.key} is there twice in this split", "name rows differently")
        rows[id] = {name: cells[name] for name in ("label", "prediction", *_OPTIONAL) if name in cells}
    if not runs:
        raise UserError("there are no predictions", _FORM)
    return runs, columns


def _cells(table: Any) -> Iterator[tuple[str, dict[str, str]]]:
    """Where each row is, and its cells, without those that hold a list or nothing."""
    name = str(table) if is_path(table) else "tables"

    def refuse(line: int, problem: str) -> NoReturn:
        raise UserError(f"{name}, line {line}: {problem}", "correct it")

    lines = (
        read_rows(name, refuse) if is_path(table) else json_rows(json_lines(name, table).decode().split("\n"), refuse)
    )
    for line, cells in lines:
        yield f"{name}, line {line}", {n: cell for n, cell in cells.items() if cell and not isinstance(cell, Nested)}


def _complete(where: str, cells: dict[str, str]) -> None:
    """Check a row. If it has probabilities alone, its prediction is the most probable label."""
    given = {name.removeprefix(_P): NUMBERS.parse(cell, {}) for name, cell in cells.items() if name.startswith(_P)}
    shares = {label: share for label, share in given.items() if share is not None and share >= 0.0}
    if given and (len(shares) < len(given) or abs(sum(shares.values()) - 1.0) > 0.01):
        shown = shortened(", ".join(cell for name, cell in cells.items() if name.startswith(_P)), 100)
        raise UserError(f"{where}: {shown} are no probabilities", "give shares with the sum 1, or a prediction alone")
    if shares:
        cells.setdefault("prediction", max(shares, key=shares.__getitem__))
    for name in (name for name in _NEEDED if name not in cells):
        raise UserError(f"{where}: nothing under '{name}', but under {shortened(', '.join(cells), 200)}", _FORM)


def _shared_rows(runs: Mapping[Run, _Rows]) -> _Rows:
    """The rows of each split, which must be the same for all runs."""
    splits: _Rows = {}
    for name, rows in (each for own in runs.values() for each in own.items()):
        splits[name] = splits.get(name, {}) | {id: row for id, row in rows.items() if id not in splits.get(name, {})}
    for run, split in ((run, split) for run in runs for split in splits):
        for id, row in splits[split].items():
            own = runs[run].get(split, {}).get(id)
            if own is None:
                raise UserError(f"{run.key} has no row '{id}' of split '{split}', as others have", "give all the same")
            if any(own.get(name) != row.get(name) for name in ("label", *_OPTIONAL)):
                raise UserError(
                    f"split '{split}': row '{id}' has several labels, groups or pairs", "give it the same ones"
                )
    return splits


def _labels(runs: Mapping[Run, _Rows], columns: Iterable[str]) -> tuple[str, ...]:
    """Those with columns of probabilities in their order, then the others by name."""
    rows = [row for own in runs.values() for split in own.values() for row in split.values()]
    labels, answers = ({row[name] for row in rows} for name in ("label", "prediction"))
    if not labels & answers:
        few = [shortened(", ".join(sorted(each)[:5]), 80) for each in (labels, answers)]
        raise UserError(f"no prediction is a label: labels are {few[0]}; predictions are {few[1]}", "name them alike")
    if len(labels | answers) > _MOST_LABELS:
        raise UserError(f"more than {_MOST_LABELS:,} labels are no classes", "of numbers, give --metric pearson")
    first = [name.removeprefix(_P) for name in columns if name.startswith(_P)]
    return tuple(dict.fromkeys([*first, *sorted(labels | answers)]))


def saving(file: Path | str | None, task: Task, system: str, seed: int) -> Callable[[Mapping[str, np.ndarray]], None]:
    """A function that writes a model's answers, given its logits by split; a wrong file is refused before that."""
    if file is None:
        return lambda logits: None
    path, kind = Path(file), task.answer_kind
    if path.suffix != ".csv" or not kind.in_cells:
        fix = "give NAME.csv" if kind.in_cells else "leave the file out"
        raise UserError(f"{path}: predictions of {kind.plural} are written as csv if each fits into a cell", fix)
    require_writable(path.parent, path.name)

    def save(logits: Mapping[str, np.ndarray]) -> None:
        import pandas as pd  # not at the top: it is slow to import

        rows = [{"system": system, "seed": seed, **row} for name in logits for row in _rows(task, name, logits[name])]
        text = pd.DataFrame(rows, dtype=object).to_csv(index=False, lineterminator="\n")
        write_bytes(path, text.encode(errors="replace"))

    return save


def _rows(task: Task, name: str, logits: np.ndarray) -> Iterator[dict[str, Any]]:
    """The rows of a split, with probabilities unless its classes are others than the task's."""
    split, kind = task.splits[name], task.answer_kind
    classes = task.classes_of(split)
    ids = split.ids if len(set(split.ids)) == len(split) else [f"{id}#{at}" for at, id in enumerate(split.ids)]
    answers = [kind.cells(each, classes) for each in (split.labels, kind.decode(split, logits))]
    shares = softmax(logits.astype(float), axis=1) if kind.has_classes and not split.coarse else [()] * len(split)
    optional = {_GROUP: split.groups} | {name: cells for name, cells in split.columns.items() if name == PAIR}
    for *cells, each in zip(ids, *answers, *optional.values(), shares, strict=True):
        row = dict(zip((*_NEEDED[2:], *optional), (name, *cells), strict=True))
        yield row | {f"{_P}{of}": f"{share:.9g}" for of, share in zip(classes, each, strict=False)}
