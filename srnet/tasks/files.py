"""A task from files: a user's own, or those of a published dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated, Any, Literal, TypeVar

import numpy as np

from srnet.config.values import Count, Range
from srnet.core.errors import UserError, choose
from srnet.tasks.answers.base import ANSWERS, AnswerKind, get_answer
from srnet.tasks.answers.classes import CLASSES
from srnet.tasks.base import Metric, Task, check_label_words, register_task
from srnet.tasks.holdout import split_off, strata_of
from srnet.tasks.layout import ALL_COLUMNS, Layout, SplitFile, alternatives
from srnet.tasks.leaks import TextKeys
from srnet.tasks.reading import bad_row, is_table, read_rows
from srnet.tasks.shortcut import Shortcut, canonical
from srnet.tasks.sources import BadRows, DataFile, FileSource, OfFiles
from srnet.tasks.splits import PAIR, Coarse, Decision, Split, joined

S = TypeVar("S")
Leaks = Literal["check", "drop", "keep"]
"""Test rows that are also trained on. `check`: an error beyond one in a hundred; `drop`: not trained on; `keep`."""
DevShare = Annotated[float, Range(above=0, most=0.5)]
_LEAKS_ALLOWED = 0.01
"""Published datasets have a few; above this share of a test set its score would measure memorisation."""
_ROWS = 100
"""Rows from which the columns of a file are known; jsonl has no header."""


def _has_files(values: Mapping[str, Any]) -> bool:
    """Whether a mapping has files whose answers are in their cells."""
    elsewhere = [kind.name for kind in ANSWERS.values() if not kind.in_cells]
    return ("train" in values or "dev" in values) and values.get("answer") not in elsewhere


@register_task(
    reads=_has_files,
    changeable=(
        "metric", "shortcut", "decision", "rows", "leaks", "bad_rows", "strip_final_punctuation", "ood_copies",
        "label_words", "metadata",
    ),
)  # fmt: skip
@dataclass(frozen=True)
class FilesTask(OfFiles):
    """The task `name` in files of one example per row. `train` is trained on; `leaks` of it into tests are checked."""

    name: str
    labels: tuple[str, ...] = ()
    """Labels, with commas. Left out where the answer is not one of them. Default: those in the training data."""
    train: FileSource = ""
    dev: FileSource = ""
    """Examples that choose checkpoints. Default: some of the training file (`dev_share`), which are not trained on."""
    ood: tuple[tuple[str, FileSource], ...] = ()
    """(name, file) of each out-of-distribution test set."""
    ood_train: FileSource | tuple[FileSource, ...] | None = None
    """Out-of-distribution examples to train on, used only for an upper bound."""
    ood_copies: Count = 1
    """How often they are repeated."""
    text_a: str = "text_a"
    """Column of the first text."""
    text_b: str | None = "text_b"
    """Column of the second text; empty for single texts."""
    label: str = "label"
    """Column of the label, or of the score."""
    group: str | tuple[str, ...] | None = None
    """Column of the sub-case of a row; several, with commas, make a hierarchy."""
    metric: Metric = "accuracy"
    """accuracy, f1 (weighted), matthews or, with two labels, positive_f1; for scores pearson or spearman."""
    shortcut: Shortcut | None = None
    """The suspected shortcut, as --shortcut of the bias model; several with commas. Default: overlap of two texts, the
    words of one."""
    id_tests: tuple[tuple[str, FileSource], ...] = ()
    """(name, file) of further in-distribution test sets: scored, and never used for selection."""
    spellings: tuple[tuple[str, str], ...] = ()
    """Other spellings of the labels: {"0": "no", "1": "yes"}."""
    unlabelled: tuple[str, ...] = ()
    """Values of the label column for rows without a label. They are left out, and counted."""
    decision: Decision = "argmax"
    """How answers are counted on a test set with fewer classes."""
    rows: tuple[tuple[str, Count], ...] = ()
    """At most so many rows of a split, always the same ones: {"train": 50000, "dev": 3000}."""
    leaks: Leaks = "check"
    bad_rows: BadRows = "refuse"
    """`skip` leaves out rows that cannot be read, and counts them."""
    absent: tuple[str, ...] = ()
    """Test sets of the dataset that were not found. Reports name them."""
    strip_final_punctuation: bool = False
    """For collections in which it reveals the source of a row."""
    answer: str = CLASSES.name
    """The content of the label column: class, one of the labels; score, a number; or another kind of answer."""
    label_words: tuple[str, ...] = ()
    """One word per label, whose logit in a masked language model can be the label's."""
    columns: tuple[str, ...] = ()
    """For csv, tsv and txt files without a header: the names of their columns, in order, with commas."""
    remarks: tuple[str, ...] = ()
    """Further notes for reports on these data."""
    dev_share: DevShare = 0.2
    """Without a dev file: the share of the training file that is split off as dev, at most 2,000 rows."""
    metadata: tuple[str, ...] = ()
    """Columns to keep beside the texts, with commas; * for all. Shortcuts load those that they need by themselves."""

    def __post_init__(self) -> None:
        super().__post_init__()
        tests = self.check_splits()
        object.__setattr__(self, "text_b", self.text_b or None)
        object.__setattr__(self, "shortcut", self.shortcut and canonical(self.shortcut))
        self._check_metadata()
        choose("answer", self.answer, [name for name, each in ANSWERS.items() if each.in_cells])
        kind = get_answer(self.answer)
        needed = ("train",) if kind.outputs else ("labels", "train")
        missing = [name for name in needed if not getattr(self, name)]
        if missing:
            raise UserError(f"task '{self.name}': '{missing[0]}' is missing", f"give {', '.join(needed)}")
        if kind.outputs:
            self._refuse_labels(kind)
            object.__setattr__(self, "labels", kind.outputs)
        kind.check_metric(self.name, self.metric, self.labels)
        if len(set(self.labels)) != len(self.labels) or (len(self.labels) < 2 and not kind.outputs):
            raise UserError(
                f"task '{self.name}' needs at least two different labels, not {list(self.labels)}",
                "name them in labels",
            )
        _check_spellings(self.spellings, self.labels)
        check_label_words(self.name, self.label_words, self.labels)
        for name, file in self.files.items():
            if file.classes and name not in tests:
                raise UserError(
                    f"{file.path}: classes are for test files", "translate its labels with spellings instead"
                )
        for file in self.files.values():
            _check_spellings(file.spellings, tuple(dict(file.classes).values()) or self.labels)
            if file.columns and not is_table(file.path):
                raise UserError(f"{file.path} names its columns itself", "leave columns out")

    @property
    def read_columns(self) -> set[str]:
        """The columns of texts and labels, in any of the files."""
        described: tuple[FilesTask | DataFile, ...] = (self, *self.files.values())
        named = [(each.text_a, each.text_b, each.label) for each in described]
        return {name for names in named for column in names if column for name in alternatives(column)}

    def _check_metadata(self) -> None:
        taken = [name for name in self.metadata if name in self.read_columns]
        if taken:
            raise UserError(
                f"task '{self.name}': column '{taken[0]}' holds texts or labels, so it is no metadata",
                "name another column",
            )

    def _refuse_labels(self, kind: AnswerKind) -> None:
        of_classes = {
            "labels": self.labels if self.labels != kind.outputs else (),
            "spellings": self.spellings + tuple(pair for file in self.files.values() for pair in file.spellings),
            "classes": tuple(pair for file in self.files.values() for pair in file.classes),
        }
        for name, given in of_classes.items():
            if given:
                raise UserError(
                    f"task '{self.name}': {name} are for classes, and its answers are {kind.plural}", "leave them out"
                )

    @property
    def files(self) -> dict[str, DataFile]:
        """Every file by the name of its split."""
        return {name: DataFile(s) if isinstance(s, str) else s for name, s in self.sources.items()}

    @property
    def presumed_shortcut(self) -> Shortcut:
        """The shortcut that is given, or else what the data can have: two texts overlap, one has words."""
        pairs = self.files["train"].text_b or self.text_b
        return self.shortcut or ("overlap" if pairs else "words")

    def load(self) -> Task:
        return self.assemble(self.read_all(collect=self.bad_rows == "skip"))

    def read_all(self, *, collect: bool) -> dict[str, SplitFile]:
        """Every split as it is in its file; without a dev file, dev is split off the training file."""
        read = {name: self.read(name, collect=collect) for name in self.files}
        if "dev" in read:
            return read
        strata = strata_of(read["train"].split, get_answer(self.answer).has_classes)
        train, dev = split_off(read["train"], self.dev_share, strata)
        return {"train": train, "dev": dev, **{name: each for name, each in read.items() if name != "train"}}

    def read(self, name: str, *, collect: bool) -> SplitFile:
        """One split as it is in its file. Bad rows are collected; without `collect` the first is an error."""
        return _layout(self, self.files[name]).read(name, self.kind_of(name), collect=collect)

    def assemble(self, read: Mapping[str, SplitFile]) -> Task:
        """The task of splits that have been read: sampled, and without what leaks."""
        self._check_bad_rows(read)
        self.check_groups(read)
        notes = [*self.remarks, *(f"{name}: {note}" for name, each in read.items() for note in each.all_notes)]
        notes += [f"{name}: not scored, because its file was not found: --ood {name}=FILE" for name in self.absent]
        tested = ("dev", *(name for name, _ in (*self.id_tests, *self.ood)))
        tests = {name: self.sampled(read[name].split, notes) for name in tested}
        keys = {n: read[n].keys if split is read[n].split else TextKeys.of(split) for n, split in tests.items()}
        train = self._without_leaks(read["train"].split, read["train"].keys, keys, notes)
        parts = [each.split for name, each in read.items() if name != "train" and name not in tests]
        extra = self._ood_training(parts, keys, notes) if parts else None
        notes += [
            f"{s.name}: answers are counted {len(s.coarse.classes)}-way by {s.coarse.decision}"
            for s in tests.values()
            if s.coarse
        ]
        return Task(
            name=self.name,
            labels=self.labels,
            metric=self.metric,
            shortcut=self.presumed_shortcut,
            train=self.sampled(train, notes),
            dev=tests["dev"],
            ood={name: tests[name] for name, _ in self.ood},
            ood_train=extra,
            ood_copies=self.ood_copies,
            id_tests={name: tests[name] for name, _ in self.id_tests},
            notes=tuple(notes),
            answer=self.answer,
            label_words=self.label_words,
        )

    def _check_bad_rows(self, read: Mapping[str, SplitFile]) -> None:
        for each in read.values():
            if each.bad_rows and self.bad_rows == "refuse":
                raise bad_row(each.path, each.bad_rows[0].line, each.bad_rows[0].what)

    def _ood_training(self, parts: Sequence[Split], keys: Mapping[str, TextKeys], notes: list[str]) -> Split:
        ids = tuple(f"ood_train-{n}" for n in range(sum(map(len, parts))))
        split = replace(joined(parts), name="ood_train", ids=ids)
        return self.sampled(self._without_leaks(split, TextKeys.of(split), keys, notes), notes)

    def _without_leaks(self, train: Split, trained: TextKeys, tests: Mapping[str, TextKeys], notes: list[str]) -> Split:
        """The rows to train on. A row of a test set is compared without case, spaces and punctuation."""
        if self.leaks != "drop":
            for name, test in tests.items():
                count, total = trained.shared_with(test).rows, len(test.rows)
                if self.leaks == "check" and count > max(1, _LEAKS_ALLOWED * total):
                    raise UserError(
                        f"task '{self.name}': {count:,} of {total:,} rows of '{name}' are also in {train.name}, "
                        "so its score would measure memorisation",
                        "leaks: drop (--leaks drop) does not train on them, leaks: keep continues",
                    )
                notes += [f"{name}: {count:,} of {total:,} rows are also in {train.name}"] * bool(count)
            return train
        rows = trained.leaked(tests.values())
        if not rows:
            return train
        if len(rows) == len(train):
            raise UserError(f"task '{self.name}': every row of {train.name} is in a test set", "give other files")
        notes.append(f"{train.name}: {len(rows):,} rows that are also in a test set were not trained on")
        return train.take(np.setdiff1d(np.arange(len(train)), rows))

    def check_groups(self, read: Mapping[str, SplitFile]) -> None:
        """Not every file needs the task's group columns, but a column that no file has is a mistake."""
        if self.group is None:
            return
        # dev may be split off, and then has no file of its own
        mine = [each.unknown_groups for name, each in read.items() if name in self.files and not self.files[name].group]
        nowhere = set.intersection(*map(set, mine)) if mine else set()
        if nowhere:
            raise UserError(f"task '{self.name}': no column '{sorted(nowhere)[0]}' for groups in any file", "check it")


