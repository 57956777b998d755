"""A check of data before training: sizes, labels, duplicates, leaks, lengths, bad rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from srnet.errors import UserError
from srnet.tasks.answers import AnswerKind, get_answer
from srnet.tasks.base import Task
from srnet.tasks.files import FilesTask, Problem
from srnet.tasks.leaks import fingerprints, leaked
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
    """A check of a task's data; bad rows are listed, not raised."""
    obstacle, task = None, None
    try:
        task = spec.load()
    except UserError as error:
        obstacle = str(error)
    if isinstance(spec, FilesTask):
        splits = _check_files(spec)
    elif task is not None:
        splits = _check_task(task, spec.files if isinstance(spec, SquadTask) else {})
    else:
        raise UserError(obstacle or "")
    return DataCheck(spec.name, splits, task.fingerprint if task else None, obstacle, task.notes if task else ())


def _check_files(spec: FilesTask) -> tuple[SplitCheck, ...]:
    """Every split of a task, with all its bad rows."""
    problems: dict[str, list[Problem]] = {name: [] for name in spec.files}
    read = {name: spec.read(name, problems[name]) for name in spec.files}
    train = read["train"].split
    found = leaked(train, [each.split for name, each in read.items() if name != "train"])
    return tuple(
        _checked(
            get_answer(spec.answer),
            each.split,
            spec.files[name].path,
            each.split.coarse.classes if each.split.coarse else spec.labels,
            found.get(name, (0,))[0],
            tuple(problems[name]),
            tuple(each.notes),
        )
        for name, each in read.items()
    )


def _check_task(task: Task, files: Mapping[str, str]) -> tuple[SplitCheck, ...]:
    """The same for a task that is loaded without bad rows."""
    others = [split for split in task.splits.values() if split.name != task.train.name]
    found = leaked(task.train, others)
    return tuple(
        _checked(task.answer_kind, split, files.get(name, ""), task.classes_of(split), found.get(name, (0,))[0])
        for name, split in task.splits.items()
    )


def _checked(
    answer: AnswerKind,
    split: Split,
    source: str,
    classes: tuple[str, ...],
    in_train: int,
    problems: tuple[Problem, ...] = (),
    notes: tuple[str, ...] = (),
) -> SplitCheck:
    counts = answer.counts(split.labels, classes)
    repeated = sum(count - 1 for count in Counter(fingerprints(split)).values())
    lengths = np.array([len(a.split()) + len(b.split()) for a, b in zip(split.text_a, split.text_b, strict=True)])
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
        repeated=repeated,
        in_train=in_train,
        words=(middle, most, longest),
        final_sign={
            name: round(100.0 * float(ends[split.labels == index].mean()), 1)
            for index, name in enumerate(counts)
            if counts[name]
        },
        problems=problems,
        notes=notes,
    )
