"""Scores by hand."""

from __future__ import annotations

import numpy as np
import pytest

from srnet.evaluation import accuracy, score, weighted_f1

# As imbalanced as PAWS: seven of class 0, three of class 1. The model finds six of the seven and one of the three.
LABELS = np.array([0, 0, 0, 0, 0, 0, 0, 1, 1, 1])
PREDICTIONS = np.array([0, 0, 0, 0, 0, 0, 1, 1, 0, 0])
GROUPS = ("a",) * 5 + ("b",) * 5
LOGITS = np.eye(3)[PREDICTIONS]

# Class 0: precision 6/8, recall 6/7, F1 = 12/15. Class 1: precision 1/2, recall 1/3, F1 = 2/5.
F1 = 0.7 * 12 / 15 + 0.3 * 2 / 5
# Always class 0: precision 7/10, recall 1, F1 = 14/17; class 1 is never predicted and counts as 0.
CONSTANT_F1 = 0.7 * 14 / 17


def test_metrics_by_hand() -> None:
    assert accuracy(PREDICTIONS, LABELS) == pytest.approx(0.7)
    assert weighted_f1(PREDICTIONS, LABELS) == pytest.approx(F1)
    assert weighted_f1(np.zeros_like(LABELS), LABELS) == pytest.approx(CONSTANT_F1)


def test_scores_are_in_percent() -> None:
    scores = score(LOGITS, LABELS, GROUPS, ("no", "yes", "maybe"))
    assert scores.metrics == {"accuracy": 70.0, "f1": pytest.approx(100 * F1, abs=1e-3)}
    assert scores.examples == 10


def test_the_majority_class_is_shown() -> None:
    # here a constant answer is as accurate as the model: without this line nobody would notice
    scores = score(LOGITS, LABELS, GROUPS, ("no", "yes", "maybe"))
    assert scores.majority == {"accuracy": 70.0, "f1": pytest.approx(100 * CONSTANT_F1, abs=1e-3)}


def test_sub_cases_and_recall() -> None:
    scores = score(LOGITS, LABELS, GROUPS, ("no", "yes", "maybe"))
    assert scores.groups == {"a": 100.0, "b": 40.0}
    # a class without examples has no recall, rather than one of 0
    assert scores.recall == {"no": pytest.approx(100 * 6 / 7, abs=1e-3), "yes": pytest.approx(100 / 3, abs=1e-3)}


@pytest.mark.parametrize("groups", [("",) * 10, ()])
def test_examples_without_a_sub_case(groups: tuple[str, ...]) -> None:
    assert score(LOGITS, LABELS, groups, ("no", "yes", "maybe")).groups == {}
