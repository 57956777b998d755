"""Scores by hand, and against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, matthews_corrcoef

from srnet.evaluation.metrics import measure, score
from srnet.tasks.answers.classes import OF_COUNTS, confusion
from srnet.tasks.base import Metric

# As imbalanced as PAWS: seven of class 0, three of class 1. The model finds six of the seven and one of the three.
LABELS = np.array([0, 0, 0, 0, 0, 0, 0, 1, 1, 1])
PREDICTIONS = np.array([0, 0, 0, 0, 0, 0, 1, 1, 0, 0])
GROUPS = ("a",) * 5 + ("b",) * 5

# Class 0: precision 6/8, recall 6/7, F1 = 12/15. Class 1: precision 1/2, recall 1/3, F1 = 2/5.
F1 = 0.7 * 12 / 15 + 0.3 * 2 / 5
# Always class 0: precision 7/10, recall 1, F1 = 14/17; class 1 is never predicted and counts as 0.
CONSTANT_F1 = 0.7 * 14 / 17
# (6 * 1 - 1 * 2) over the root of the margins 7, 3, 8 and 2
MATTHEWS = 4 / np.sqrt(7 * 3 * 8 * 2)


def test_metrics_by_hand() -> None:
    assert measure("accuracy", PREDICTIONS, LABELS) == pytest.approx(0.7)
    assert measure("f1", PREDICTIONS, LABELS) == pytest.approx(F1)
    assert measure("f1", np.zeros_like(LABELS), LABELS) == pytest.approx(CONSTANT_F1)
    assert measure("positive_f1", PREDICTIONS, LABELS) == pytest.approx(2 / 5)
    assert measure("matthews", PREDICTIONS, LABELS) == pytest.approx(MATTHEWS)


def test_where_nothing_can_be_said_the_score_is_nothing() -> None:
    zeros, ones = np.zeros_like(LABELS), np.ones_like(LABELS)
    for metric, predictions, labels in (
        ("positive_f1", zeros, LABELS),
        ("positive_f1", ones, zeros),
        ("positive_f1", zeros, zeros),  # class 1 neither occurs nor is predicted
        ("matthews", zeros, LABELS),
        ("matthews", PREDICTIONS, ones),
        ("matthews", ones, ones),  # all right, and yet there was nothing to tell apart
    ):
        assert measure(metric, predictions, labels) == 0.0  # type: ignore[arg-type]


def test_the_matthews_correlation_of_three_classes_by_hand() -> None:
    labels, predictions = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 0, 0, 2, 2, 2])
    assert confusion(predictions, labels).tolist() == [[2, 0, 0], [1, 0, 1], [0, 0, 2]]
    # right 4, margins (2, 2, 2) and (3, 0, 3): (4 * 6 - 12) / sqrt((36 - 12) * (36 - 18))
    assert measure("matthews", predictions, labels) == pytest.approx(12 / np.sqrt(24 * 18))


def test_confusion_by_hand() -> None:
    # rows are the true class, columns the predicted one
    assert confusion(PREDICTIONS, LABELS).tolist() == [[6, 1], [2, 1]]
    assert confusion(PREDICTIONS, LABELS, 3).tolist() == [[6, 1, 0], [2, 1, 0], [0, 0, 0]]
    assert confusion(np.array([2]), np.array([0])).tolist() == [[0, 0, 1], [0, 0, 0], [0, 0, 0]]


def test_metrics_are_functions_of_the_confusion_counts() -> None:
    counts = np.array([[[6, 1], [2, 1]], [[7, 0], [3, 0]], [[0, 7], [3, 0]]])  # the last one is always wrong
    assert OF_COUNTS["accuracy"](counts).tolist() == pytest.approx([0.7, 0.7, 0.0])
    assert OF_COUNTS["f1"](counts).tolist() == pytest.approx([F1, CONSTANT_F1, 0.0])


def test_a_class_that_never_occurs_changes_nothing() -> None:
    for metric in OF_COUNTS:
        two, five = (float(OF_COUNTS[metric](confusion(PREDICTIONS, LABELS, classes))) for classes in (2, 5))
        assert two == five == measure(metric, PREDICTIONS, LABELS)


@st.composite
def answers(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    """Predictions and labels out of up to five classes, some of which may never occur."""
    classes, size = draw(st.integers(2, 5)), draw(st.integers(1, 40))
    each = st.lists(st.integers(0, classes - 1), min_size=size, max_size=size)
    return np.array(draw(each)), np.array(draw(each)), classes


@given(answers())
def test_they_agree_with_scikit_learn(made: tuple[np.ndarray, np.ndarray, int]) -> None:
    predictions, labels, classes = made
    theirs: dict[Metric, float] = {
        "accuracy": accuracy_score(labels, predictions),
        "f1": f1_score(labels, predictions, average="weighted", zero_division=0),
        "positive_f1": f1_score(labels == 1, predictions == 1, zero_division=0),
        "matthews": matthews_corrcoef(labels, predictions),
    }
    counts = confusion(predictions, labels, classes)
    assert counts.tolist() == confusion_matrix(labels, predictions, labels=range(classes)).tolist()
    for metric, wanted in theirs.items():
        assert measure(metric, predictions, labels) == pytest.approx(wanted)
        assert float(OF_COUNTS[metric](counts)) == pytest.approx(wanted), (
            "with every class, also those without examples"
        )
        stacked = OF_COUNTS[metric](np.stack([counts, 3 * counts]))
        assert stacked.tolist() == pytest.approx([wanted, wanted]), "many tables at once; scale does not matter"
    assert measure("accuracy", predictions, labels) == pytest.approx(theirs["accuracy"])
    assert measure("f1", predictions, labels) == pytest.approx(theirs["f1"])


@given(answers())
def test_scores_agree_with_scikit_learn(made: tuple[np.ndarray, np.ndarray, int]) -> None:
    predictions, labels, classes = made
    names = tuple(f"class {index}" for index in range(classes))
    scores = score(predictions, labels, ("",) * len(labels), names)
    assert scores.metrics["accuracy"] == pytest.approx(100 * accuracy_score(labels, predictions), abs=1e-4)
    found = f1_score(labels, predictions, average="weighted", zero_division=0)
    assert scores.metrics["f1"] == pytest.approx(100 * found, abs=1e-4)
    most = np.bincount(labels).max() / len(labels)
    assert scores.majority["accuracy"] == pytest.approx(100 * most, abs=1e-4)
    assert scores.metrics["matthews"] == pytest.approx(100 * matthews_corrcoef(labels, predictions), abs=1e-4)
    assert ("positive_f1" in scores.metrics) == (classes == 2)
    assert set(scores.recall) == {names[index] for index in set(labels.tolist())}
    assert scores.examples == len(labels)


def test_scores_are_in_percent() -> None:
    scores = score(PREDICTIONS, LABELS, GROUPS, ("no", "yes", "maybe"))
    assert scores.metrics == {
        "accuracy": 70.0,
        "f1": pytest.approx(100 * F1, abs=1e-3),
        "matthews": pytest.approx(100 * MATTHEWS, abs=1e-3),
    }
    assert scores.examples == 10


def test_two_classes_also_have_a_positive_one() -> None:
    scores = score(PREDICTIONS, LABELS, GROUPS, ("no", "yes"))
    assert list(scores.metrics) == list(scores.majority) == ["accuracy", "f1", "matthews", "positive_f1"]
    assert scores.metrics["positive_f1"] == pytest.approx(40.0)
    assert scores.majority["positive_f1"] == 0.0, "the majority is the other class"


def test_the_majority_class_is_shown() -> None:
    # here a constant answer is as accurate as the model: without this line nobody would notice
    scores = score(PREDICTIONS, LABELS, GROUPS, ("no", "yes", "maybe"))
    assert scores.majority == {"accuracy": 70.0, "f1": pytest.approx(100 * CONSTANT_F1, abs=1e-3), "matthews": 0.0}


def test_sub_cases_and_recall() -> None:
    scores = score(PREDICTIONS, LABELS, GROUPS, ("no", "yes", "maybe"))
    assert scores.groups == {"a": 100.0, "b": 40.0}
    # a class without examples has no recall, rather than one of 0
    assert scores.recall == {"no": pytest.approx(100 * 6 / 7, abs=1e-3), "yes": pytest.approx(100 / 3, abs=1e-3)}


@pytest.mark.parametrize("groups", [("",) * 10, ()])
def test_examples_without_a_sub_case(groups: tuple[str, ...]) -> None:
    assert score(PREDICTIONS, LABELS, groups, ("no", "yes", "maybe")).groups == {}
