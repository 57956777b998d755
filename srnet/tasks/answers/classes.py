"""One of the labels of the task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from srnet.tasks.answers.base import AnswerKind, Judge, Measure, divergence, judge_sums, quotient, register
from srnet.tasks.splits import Split

if TYPE_CHECKING:
    import torch

# --- metrics: the last two axes of a count array are (true class, predicted class) ---------------------------------

OfCounts = Callable[[np.ndarray], np.ndarray]


def _confusion(predictions: np.ndarray, labels: np.ndarray, classes: int | None = None) -> np.ndarray:
    size = classes or max(2, int(max(predictions.max(), labels.max())) + 1)
    return np.bincount(labels * size + predictions, minlength=size * size).reshape(size, size)


def _accuracy_of(counts: np.ndarray) -> np.ndarray:
    return np.asarray(np.trace(counts, axis1=-2, axis2=-1) / counts.sum(axis=(-2, -1)))


def _weighted_f1_of(counts: np.ndarray) -> np.ndarray:
    """The mean F1 of the classes, weighted by their number of examples. A class without any has F1 0."""
    true = counts.sum(axis=-1)
    return np.asarray((_f1_by_class(counts) * true).sum(axis=-1) / true.sum(axis=-1))


def _positive_f1_of(counts: np.ndarray) -> np.ndarray:
    """The F1 of class 1, which GLUE reports for two classes; 0 where it is neither true nor predicted."""
    return np.asarray(_f1_by_class(counts)[..., 1])


def _f1_by_class(counts: np.ndarray) -> np.ndarray:
    right = np.diagonal(counts, axis1=-2, axis2=-1)
    true, predicted = counts.sum(axis=-1), counts.sum(axis=-2)
    return np.asarray(2.0 * right / np.maximum(true + predicted, 1e-12))


def _matthews_of(counts: np.ndarray) -> np.ndarray:
    """Matthews' correlation of true and predicted class, for any number of classes; 0 where one is constant."""
    counts = counts.astype(np.float64)
    total, right = counts.sum(axis=(-2, -1)), np.trace(counts, axis1=-2, axis2=-1)
    true, predicted = counts.sum(axis=-1), counts.sum(axis=-2)
    spread_true, spread_predicted = (total**2 - (side**2).sum(axis=-1) for side in (true, predicted))
    return quotient(right * total - (true * predicted).sum(axis=-1), np.sqrt(spread_true * spread_predicted))


OF_COUNTS: dict[str, OfCounts] = {
    "accuracy": _accuracy_of,
    "f1": _weighted_f1_of,
    "matthews": _matthews_of,
    "positive_f1": _positive_f1_of,
}


def _measure(name: str) -> Measure:
    value, labels = OF_COUNTS[name], 2 if name == "positive_f1" else None
    return Measure(lambda *both: float(value(_confusion(*both))), partial(_judge, value), labels)


def _judge(value: OfCounts, models: Sequence[np.ndarray], labels: np.ndarray) -> Judge:
    classes = max(2, 1 + int(max(labels.max(), *(model.max() for model in models))))
    return judge_sums([_tables(labels, model, classes) for model in models], value)


def _tables(labels: np.ndarray, answers: np.ndarray, classes: int) -> np.ndarray:
    """One confusion table per example, with a 1 in its cell."""
    tables: np.ndarray = np.eye(classes * classes, dtype=np.float32)[labels * classes + answers]
    return tables.reshape(len(labels), classes, classes)


# --- the kind ------------------------------------------------------------------------------------------------------


class _Classes(AnswerKind):
    name, plural = "class", "classes"
    metrics: ClassVar = {name: _measure(name) for name in OF_COUNTS}
    has_classes = True

    def parse(self, cell: str, labels: Mapping[str, int]) -> int | None:
        return labels.get(cell)

    def unreadable(self, cell: str, column: str, labels: Sequence[str]) -> str:
        return f"label '{cell}' was never declared: declared are {', '.join(labels)}"

    def cells(self, labels: np.ndarray, names: Sequence[str]) -> list[str]:
        return [names[label] for label in labels]

    def problem(self, labels: np.ndarray, names: Sequence[str]) -> str | None:
        if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
            return "does not hold classes"
        bad = labels[(labels < 0) | (labels >= len(names))]
        return f"holds label {bad[0]}, not in {tuple(names)}" if len(bad) else None

    def counts(self, labels: np.ndarray, names: Sequence[str]) -> dict[str, int]:
        return dict(zip(names, np.bincount(labels, minlength=len(names)).tolist(), strict=True))

    def losses(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """- y log p_m"""
        from torch.nn import functional as F

        return F.cross_entropy(logits, labels, reduction="none")

    def teacher(self, logits: np.ndarray) -> np.ndarray:
        from scipy.special import log_softmax  # not at the top: it is slow to import

        return np.asarray(log_softmax(logits, axis=1))

    def imitation(self, logits: torch.Tensor, teacher: torch.Tensor, temperature: float = 2.0) -> torch.Tensor:
        return divergence(logits, teacher, temperature)

    def decode(self, split: Split, logits: np.ndarray) -> np.ndarray:
        return split.coarse.answers(logits) if split.coarse else np.asarray(logits.argmax(axis=1))

    def constant(self, labels: np.ndarray) -> np.ndarray:
        return np.full_like(labels, np.bincount(labels).argmax())


CLASSES = register(_Classes())
