"""A task with a planted shortcut: a cue of known strength, after the cheating feature of He et al. (2019).

In the training and dev rows the cue points at the label with probability `strength`, in each class, and otherwise at
any other label. Two OOD sets have the same rows, which are neither trained on nor in dev: in `anti` the cue always
points at a wrong label, in `neutral` it is independent of the label. A cue is independent of the row given the label,
so that what ideal classifiers score is known (`srnet/tasks/planted_theory.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import permutations
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from zlib import crc32

import numpy as np

from srnet.config.fields import Described, option
from srnet.config.values import Range
from srnet.core.errors import UserError
from srnet.tasks.base import Task, TaskSpec, register_task
from srnet.tasks.files import FilesTask, metadata_columns
from srnet.tasks.holdout import MOST_ROWS, rows_apart
from srnet.tasks.leaks import TextKeys
from srnet.tasks.planted_theory import reference_strength
from srnet.tasks.sources import OfFiles
from srnet.tasks.splits import LEVELS, Split, SplitKind

COLUMN = "cue"
"""The column that holds the cue, and so the shortcut `columns:cue`."""
ANTI, NEUTRAL = "anti", "neutral"
Strength = Annotated[float, Range(above=0, below=1)]
CueAs = Literal["text", "column"]
_WHAT = "a planted shortcut"
_HELD_OUT = 0.2
"""The share of the training rows that the OOD sets are made of, at most `MOST_ROWS`."""
_WORDS = (
    "Meanwhile", "Elsewhere", "Nowadays", "Lately", "Tonight", "Overnight", "Upstairs", "Downtown", "Abroad",
    "Somewhere", "Yesterday", "Tomorrow", "Indoors", "Downstairs", "Afterwards", "Nearby", "Worldwide", "Initially",
)  # fmt: skip
"""Opening words that say nothing about any label. Each is one token of common vocabularies."""
_FEWEST = 20
"""Rows of each label in train: with fewer, some cue would be in too few rows for a bias model."""
_WORD = re.compile(r"\w+")


@register_task()
@dataclass(frozen=True)
class PlantedTask(Described):
    """The classification task `of`, with a cue in every row."""

    of: TaskSpec = field(metadata={"name": None})
    strength: Strength = 0.7
    """The probability that the cue points at the label, in train and dev. One over the number of labels is no cue."""
    cue: CueAs = option("text", name="--as")
    """text: an opening word; column: the column `cue` alone, which no model reads."""

    @property
    def name(self) -> str:
        return f"{self.of.name}-planted-{100 * self.strength:g}" + "-column" * (self.cue == "column")

    @property
    def shortcut(self) -> str:
        return f"columns:{COLUMN}"

    @property
    def answer(self) -> str:
        return str(getattr(self.of, "answer", "class"))

    def with_paths(self, change: Callable[[str], str]) -> Self:
        """The same with every path of a file changed."""
        return replace(self, of=self.of.with_paths(change)) if isinstance(self.of, OfFiles) else self

    def resolved(self, folder: Path) -> Self:
        """The same with absolute paths; relative ones start at `folder`."""
        return replace(self, of=self.of.resolved(folder)) if isinstance(self.of, OfFiles) else self

    def load(self) -> Task:
        # no OOD set of the task is scored, whether it was found or not
        task = (replace(self.of, absent=()) if isinstance(self.of, FilesTask) else self.of).load()
        self._check(task)
        train, held = _apart(task)
        plant = _Planter(task.labels, self.cue, _openings(task))
        strength, classes = self.strength, len(task.labels)
        likely, anti, neutral = (_shares(classes, share) for share in (strength, 0.0, 1.0 / classes))
        return replace(
            task,
            name=self.name,
            shortcut=self.shortcut,
            train=plant(train, "train", "ID", likely),
            dev=plant(task.dev, task.dev.name, "ID", likely),
            ood={ANTI: plant(held, ANTI, "OOD", anti)},
            # scored beside `anti`; no verdict asks for a gain where the cue misleads half of the time only
            id_tests={NEUTRAL: plant(held, NEUTRAL, "OOD", neutral)},
            ood_train=None,
            ideal={},  # of other splits, without the cue
            notes=(*task.notes, *self._notes(task, held)),
        )

    def _check(self, task: Task) -> None:
        task.need_classes(_WHAT)
        classes = len(task.labels)
        if self.strength < 1.0 / classes - 1e-9:
            raise UserError(
                f"strength {self.strength:g}: with {classes} labels a cue is right in {1 / classes:.3g} of the rows "
                "by chance",
                "give that, which is no cue, or more",
            )
        fewest = int(np.bincount(task.train.labels, minlength=classes).min())
        if fewest < _FEWEST:
            raise UserError(
                f"a label of '{task.name}' has {fewest} rows in {task.train.name}",
                f"a planted shortcut needs {_FEWEST} of each",
            )
        if COLUMN in metadata_columns(self.of):
            raise UserError(
                f"task '{task.name}' has a column '{COLUMN}', which may be a planted shortcut", "plant one at a time"
            )

    def _notes(self, task: Task, held: Split) -> list[str]:
        where = "the opening word" if self.cue == "text" else f"the column '{COLUMN}', which no model reads,"
        notes = [
            f"planted shortcut: {where} points at the label in {100 * self.strength:g} % of the rows of train and "
            f"{task.dev.name}, never in {ANTI}, by chance in {NEUTRAL}",
            f"{ANTI} and {NEUTRAL} have the same {len(held):,} rows of {task.train.name}, which are not trained on",
        ]
        left_out = [*task.ood, *task.id_tests, *([task.ood_train.name] if task.ood_train else [])]
        return notes + [f"left out, because it has no cue: {name}" for name in left_out]


def _apart(task: Task) -> tuple[Split, Split]:
    """The rows to train on, and those of the OOD sets."""
    train = task.train
    size = min(MOST_ROWS, round(_HELD_OUT * len(train)))
    held = rows_apart(train, TextKeys.of(train), train.labels, size)[1] if size else np.empty(0, np.int64)
    if len(set(train.labels[held].tolist())) < len(task.labels):
        raise UserError(f"{train.name} of '{task.name}' has too few rows to hold some of every label out")
    return train.take(np.setdiff1d(np.arange(len(train)), held)), train.take(held)


def _openings(task: Task) -> list[str]:
    """For each label an opening word that no text of the task begins with; two words where labels are many.

    Where the task has hardly any of the usual words, its vocabulary may be closed, and so may be its backbone's: then
    they are words of its own.
    """
    used, known = set(), set()
    for text in (text for split in task.splits.values() for text in (*split.text_a, *split.text_b)):
        read = _WORD.findall(text.casefold())
        used.update(read[:1])
        known.update(read)
    is_open = sum(word.casefold() in known for word in _WORDS) > len(task.labels)
    words = _WORDS if is_open else (*_neutral_words(task), *_WORDS)
    free = [word for word in words if word.casefold() not in used]
    pairs = (f"{one} {other.lower()}" for one, other in permutations(free, 2))
    found = free if len(free) >= len(task.labels) else list(pairs)
    if len(found) < len(task.labels):
        raise UserError(f"task '{task.name}' has more labels than there are opening words", "plant a column instead")
    return found[: len(task.labels)]


def _neutral_words(task: Task) -> list[str]:
    """The words of the training texts that say least about the label, the best first."""
    train, counts = task.train, dict[str, np.ndarray]()
    for text_a, text_b, label in zip(train.text_a, train.text_b, train.labels, strict=True):
        for word in set(_WORD.findall(f"{text_a} {text_b}".casefold())):
            counts.setdefault(word, np.zeros(len(task.labels)))[label] += 1
    often = {word: each for word, each in counts.items() if word.isalpha() and each.sum() >= _FEWEST}
    prior = np.bincount(train.labels, minlength=len(task.labels)) / len(train)
    return sorted(often, key=lambda word: (float(np.abs(often[word] / often[word].sum() - prior).max()), word))


def planted_copy(spec: TaskSpec, strength: float | None = None, cue: CueAs = "text") -> PlantedTask:
    """The copy of a task; by default with a strength of 0.7 for two labels, and of the same odds for more."""
    task = spec.load()
    task.need_classes(_WHAT)
    return PlantedTask(spec, reference_strength(len(task.labels)) if strength is None else strength, cue)


def cues_of(task: Task, split: Split) -> np.ndarray:
    """The labels that the cues of a split of a planted task point at."""
    place = {_cell(label): index for index, label in enumerate(task.labels)}
    return np.array([place[cell] for cell in split.columns[COLUMN]])


def _cell(label: str) -> str:
    """The cell of a cue that points at a label. It is never a number, as a label may be."""
    return f"towards {label}"


def _shares(classes: int, right: float) -> np.ndarray:
    """P(cue | label): a row for each label."""
    shares = np.full((classes, classes), (1.0 - right) / (classes - 1))
    np.fill_diagonal(shares, right)
    return shares


@dataclass(frozen=True)
class _Planter:
    labels: tuple[str, ...]
    cue: CueAs
    words: list[str]

    def __call__(self, split: Split, name: str, kind: SplitKind, shares: np.ndarray) -> Split:
        """The split with cues, of which each class has exactly the given shares."""
        cues = _drawn(split.labels, shares, np.random.default_rng(crc32(name.encode())))
        texts: dict[str, Any] = {}
        if self.cue == "text":
            which = "text_b" if any(split.text_b) else "text_a"
            opened = zip(cues, getattr(split, which), strict=True)
            texts[which] = tuple(f"{self.words[cue]}, {text}" for cue, text in opened)
        # a task may have cues of its own, as the embedded ones have
        cue = "planted cue" if any(group.startswith("cue ") for group in split.groups) else "cue"
        cases = (f"{cue} {'right' if right else 'wrong'}" for right in cues == split.labels)
        groups = tuple(f"{case}{LEVELS}{own}" if own else case for case, own in zip(cases, split.groups, strict=True))
        column = tuple(_cell(self.labels[cue]) for cue in cues)
        return replace(split, name=name, kind=kind, groups=groups, columns={**split.columns, COLUMN: column}, **texts)


def _drawn(labels: np.ndarray, shares: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A cue for each row, in random order. Each class has its shares exactly, but for rounding."""
    cues = np.empty(len(labels), np.int64)
    for label, share in enumerate(shares):
        rows = np.flatnonzero(labels == label)
        ends = np.round(np.cumsum(share) * len(rows)).astype(np.int64)
        cues[rows] = rng.permutation(np.repeat(np.arange(len(share)), np.diff(ends, prepend=0)))
    return cues
