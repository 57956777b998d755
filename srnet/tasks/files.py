"""A task from files: a user's own, or those of a published dataset."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from srnet.config.fields import Described
from srnet.config.values import Count
from srnet.core.errors import UserError, choose
from srnet.core.names import file_name
from srnet.tasks.answers.base import ANSWERS, AnswerKind, get_answer
from srnet.tasks.answers.classes import CLASSES
from srnet.tasks.base import Metric, Shortcut, Task, check_label_words
from srnet.tasks.layout import Columns, Layout, tidy_with
from srnet.tasks.leaks import TextKeys, leaked, shared_with, text_keys
from srnet.tasks.reading import HUB, is_table, read_rows
from srnet.tasks.splits import Coarse, Decision, Kind, Split, joined

Leaks = Literal["check", "drop", "keep"]
"""Test rows that are also trained on. `check`: an error beyond one in a hundred; `drop`: not trained on; `keep`."""
BadRows = Literal["refuse", "skip"]
LEAKS_ALLOWED = 0.01
"""Published datasets have a few; above this share of a test set its score would measure memorisation."""
_RESERVED = re.compile(r"train|dev|ood_train\d*")


@dataclass(frozen=True)
class DataFile(Described):
    """One file, or one split of a Hub dataset, where its columns or labels differ from the task's.

    A column may be given as alternatives, `evidence|evidence_sentence`: the first that a row has is read.
    """

    path: str
    text_a: str | None = None
    text_b: str | None = None
    label: str | None = None
    group: str | tuple[str, ...] | None = None
    spellings: tuple[tuple[str, str], ...] = ()
    """Spellings of labels in this file, in addition to the task's: {"non-entailment": "contradiction"}."""
    bytes_literals: bool = False
    """Texts are written as Python bytes, b'...', as in the files of PAWS's own script."""
    classes: tuple[tuple[str, str], ...] = ()
    """For a test file with fewer classes than the task: what each label of the task counts as here."""
    columns: tuple[str, ...] = ()
    """For a csv, tsv or txt file without a header: the names of its columns, in order."""


Source = str | DataFile


