"""Rows that show a shortcut: where it is right, and where it misleads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from srnet.bias.measuring import EARLY_ROWS, Fit, fit_early
from srnet.tasks.splits import Split

_EACH = 3
"""Rows of a split that are shown."""
_REASONS = 4
"""Features of a row that are named."""


@dataclass(frozen=True)
class ShownRow:
    """A row, and the answer of the shortcut alone."""

    split: str
    id: str
    text_a: str
    text_b: str
    label: str
    answer: str
    probability: float
    """Of the answer, in percent."""
    because: tuple[str, ...]
    """Features of the row that go with the answer, the strongest first."""
    is_right: bool


def rows_of(fit: Fit) -> tuple[ShownRow, ...]:
    """Training rows where the shortcut is right; then rows where it misleads: of dev, and of its worst OOD set."""
    task = fit.candidate.task
    worst = min(task.ood, key=lambda name: fit.measured.scores[name], default=None)
    wrong = [(task.splits[name], fit.answers[name]) for name in (task.dev.name, worst) if name is not None]
    misled = [row for split, answers in wrong for row in _shown(fit, split, answers, right=False)]
    return (*_shown(fit, *_unseen(fit), right=True), *misled)


def _unseen(fit: Fit) -> tuple[Split, np.ndarray]:
    """Some training rows, and the answers of a fit on others."""
    task = fit.candidate.task
    train = task.train.take(np.random.default_rng(0).permutation(len(task.train))[: 2 * EARLY_ROWS])
    half = len(train) // 2
    x = fit.features.of(train)
    return train.take(np.arange(half, len(train))), fit_early(x[:half], train.labels[:half], len(task.labels))(x[half:])


def _shown(fit: Fit, split: Split, log_probs: np.ndarray, right: bool) -> tuple[ShownRow, ...]:
    task = fit.candidate.task
    classes = task.classes_of(split)
    answers = task.answer_kind.decode(split, log_probs)
    certainty = np.exp(log_probs.max(axis=1))
    matching = np.flatnonzero((answers == split.labels) == right)
    rows = _spread(matching[np.argsort(-certainty[matching], kind="stable")], split)
    reasons = _reasons(fit, split.take(rows), log_probs[rows].argmax(axis=1))
    return tuple(
        ShownRow(
            split=split.name,
            id=split.ids[row],
            text_a=split.text_a[row],
            text_b=split.text_b[row],
            label=classes[split.labels[row]],
            answer=classes[answers[row]],
            probability=100.0 * float(certainty[row]),
            because=because,
            is_right=right,
        )
        for row, because in zip(rows, reasons, strict=True)
    )


def _spread(rows: np.ndarray, split: Split) -> np.ndarray:
    """The first row of every label, then the next ones; equal texts once."""
    seen: set[tuple[str, str]] = set()
    ranked: dict[int, int] = {}
    keyed: list[tuple[int, int, int]] = []
    for row in rows[: 200 * _EACH].tolist():
        texts = (split.text_a[row], split.text_b[row])
        if texts not in seen:
            seen.add(texts)
            label = int(split.labels[row])
            ranked[label] = ranked.get(label, 0) + 1
            keyed.append((ranked[label], len(keyed), row))
    return np.array([row for _, _, row in sorted(keyed)[:_EACH]], np.int64)


def _reasons(fit: Fit, split: Split, answers: np.ndarray) -> list[tuple[str, ...]]:
    """For each row, those of its features that go with the answer."""
    if not len(split):
        return []
    strength = {(each.feature, each.label): place for place, each in enumerate(fit.carriers)}
    names, x = fit.binary.names, fit.binary.of(fit.features.of(split))
    labels = fit.candidate.task.labels
    found = []
    for row, answer in enumerate(answers):
        held = [(names[column], labels[answer]) for column in x[[row]].indices]
        known = sorted((strength[each], each[0]) for each in held if each in strength)
        found.append(tuple(name for _, name in known[:_REASONS]))
    return found