def _check_spellings(spellings: tuple[tuple[str, str], ...], labels: tuple[str, ...]) -> None:
    for spelling, label in spellings:
        if label not in labels:
            known = ", ".join(dict.fromkeys(labels))
            raise UserError(f"'{spelling}' is a spelling of '{label}', which is not a label", f"labels: {known}")


def _layout(task: FilesTask, file: DataFile) -> Layout:
    coarse = _coarse(task, file)
    names = coarse.classes if coarse else task.labels
    spellings = {**({} if coarse else dict(task.spellings)), **dict(file.spellings)}
    labels = {name: index for index, name in enumerate(names)}
    labels |= {spelling: labels[label] for spelling, label in spellings.items()}
    group = file.group if file.group is not None else task.group
    return Layout(
        path=file.path,
        text_a=file.text_a or task.text_a,
        text_b=file.text_b or task.text_b,
        label=file.label or task.label,
        group=(group,) if isinstance(group, str) else group or (),
        labels=labels,
        names=names,
        unlabelled=task.unlabelled,
        coarse=coarse,
        answer=get_answer(task.answer),
        columns=file.columns or task.columns,
        needs_group=file.group is not None,
        strip_final_punctuation=task.strip_final_punctuation,
        bytes_literals=file.bytes_literals,
        pair=file.pair,
        # always kept: it is neither in the description nor in the fingerprint, so no key depends on it
        metadata=tuple(dict.fromkeys((*task.metadata, *({PAIR} - task.read_columns)))),
        not_metadata=frozenset(task.read_columns if ALL_COLUMNS in task.metadata else ()),
    )


def _coarse(task: FilesTask, file: DataFile) -> Coarse | None:
    if not file.classes:
        return None
    counted = dict(file.classes)
    missing = [label for label in task.labels if label not in counted]
    unknown = [label for label in counted if label not in task.labels]
    if missing or unknown:
        raise UserError(f"{file.path}: classes must say what each of {list(task.labels)} counts as", f"not {counted}")
    classes = tuple(dict.fromkeys(counted[label] for label in task.labels))
    return Coarse(classes, tuple(classes.index(counted[label]) for label in task.labels), task.decision)


# --- metadata: columns beside the texts, which are read only where something needs them ------------------------------


def with_metadata(spec: S, columns: tuple[str, ...] = (ALL_COLUMNS,)) -> S:
    """A task's description whose splits also have these columns, or all; others than files have what they have."""
    if not isinstance(spec, FilesTask) or set(columns) <= set(spec.metadata):
        return spec
    changed: Any = replace(spec, metadata=tuple(dict.fromkeys((*spec.metadata, *columns))))
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
