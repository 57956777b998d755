"""A check of data before training: sizes, labels, duplicates, leaks, lengths, bad rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from srnet.core.errors import UserError
from srnet.tasks.answers.base import AnswerKind, get_answer
from srnet.tasks.base import Task
from srnet.tasks.files import FilesTask, Problem, Read
from srnet.tasks.leaks import Shared, TextKeys, shared_with, text_keys
from srnet.tasks.splits import Split
from srnet.tasks.squad import SquadTask
from srnet.tasks.synthetic import SyntheticTask

_SIGNS = ".!?"


@dataclass(frozen=True)
class SplitCheck:
    """One split as it is in its file, before rows are sampled or dropped."""

    name: str
    kind: str
    source: str
    rows: int
    labels: dict[str, int]
    """Rows by label, where the answers are classes."""
    scores: dict[str, float]
    """Their mean, standard deviation, smallest and largest, where the answers are scores."""
    repeated: int
    """Rows that repeat an earlier row of the split."""
    in_train: int
    """Rows that are also trained on, compared without case, spaces and punctuation."""
    first_in_train: int
    """Rows whose first text is the first text of a training row."""
    second_in_train: int
    """Rows whose second text is the second text of a training row; 0 where there is one text only."""
    words: tuple[int, int, int]
    """Words of both texts together: median, 95th percentile, maximum."""
    final_sign: dict[str, float]
    """By class, the percentage of second texts (or first, if there is only one) that end in . ! or ?"""
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class DataCheck:
    task: str
    splits: tuple[SplitCheck, ...]
    fingerprint: str | None
    """None if bad rows or leaks prevent the task from loading."""
    obstacle: str | None
    notes: tuple[str, ...]

    @property
    def bad_rows(self) -> int:
        return sum(len(split.problems) for split in self.splits)


def check_data(spec: FilesTask | SquadTask | SyntheticTask) -> DataCheck:
    """What one should know about a task's data; bad rows are listed, not raised."""
    if isinstance(spec, FilesTask):
        return _check_files(spec)
    task = spec.load()
    files, trained = spec.files if isinstance(spec, SquadTask) else {}, text_keys(task.train)
    splits = tuple(
        _checked(task.answer_kind, split, text_keys(split), trained, task.classes_of(split), files.get(name, ""))
        for name, split in task.splits.items()
    )
    return DataCheck(spec.name, splits, task.fingerprint, None, task.notes)


def _check_files(spec: FilesTask) -> DataCheck:
    """Every split of a task, with all its bad rows rather than the first. The files are read once."""
    problems: dict[str, list[Problem]] = {name: [] for name in spec.files}
    read = {name: spec.read(name, problems[name]) for name in spec.files}
    answer, trained = get_answer(spec.answer), read["train"].keys
    splits = tuple(
        _checked(
            answer,
            each.split,
            each.keys,
            trained,
            each.split.coarse.classes if each.split.coarse else spec.labels,
            spec.files[name].path,
            tuple(problems[name]),
            tuple(each.notes),
        )
        for name, each in read.items()
    )
    try:
        task = _assembled(spec, read, problems)
    except UserError as error:
        return DataCheck(spec.name, splits, None, str(error), ())
    return DataCheck(spec.name, splits, task.fingerprint, None, task.notes)


def _assembled(spec: FilesTask, read: Mapping[str, Read], problems: Mapping[str, list[Problem]]) -> Task:
    """As `spec.load()`, of what has been read already."""
    first = next((name for name, each in problems.items() if each), None)
    if first is not None and spec.bad_rows == "refuse":
        raise problems[first][0].error(spec.files[first].path)
    return spec.assemble({name: each.without(problems[name]) for name, each in read.items()})


def _checked(
    answer: AnswerKind,
    split: Split,
    keys: TextKeys,
    trained: TextKeys,
    classes: tuple[str, ...],
    source: str,
    problems: tuple[Problem, ...] = (),
    notes: tuple[str, ...] = (),
) -> SplitCheck:
    counts = answer.counts(split.labels, classes)
    shared = shared_with(trained, keys) if split.name != "train" else Shared(0, 0, 0)
    pairs = zip(split.text_a, split.text_b, strict=True)
    lengths = np.fromiter((len(a.split()) + len(b.split()) for a, b in pairs), np.int64, len(split))
    middle, most, longest = (int(np.quantile(lengths, share, method="higher")) for share in (0.5, 0.95, 1.0))
    texts = split.text_b if any(split.text_b) else split.text_a
    ends = np.array([text.endswith(tuple(_SIGNS)) for text in texts])
    return SplitCheck(
        name=split.name,
        kind=split.kind,
        source=source,
        rows=len(split),
        labels=counts,
        scores=answer.statistics(split.labels),
        repeated=keys.repeated,
        in_train=shared.rows,
        first_in_train=shared.first,
        second_in_train=shared.second if any(split.text_b) else 0,
        words=(middle, most, longest),
        final_sign={
            name: round(100.0 * float(ends[split.labels == index].mean()), 1)
            for index, name in enumerate(counts)
            if counts[name]
        },
        problems=problems,
        notes=notes,
    )
