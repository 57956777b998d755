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

# --- metrics: the last two axes of a count array are (right, true, predicted) and the class. The whole table of true
# and predicted classes would need gigabytes for the resamples of 150 classes, and no metric needs more of it. ---

OfCounts = Callable[[np.ndarray], np.ndarray]


def _counts(predictions: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return np.asarray(_terms(labels, predictions, _class_count(labels, predictions)).sum(axis=0, dtype=np.int64))


def _accuracy_of(counts: np.ndarray) -> np.ndarray:
    right, true, _ = np.moveaxis(counts, -2, 0)
    return np.asarray(right.sum(axis=-1) / true.sum(axis=-1))


def _weighted_f1_of(counts: np.ndarray) -> np.ndarray:
    """The mean F1 of the classes, weighted by their number of examples. A class without any has F1 0."""
    true = counts[..., 1, :]
    return np.asarray((_f1_by_class(counts) * true).sum(axis=-1) / true.sum(axis=-1))


def _positive_f1_of(counts: np.ndarray) -> np.ndarray:
    """The F1 of class 1, which GLUE reports for two classes; 0 where it is neither true nor predicted."""
    return np.asarray(_f1_by_class(counts)[..., 1])


def _f1_by_class(counts: np.ndarray) -> np.ndarray:
    right, true, predicted = np.moveaxis(counts, -2, 0)
    return np.asarray(2.0 * right / np.maximum(true + predicted, 1e-12))


def _matthews_of(counts: np.ndarray) -> np.ndarray:
    """Matthews' correlation of true and predicted class, for any number of classes; 0 where one is constant."""
    by_class, true, predicted = np.moveaxis(counts.astype(np.float64), -2, 0)
    total, right = true.sum(axis=-1), by_class.sum(axis=-1)
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
    return Measure(lambda *both: float(value(_counts(*both))), partial(_judge, value), labels)


def _judge(value: OfCounts, models: Sequence[np.ndarray], labels: np.ndarray) -> Judge:
    classes = _class_count(labels, *models)
    return judge_sums([_terms(labels, model, classes) for model in models], value)


def _class_count(*columns: np.ndarray) -> int:
    return max(2, 1 + max(int(each.max()) for each in columns))


def _terms(labels: np.ndarray, answers: np.ndarray, classes: int) -> np.ndarray:
    """The counts of each example alone."""
    true, predicted = (np.eye(classes, dtype=np.float32)[each] for each in (labels, answers))
    return np.stack([true * predicted, true, predicted], axis=1)


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

    def imitation(
        self, logits: torch.Tensor, teacher: torch.Tensor, temperature: float = 2.0, labels: torch.Tensor | None = None
    ) -> torch.Tensor:
        return divergence(logits, teacher, temperature)

    def decode(self, split: Split, logits: np.ndarray) -> np.ndarray:
        return split.coarse.answers(logits) if split.coarse else np.asarray(logits.argmax(axis=1))

    def constant(self, labels: np.ndarray) -> np.ndarray:
        return np.full_like(labels, np.bincount(labels).argmax())


CLASSES = register(_Classes())