@dataclass(frozen=True)
class FilesTask(Described):
    """Files with one example per row. Everything under `ood` is scored, and never used for training or selection."""

    name: str
    labels: tuple[str, ...] = ()
    """Labels, with commas. Left out where the answer is not one of them. Default: those in the training data."""
    train: Source = ""
    dev: Source = ""
    ood: tuple[tuple[str, Source], ...] = ()
    """(name, file) of each out-of-distribution test set."""
    ood_train: Source | tuple[Source, ...] | None = None
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
    shortcut: Shortcut = "overlap"
    """The suspected shortcut: overlap, claim or unknown."""
    id_tests: tuple[tuple[str, Source], ...] = ()
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

    def __post_init__(self) -> None:
        super().__post_init__()
        file_name("a task", self.name)
        object.__setattr__(self, "text_b", self.text_b or None)
        choose("answer", self.answer, [name for name, each in ANSWERS.items() if each.in_cells])
        kind = get_answer(self.answer)
        needed = ("train", "dev") if kind.outputs else ("labels", "train", "dev")
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
        tests = [file_name("a test set", name) for name, _ in (*self.id_tests, *self.ood)]
        taken = [name for n, name in enumerate(tests) if name in tests[:n] or _RESERVED.fullmatch(name)]
        if taken:
            raise UserError(f"a test file cannot be called '{taken[0]}': the name is taken", "choose another name")
        for name, _ in self.rows:
            choose("split under rows", name, ("train", "dev", *(["ood_train"] if self.ood_train else []), *tests))
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
        """Every file by the name of its split; further OOD training files are numbered."""
        extra = _as_tuple(self.ood_train)
        numbered = {f"ood_train{n or ''}": source for n, source in enumerate(extra)}
        sources = {"train": self.train, "dev": self.dev, **dict(self.id_tests), **dict(self.ood), **numbered}
        return {name: DataFile(s) if isinstance(s, str) else s for name, s in sources.items()}

    def resolved(self, folder: Path) -> FilesTask:
        """The same with absolute paths; relative ones start at `folder`."""

        def place(source: Source) -> Source:
            if isinstance(source, DataFile):
                return replace(source, path=str(place(source.path)))
            return source if source.startswith(HUB) else str((folder / source).resolve())

        def all_of(pairs: tuple[tuple[str, Source], ...]) -> tuple[tuple[str, Source], ...]:
            return tuple((name, place(source)) for name, source in pairs)

        extra = tuple(map(place, _as_tuple(self.ood_train)))
        return replace(
            self,
            train=place(self.train),
            dev=place(self.dev),
            ood=all_of(self.ood),
            id_tests=all_of(self.id_tests),
            ood_train=extra if isinstance(self.ood_train, tuple) else next(iter(extra), None),
        )

    def load(self) -> Task:
        read = {name: self._read(name) for name in self.files}
        return self.assemble(read)

    def assemble(self, read: Mapping[str, Read]) -> Task:
        """The task of splits that have been read: sampled, and without what leaks."""
        self.check_groups(read)
        notes = [*self.remarks, *(f"{name}: {note}" for name, each in read.items() for note in each.notes)]
        notes += [f"{name}: not scored, because its file was not found: --ood {name}=FILE" for name in self.absent]
        tested = ("dev", *(name for name, _ in (*self.id_tests, *self.ood)))
        made = {name: self._sampled(read[name].split, notes) for name in tested}
        tests = list(made.values())
        keys = {n: read[n].keys if split is read[n].split else text_keys(split) for n, split in made.items()}
        train = self._without_leaks(read["train"].split, read["train"].keys, tests, keys, notes)
        parts = [each.split for name, each in read.items() if name != "train" and name not in made]
        extra = replace(joined(parts), name="ood_train", ids=_numbered("ood_train", parts)) if parts else None
        if extra is not None:
            extra = self._sampled(self._without_leaks(extra, text_keys(extra), tests, keys, notes), notes)
        notes += [
            f"{s.name}: answers are counted {len(s.coarse.classes)}-way by {s.coarse.decision}"
            for s in tests
            if s.coarse
        ]
        return Task(
            name=self.name,
            labels=self.labels,
            metric=self.metric,
            shortcut=self.shortcut,
            train=self._sampled(train, notes),
            dev=made["dev"],
            ood={name: made[name] for name, _ in self.ood},
            ood_train=extra,
            ood_copies=self.ood_copies,
            id_tests={name: made[name] for name, _ in self.id_tests},
            notes=tuple(notes),
            answer=self.answer,
            label_words=self.label_words,
        )

    def _sampled(self, split: Split, notes: list[str]) -> Split:
        wanted = dict(self.rows).get(split.name)
        if wanted is None or wanted >= len(split):
            return split
        notes.append(f"{split.name}: {wanted:,} of {len(split):,} rows")
        return split.sample(wanted)

    def _without_leaks(
        self, train: Split, trained: TextKeys, tests: Sequence[Split], keys: Mapping[str, TextKeys], notes: list[str]
    ) -> Split:
        """Rows of a test set that are trained on, compared without case, spaces and punctuation."""
        found = {test.name: shared_with(trained, keys[test.name]).rows for test in tests}
        known = {test.name: f"{found[test.name]:,} of {len(test):,} rows" for test in tests if found[test.name]}
        if self.leaks == "check":
            for test in tests:
                if found[test.name] > max(1, LEAKS_ALLOWED * len(test)):
                    raise UserError(
                        f"task '{self.name}': {known[test.name]} of '{test.name}' are also in {train.name}, "
                        "so its score would measure memorisation",
                        "leaks: drop (--leaks drop) does not train on them, leaks: keep continues",
                    )
        if self.leaks != "drop":
            notes += [f"{name}: {count} are also in {train.name}" for name, count in known.items()]
            return train
        rows = leaked(trained, keys.values())
        if not rows:
            return train
        if len(rows) == len(train):
            raise UserError(f"task '{self.name}': every row of {train.name} is in a test set", "give other files")
        notes.append(f"{train.name}: {len(rows):,} rows that are also in a test set were not trained on")
        return train.take(np.setdiff1d(np.arange(len(train)), rows))

    def _read(self, name: str) -> Read:
        problems: list[Problem] = []
        return self.read(name, problems if self.bad_rows == "skip" else None).without(problems)

    def read(self, name: str, problems: list[Problem] | None = None) -> Read:
        """One split as it is in its file. Bad rows are collected in `problems`; without it the first is an error."""
        file, kind = self.files[name], _kind(name, self.id_tests)
        layout = _layout(self, file)
        columns = Columns(name)

        def bad(line: int, problem: str) -> None:
            if problems is None:
                raise Problem(line, problem).error(file.path)
            problems.append(Problem(line, problem))

        for line, row in read_rows(file.path, bad, file.columns or self.columns):
            layout.add(columns, line, row, bad)
        notes = [f"{columns.unlabelled:,} rows without a label were left out"] if columns.unlabelled else []
        if not columns.labels:
            first = f" that can be read; line {problems[0].line}: {problems[0].what}" if problems else ""
            labelled = " with a label" if columns.unlabelled and not first else ""
            fix = "check its columns and labels" if first else "give it a header and at least one example"
            raise UserError(f"{file.path} holds no rows{labelled}{first}", fix)
        if file.group is not None and (unknown := columns.unknown(layout.group)):
            raise UserError(f"{file.path}: no column '{unknown[0]}' for groups", f"columns here: {layout.seen(row)}")
        return Read(columns.split(kind, layout.answer, layout.coarse), notes, columns.unknown(layout.group))

    def check_groups(self, read: Mapping[str, Read]) -> None:
        """Not every file needs the task's group columns, but a column that no file has is a mistake."""
        if self.group is None:
            return
        mine = [each.unknown_groups for name, each in read.items() if self.files[name].group is None]
        nowhere = set.intersection(*map(set, mine)) if mine else set()
        if nowhere:
            raise UserError(f"task '{self.name}': no column '{sorted(nowhere)[0]}' for groups in any file", "check it")


