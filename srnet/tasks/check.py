"""A check of data before training: sizes, labels, duplicates, leaks, lengths, bad rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from srnet.core.errors import UserError
from srnet.core.tables import Shown
from srnet.tasks.answers.base import AnswerKind, get_answer
from srnet.tasks.base import TaskSpec
from srnet.tasks.files import FilesTask
from srnet.tasks.layout import BadRow, SplitFile
from srnet.tasks.leaks import Shared, TextKeys
from srnet.tasks.sources import OfFiles


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
    """The percentage, by class, of second texts (or first, if there is only one) that end in . ! or ?"""
    problems: tuple[BadRow, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class DataCheck(Shown, says="task", table="splits"):
    task: str
    splits: tuple[SplitCheck, ...]
    fingerprint: str | None
    """None if bad rows or leaks prevent the task from loading."""
    obstacle: str | None
    notes: tuple[str, ...]

    @property
    def bad_rows(self) -> int:
        return sum(len(split.problems) for split in self.splits)


def check_data(spec: TaskSpec) -> DataCheck:
    """What one should know about the data of a task, by its description `spec`. Bad rows are listed, not raised."""
    if isinstance(spec, FilesTask):
        return _check_files(spec)
    task = spec.load()
    sources = spec.sources if isinstance(spec, OfFiles) else {}
    paths = {name: getattr(source, "path", source) for name, source in sources.items()}
    read = [SplitFile(paths.get(name, ""), split) for name, split in task.splits.items()]
    return DataCheck(spec.name, _checks(read, task.answer_kind, task.labels), task.fingerprint, None, task.notes)


def _check_files(spec: FilesTask) -> DataCheck:
    """Every split of a task, with all its bad rows rather than the first. The files are read once."""
    read = spec.read_all(collect=True)
    splits = _checks(read.values(), get_answer(spec.answer), spec.labels)
    try:
        task = spec.assemble(read)
    except UserError as error:
        return DataCheck(spec.name, splits, None, str(error), ())
    return DataCheck(spec.name, splits, task.fingerprint, None, task.notes)


def _checks(read: Iterable[SplitFile], answer: AnswerKind, labels: tuple[str, ...]) -> tuple[SplitCheck, ...]:
    """The checks of all splits; the first is the training data."""
    first, *others = read
    return tuple(_check(each, first.keys, answer, labels) for each in (first, *others))


def _check(file: SplitFile, trained: TextKeys, answer: AnswerKind, labels: tuple[str, ...]) -> SplitCheck:
    split = file.split
    counts = answer.counts(split.labels, split.coarse.classes if split.coarse else labels)
    shared = Shared(0, 0, 0) if file.keys is trained else trained.shared_with(file.keys)
    pairs = zip(split.text_a, split.text_b, strict=True)
    lengths = np.fromiter((len(a.split()) + len(b.split()) for a, b in pairs), np.int64, len(split))
    middle, most, longest = (int(np.quantile(lengths, share, method="higher")) for share in (0.5, 0.95, 1.0))
    texts = split.text_b if any(split.text_b) else split.text_a
    ends = np.array([text.endswith((".", "!", "?")) for text in texts])
    return SplitCheck(
        name=split.name,
        kind=split.kind,
        source=file.path,
        rows=len(split),
        labels=counts,
        scores=answer.statistics(split.labels),
        repeated=file.keys.repeated,
        in_train=shared.rows,
        first_in_train=shared.first,
        second_in_train=shared.second if any(split.text_b) else 0,
        words=(middle, most, longest),
        final_sign={
            name: round(100.0 * float(ends[split.labels == index].mean()), 1)
            for index, name in enumerate(counts)
            if counts[name] and answer.has_classes
        },
        problems=file.bad_rows,
        notes=file.notes,
    )
