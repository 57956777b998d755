"""Scores of one set of predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from srnet.tasks.answers.base import METRICS, AnswerKind
from srnet.tasks.answers.classes import CLASSES
from srnet.tasks.base import Metric, Task
from srnet.tasks.splits import LEVELS, Split


def measure(metric: Metric, predictions: np.ndarray, labels: np.ndarray) -> float:
    """The metric of a split's predicted answers."""
    return METRICS[metric].score(predictions, labels)


def reported(metric: Metric, predictions: np.ndarray, labels: np.ndarray) -> float:
    """The metric as it is reported: most in percent."""
    return METRICS[metric].reported(predictions, labels)


def gain(metric: Metric, predictions: np.ndarray, labels: np.ndarray) -> float:
    """What the selection of checkpoints maximises: the reported metric, or the distance from its ideal, negative."""
    return METRICS[metric].gain(reported(metric, predictions, labels))


def baseline(answer: AnswerKind, metric: Metric, labels: np.ndarray) -> float:
    """The reported score of a constant answer; 0 for answers without such a baseline."""
    constant = answer.constant(labels)
    return 0.0 if constant is None else reported(metric, constant, labels)


@dataclass(frozen=True)
class Scores:
    """Everything reported about one model on one split, in percent where the metric is a share."""

    metrics: dict[str, float]
    """Every metric for this kind of answer."""
    groups: dict[str, float]
    """Accuracy per sub-case, of classes; for other answers the metric that their kind names."""
    recall: dict[str, float]
    """Accuracy per true class."""
    majority: dict[str, float]
    """The scores of a constant answer, such as the most frequent class: a baseline."""
    examples: int


def score(
    predictions: np.ndarray,
    labels: np.ndarray,
    groups: tuple[str, ...],
    label_names: tuple[str, ...],
    answer: AnswerKind = CLASSES,
) -> Scores:
    names = answer.measured(answer.metrics_for(label_names), labels)
    by_group, recall = {}, {}
    if answer.has_classes:
        right = predictions == labels
        by_group = {name: _percent(float(right[rows].mean())) for name, rows in rows_by_case(groups).items()}
        present = [index for index in range(len(label_names)) if (labels == index).any()]
        recall = {label_names[index]: _percent(float(right[labels == index].mean())) for index in present}
    elif answer.group_metric in names:
        cases, metric = rows_by_case(groups), METRICS[answer.group_metric]
        by_group = {name: round(metric.reported(predictions[rows], labels[rows]), 4) for name, rows in cases.items()}
    return Scores(
        metrics={name: round(reported(name, predictions, labels), 4) for name in names},
        groups=by_group,
        recall=recall,
        majority={name: round(baseline(answer, name, labels), 4) for name in names},
        examples=len(labels),
    )


def score_split(task: Task, split: Split, logits: np.ndarray) -> dict[str, Any]:
    """The scores of a model's outputs on a split, as they are stored."""
    answer = task.answer_kind
    scores = score(answer.decode(split, logits), split.labels, split.groups, task.classes_of(split), answer)
    return {"kind": split.kind, **asdict(scores)}


def rows_by_case(groups: Sequence[str]) -> dict[str, np.ndarray]:
    """The rows of each sub-case; where sub-cases have levels (`a > b`), of every level, each before those below it."""
    names, group_of, counts = np.unique(np.array(groups), return_inverse=True, return_counts=True)
    rows: dict[str, list[np.ndarray]] = {}
    for name, own in zip(names.tolist(), np.split(np.argsort(group_of), np.cumsum(counts)[:-1]), strict=False):
        parts = name.split(LEVELS) if name else []
        for depth in range(1, len(parts) + 1):
            rows.setdefault(LEVELS.join(parts[:depth]), []).append(own)
    return {name: np.sort(np.concatenate(rows[name])) for name in sorted(rows)}


def _percent(share: float) -> float:
    return round(100.0 * share, 4)
