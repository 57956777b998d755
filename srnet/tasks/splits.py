"""Examples under one name, by column."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal, Self

import numpy as np

from srnet.core.errors import UserError

SplitKind = Literal["ID", "OOD"]
Decision = Literal["argmax", "sum"]
"""How a prediction is mapped to coarser classes: by the most likely class, or by the highest sum of probabilities."""
LEVELS = " > "
"""The separator of the levels of a sub-case: `heuristic > label > sub-case`. Each level is scored."""
PAIR = "pair"
"""The column of metadata that names the pair of a row: a pair is right if all rows with its name are."""


@dataclass(frozen=True)
class Coarse:
    """The classes of a split that has fewer than the task: HANS has entailment and non-entailment."""

    classes: tuple[str, ...]
    of: tuple[int, ...]
    """For each label of the task, the class it counts as."""
    decision: Decision = "argmax"

    def answers(self, logits: np.ndarray) -> np.ndarray:
        belongs = np.array(self.of)
        if self.decision == "argmax":
            return np.asarray(belongs[logits.argmax(axis=1)])
        from scipy.special import softmax  # not at the top: it is slow to import

        shares = softmax(logits, axis=1) @ np.eye(len(self.classes))[belongs]
        return np.asarray(shares.argmax(axis=1))


@dataclass(frozen=True)
class Example:
    id: str
    text_a: str
    text_b: str
    label: float
    """An int is a class, a float a score."""
    group: str = ""
    """The sub-case the example belongs to; each has its own score."""


@dataclass(frozen=True)
class Split:
    """Examples under one name, by column."""

    name: str
    kind: SplitKind
    ids: tuple[str, ...]
    text_a: tuple[str, ...]
    text_b: tuple[str, ...]
    labels: np.ndarray = field(repr=False)
    """One row per example; their meaning depends on the kind of answer."""
    groups: tuple[str, ...]
    coarse: Coarse | None = None
    """Set if the split has classes of its own, coarser than the task's."""
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    """Metadata beside the texts: the cells of further columns, by name. No model reads them, so they are no part of the
    fingerprint."""

    @classmethod
    def of(cls, name: str, kind: SplitKind, examples: Sequence[Example]) -> Self:
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

    def sample(self, size: int) -> Self:
        """At most `size` rows, always the same ones, sampled from the complete split."""
        return self.take(self.shuffled_rows(0, size))

    def shuffled_rows(self, start: int, stop: int) -> np.ndarray:
        """The rows from `start` to `stop` of one fixed permutation: disjoint ranges have different rows."""
        return np.sort(np.random.default_rng(0).permutation(len(self))[start:stop])

    def take(self, rows: np.ndarray) -> Self:
        def taken(column: Sequence[str]) -> tuple[str, ...]:
            return tuple(column[row] for row in rows)

        return replace(
            self,
            ids=taken(self.ids),
            text_a=taken(self.text_a),
            text_b=taken(self.text_b),
            labels=self.labels[rows],
            groups=taken(self.groups),
            columns={name: taken(cells) for name, cells in self.columns.items()},
        )

    def fingerprint(self) -> str:
        digest = hashlib.sha256(f"{self.name}\0{self.kind}\0{self.coarse or ''}".encode())
        rows = map(repr, zip(self.ids, self.text_a, self.text_b, self.labels.tolist(), self.groups, strict=True))
        while some := "".join(islice(rows, 1000)):  # the digest is that of all rows, however they are cut
            digest.update(some.encode())
        return digest.hexdigest()


def joined(splits: Sequence[Split]) -> Split:
    """The rows of several splits, one after another, under the name of the first, with the columns that all have."""
    if len(splits) == 1:
        return splits[0]
    if any(type(split) is not Split for split in splits):
        raise UserError(f"{splits[0].name}: such rows cannot be joined with others", "train on one split only")
    if any(split.coarse for split in splits):
        raise UserError(f"{splits[0].name}: rows with coarser classes cannot be joined", "translate their labels")
    return Split(
        name=splits[0].name,
        kind=splits[0].kind,
        ids=tuple(id for split in splits for id in split.ids),
        text_a=tuple(text for split in splits for text in split.text_a),
        text_b=tuple(text for split in splits for text in split.text_b),
        labels=np.concatenate([split.labels for split in splits]),
        groups=tuple(group for split in splits for group in split.groups),
        columns={
            name: tuple(cell for split in splits for cell in split.columns[name])
            for name in splits[0].columns
            if all(name in split.columns for split in splits)
        },
    )
