"""What is learned: examples in named splits, their labels, the metric and the shortcut one suspects."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from scipy.special import softmax

from srnet.errors import UserError

Kind = Literal["ID", "OOD"]
Answer = Literal["class", "score", "span"]
"""What a model is asked for: one of the labels, a number, or where in the second text the answer stands."""
Metric = Literal[
    "accuracy", "f1", "positive_f1", "matthews", "pearson", "spearman", "exact_match", "span_f1",
]  # fmt: skip
"""`f1` is the mean over the classes, weighted by their examples; `positive_f1` the F1 of class 1, as in GLUE."""
METRICS_OF: dict[Answer, tuple[Metric, ...]] = {
    "class": ("accuracy", "f1", "matthews", "positive_f1"),
    "score": ("pearson", "spearman"),
    "span": ("exact_match", "span_f1"),
}
KINDS: dict[Answer, str] = {"class": "classes", "score": "scores", "span": "spans"}
SCORE = ("score",)
SPAN = ("start", "end")
"""What stands for the labels where the answer is none: one output of the model each."""
TrainingData = Literal["id", "id+ood"]
"""What a training sees: the ID training data, or the OOD training data as well (an upper bound)."""
Shortcut = Literal["overlap", "claim", "unknown"]
"""What a bias model reads: word overlap between the two texts, the second text (the claim) alone, or, for a shortcut
that nobody has named, whatever a model learns from very few examples."""
SHORTCUTS: tuple[Shortcut, ...] = ("overlap", "claim", "unknown")


Decision = Literal["argmax", "sum"]
"""How an answer among fine classes is counted among coarse ones: the class of the likeliest, or the likeliest sum."""
LEVELS = " > "
"""Between the levels of a sub-case: `heuristic > label > sub-case`. Each level has scores of its own."""


@dataclass(frozen=True)
class Coarse:
    """A split that tells fewer classes apart than the task: HANS knows entailment and non-entailment."""

    classes: tuple[str, ...]
    of: tuple[int, ...]
    """For each label of the task, the class it counts as."""
    decision: Decision = "argmax"

    def answers(self, logits: np.ndarray) -> np.ndarray:
        belongs = np.array(self.of)
        if self.decision == "argmax":
            return np.asarray(belongs[logits.argmax(axis=1)])
        shares = softmax(logits, axis=1) @ np.eye(len(self.classes))[belongs]
        return np.asarray(shares.argmax(axis=1))


@dataclass(frozen=True)
class Example:
    id: str
    text_a: str
    text_b: str
    label: float
    """A class is a whole number; a score is written with its point: 3.0."""
    group: str = ""
    """The sub-case the example belongs to; each has its own score."""


@dataclass(frozen=True)
class Split:
    """Examples under one name, by column."""

    name: str
    kind: Kind
    ids: tuple[str, ...]
    text_a: tuple[str, ...]
    text_b: tuple[str, ...]
    labels: np.ndarray = field(repr=False)
    """Whole numbers are classes, floating ones scores; a pair a row is a span."""
    groups: tuple[str, ...]
    coarse: Coarse | None = None
    """Set where the labels are classes of the split's own, coarser than the task's."""

    @classmethod
    def of(cls, name: str, kind: Kind, examples: Sequence[Example]) -> Split:
        if not examples:
            raise UserError(f"split '{name}' has no examples", "give it at least one row")
        return cls(
            name=name,
            kind=kind,
            ids=tuple(e.id for e in examples),
            text_a=tuple(e.text_a for e in examples),
            text_b=tuple(e.text_b for e in examples),
            labels=np.array(
                [e.label for e in examples],
                dtype=np.float64 if any(isinstance(e.label, float) for e in examples) else np.int64,
            ),
            groups=tuple(e.group for e in examples),
        )

    def __len__(self) -> int:
        return len(self.ids)

    def sample(self, size: int) -> Split:
        """At most `size` rows, always the same ones, drawn from the whole split."""
        return self.take(self.drawn(0, size))

    def drawn(self, start: int, stop: int) -> np.ndarray:
        """The rows from `start` to `stop` of one fixed shuffling: other ranges hold other rows."""
        return np.sort(np.random.default_rng(0).permutation(len(self))[start:stop])

    def take(self, rows: np.ndarray) -> Split:
        ids, text_a, text_b, groups = (
            tuple(column[row] for row in rows) for column in (self.ids, self.text_a, self.text_b, self.groups)
        )
        return replace(self, ids=ids, text_a=text_a, text_b=text_b, labels=self.labels[rows], groups=groups)

    def answers(self, logits: np.ndarray) -> np.ndarray:
        """What a model that gives these logits answers, as the labels of this split."""
        if answer_of(self.labels) == "score":
            return np.asarray(logits[:, 0])
        return self.coarse.answers(logits) if self.coarse else np.asarray(logits.argmax(axis=1))

    def fingerprint(self) -> str:
        digest = hashlib.sha256(f"{self.name}\0{self.kind}\0{self.coarse or ''}".encode())
        for row in zip(self.ids, self.text_a, self.text_b, self.labels.tolist(), self.groups, strict=True):
            digest.update(repr(row).encode())
        return digest.hexdigest()


def answer_of(labels: np.ndarray) -> Answer:
    """What kind of answer these labels are."""
    if labels.ndim == 2:
        return "span"
    return "score" if np.issubdtype(labels.dtype, np.floating) else "class"


def check_metric(task: str, answer: Answer, metric: str, labels: tuple[str, ...]) -> None:
    fitting = [each for each in METRICS_OF[answer] if each != "positive_f1" or len(labels) == 2]
    if metric in fitting:
        return
    if metric in METRICS_OF[answer]:
        why = f"is for two labels, not {len(labels)}"
    else:
        why = f"does not fit {KINDS[answer]}" if metric in get_args(Metric) else "is unknown"
    raise UserError(f"task '{task}': metric '{metric}' {why}", f"choose one of: {', '.join(fitting)}")


def check_label_words(task: str, words: tuple[str, ...], labels: tuple[str, ...]) -> None:
    if words and (len(words) != len(labels) or len(set(words)) != len(words) or not all(map(str.strip, words))):
        raise UserError(
            f"task '{task}': label_words {list(words)} do not stand for the labels {list(labels)}",
            "give one word a label, each another",
        )


def joined(splits: Sequence[Split]) -> Split:
    """The rows of several splits, one after another, under the name of the first."""
    if len(splits) == 1:
        return splits[0]
    if any(type(split) is not Split for split in splits):
        raise UserError(f"{splits[0].name}: such rows cannot join others", "train on one split alone")
    if any(split.coarse for split in splits):
        raise UserError(f"{splits[0].name}: rows with coarser classes cannot join others", "translate their labels")
    return Split(
        name=splits[0].name,
        kind=splits[0].kind,
        ids=tuple(id for split in splits for id in split.ids),
        text_a=tuple(text for split in splits for text in split.text_a),
        text_b=tuple(text for split in splits for text in split.text_b),
        labels=np.concatenate([split.labels for split in splits]),
        groups=tuple(group for split in splits for group in split.groups),
    )


@dataclass(frozen=True)
class Task:
    """Everything an experiment needs to know about its data.

    `train` and `dev` are in distribution; only they may train or choose anything. `dev` and all of `ood` are scored.
    """

    name: str
    labels: tuple[str, ...]
    metric: Metric
    shortcut: Shortcut
    train: Split
    dev: Split
    ood: Mapping[str, Split]
    ood_train: Split | None = None
    """Out-of-distribution examples to train on, for those who ask for an upper bound. Never scored."""
    ood_copies: int = 1
    """How often they are repeated when they join the training data."""
    id_tests: Mapping[str, Split] = field(default_factory=dict)
    """Further test sets in distribution. They are scored, and choose nothing."""
    notes: tuple[str, ...] = ()
    """What a reader of results on this task should be told in words: rows left out, how classes are counted."""
    answer: Answer = "class"
    label_words: tuple[str, ...] = ()
    """One word a label, whose logit in a masked language model can stand for it."""
    ideal: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)
    """The answers of ideal classifiers, where theory knows them, by their names and by split."""

    def __post_init__(self) -> None:
        tests = {**self.id_tests, **self.ood}
        names = [self.train.name, self.dev.name, *self.id_tests, *self.ood]
        names += [self.ood_train.name] if self.ood_train else []
        if len(set(names)) != len(names) or any(split.name != name for name, split in tests.items()):
            raise UserError(f"task '{self.name}': splits need names of their own, not {names}")
        self._check_answers()
        check_metric(self.name, self.answer, self.metric, self.labels)
        check_label_words(self.name, self.label_words, self.labels)
        if self.train.coarse or self.dev.coarse or (self.ood_train and self.ood_train.coarse):
            raise UserError(f"task '{self.name}': train, dev and ood_train need the task's own labels")
        if self.ood_copies < 1:
            raise UserError(f"task '{self.name}': ood_copies must be at least 1, not {self.ood_copies}")
        for split in (self.train, *([self.ood_train] if self.ood_train else [])):
            if len(set(split.ids)) != len(split):
                raise UserError(f"task '{self.name}': the {split.name} split repeats an example id", "make ids unique")

    def _check_answers(self) -> None:
        for split in self.splits.values():
            found = answer_of(split.labels)
            if found != self.answer:
                raise UserError(
                    f"task '{self.name}': split '{split.name}' holds {KINDS[found]}, not {KINDS[self.answer]}",
                    "check the task's answer",
                )
            self._check_labels(split)
        if self.answer == "class":
            return
        wanted = SCORE if self.answer == "score" else SPAN
        if self.labels != wanted:
            raise UserError(f"task '{self.name}': labels of {KINDS[self.answer]} are {wanted}, not {self.labels}")
        if any(split.coarse for split in self.splits.values()):
            raise UserError(f"task '{self.name}': coarser classes are for classes, not {KINDS[self.answer]}")

    def _check_labels(self, split: Split) -> None:
        if self.answer == "class":
            classes = self.classes_of(split)
            bad = split.labels[(split.labels < 0) | (split.labels >= len(classes))]
            if len(bad):
                raise UserError(f"task '{self.name}': split '{split.name}' holds label {bad[0]}, not in {classes}")
        elif self.answer == "score" and not np.isfinite(split.labels).all():
            raise UserError(f"task '{self.name}': split '{split.name}' holds a score that is no number")

    def need_classes(self, what: str) -> None:
        """For what makes sense for classes alone: `what` says it, "a bias model"."""
        if self.answer != "class":
            raise UserError(f"{what} needs a task with classes, and '{self.name}' asks for {KINDS[self.answer]}")

    @property
    def splits(self) -> dict[str, Split]:
        """Every split by name; the OOD training set is there for those who ask for it by name."""
        extra = {} if self.ood_train is None else {self.ood_train.name: self.ood_train}
        return {self.train.name: self.train, self.dev.name: self.dev, **self.id_tests, **self.ood, **extra}

    def classes_of(self, split: Split) -> tuple[str, ...]:
        """What the labels of a split stand for."""
        return split.coarse.classes if split.coarse else self.labels

    def training_data(self, data: TrainingData) -> tuple[Split, ...]:
        """The splits to train on, one after another, each as often as it counts."""
        if data == "id":
            return (self.train,)
        if self.ood_train is None:
            raise UserError(f"task '{self.name}' has no OOD training data", "give it an ood_train split")
        return (self.train, *[self.ood_train] * self.ood_copies)

    @property
    def scored(self) -> tuple[str, ...]:
        """The splits that results are reported on."""
        return (self.dev.name, *self.id_tests, *self.ood)

    @cached_property
    def fingerprint(self) -> str:
        """Changes whenever any example, label or the metric of the task does. What one suspects changes no data, and
        neither does which word stands for a label."""
        extra = (self.ood_train.name, self.ood_copies) if self.ood_train else None
        roles = (self.train.name, self.dev.name, tuple(self.id_tests), tuple(self.ood), extra)
        said = (self.name, self.labels, self.metric, roles)
        # only what is unusual is said, so that results from before there were other answers keep their keys
        digest = hashlib.sha256(repr(said if self.answer == "class" else (*said, self.answer)).encode())
        for split in self.splits.values():
            digest.update(split.fingerprint().encode())
        return digest.hexdigest()