@dataclass(frozen=True)
class Problem:
    """A row that cannot be read."""

    line: int
    what: str

    def error(self, path: str) -> UserError:
        fix = "correct it, or leave such rows out: bad_rows: skip (--bad-rows skip)"
        return UserError(f"{path}, line {self.line}: {self.what}", fix)


@dataclass(frozen=True)
class Read:
    split: Split
    notes: list[str]
    unknown_groups: tuple[str, ...] = ()
    """Group columns that no row of the file has."""

    @cached_property
    def keys(self) -> TextKeys:
        return text_keys(self.split)

    def without(self, problems: Sequence[Problem]) -> Read:
        """With a note of the rows that were left out."""
        if not problems:
            return self
        lines = ", ".join(str(problem.line) for problem in problems[:5]) + (", ..." if len(problems) > 5 else "")
        note = f"{len(problems):,} rows that cannot be read were left out (lines {lines})"
        return replace(self, notes=[*self.notes, note])


def _kind(name: str, id_tests: tuple[tuple[str, Source], ...]) -> Kind:
    return "ID" if name in ("train", "dev", *dict(id_tests)) else "OOD"


def _check_spellings(spellings: tuple[tuple[str, str], ...], labels: tuple[str, ...]) -> None:
    for spelling, label in spellings:
        if label not in labels:
            known = ", ".join(dict.fromkeys(labels))
            raise UserError(f"'{spelling}' is a spelling of '{label}', which is not a label", f"labels: {known}")


def _as_tuple(source: Source | tuple[Source, ...] | None) -> tuple[Source, ...]:
    if source is None:
        return ()
    return source if isinstance(source, tuple) else (source,)


def _numbered(name: str, parts: Sequence[Split]) -> tuple[str, ...]:
    return tuple(f"{name}-{n}" for n in range(sum(map(len, parts))))


def _layout(task: FilesTask, file: DataFile) -> Layout:
    coarse = _coarse(task, file)
    names = coarse.classes if coarse else task.labels
    spellings = {**({} if coarse else dict(task.spellings)), **dict(file.spellings)}
    labels = {name: index for index, name in enumerate(names)}
    labels |= {spelling: labels[label] for spelling, label in spellings.items()}
    group = file.group if file.group is not None else task.group
    return Layout(
        text_a=file.text_a or task.text_a,
        text_b=file.text_b or task.text_b,
        label=file.label or task.label,
        group=(group,) if isinstance(group, str) else group or (),
        labels=labels,
        names=names,
        unlabelled=task.unlabelled,
        tidy=tidy_with(task.strip_final_punctuation, file.bytes_literals),
        coarse=coarse,
        answer=get_answer(task.answer),
        source=file.path,
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
