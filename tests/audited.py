"""Classifiers and tasks for audits that no training has made: any logits can stand behind the protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from srnet.audit.report import Audit, make_audit
from srnet.audit.rows import Judged, _Predictions
from srnet.models.model import Matched, match
from srnet.tasks.base import Task
from srnet.tasks.splits import Split, SplitKind

NLI = ("entailment", "neutral", "contradiction")
YES_NO = ("no", "yes")


@dataclass(frozen=True)
class Scripted:
    """A classifier that computes its logits from the two texts."""

    answer: Callable[[str, str], Sequence[float]]
    labels: tuple[str, ...] = YES_NO
    name: str = "scripted"

    def logits(self, text_a: Sequence[str], text_b: Sequence[str]) -> np.ndarray:
        return np.array([self.answer(a, b) for a, b in zip(text_a, text_b, strict=True)], dtype=np.float32)


def split_of(
    texts: Sequence[tuple[str, str]],
    labels: Sequence[int],
    name: str = "dev",
    kind: SplitKind = "ID",
    groups: Sequence[str] = (),
) -> Split:
    ids = tuple(f"{name}-{row}" for row in range(len(texts)))
    a, b = tuple(pair[0] for pair in texts), tuple(pair[1] for pair in texts)
    return Split(name, kind, ids, a, b, np.array(labels), tuple(groups) or ("",) * len(texts))


def task_of(dev: Split, ood: Sequence[Split] = (), labels: tuple[str, ...] = YES_NO) -> Task:
    train = split_of([("a", "b"), ("c", "d")], [0, 1], "train")
    return Task("made-up", labels, "accuracy", "overlap", train, dev, {each.name: each for each in ood})


def judged(labels: Sequence[int], *models: Sequence[Sequence[float]], bias: np.ndarray | None = None) -> Judged:
    """A split of two classes on which the models gave these probabilities."""
    split = split_of([("a", "b")] * len(labels), labels)
    tables = [np.array(each, dtype=np.float64) for each in models]
    shortcut = None if bias is None else _Predictions(bias.argmax(axis=1), bias)
    return Judged(split, YES_NO, tuple(_Predictions(t.argmax(axis=1), t) for t in tables), None, shortcut)


def audit_of(task: Task, *models: Scripted) -> Audit:
    """An audit without a bias model."""
    matched: list[Matched] = [match(each, task.labels) for each in models]
    splits = {name: task.splits[name] for name in task.scored}
    logits = {name: [each.logits(split.text_a, split.text_b) for each in matched] for name, split in splits.items()}
    return make_audit(task, matched, logits)
