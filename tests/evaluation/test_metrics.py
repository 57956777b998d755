"""Metrics of classes, scores and spans: by hand, and against scikit-learn and scipy."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from refusals import refused
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, matthews_corrcoef

from srnet.evaluation.metrics import measure, score
from srnet.tasks.answers.classes import OF_COUNTS, _counts, _terms
from srnet.tasks.answers.numbers import NUMBERS, _spearman_of
from srnet.tasks.answers.spans import SPANS
from srnet.tasks.base import Metric

# --- classes -------------------------------------------------------------------------------------------------------

# As imbalanced as PAWS: seven of class 0, three of class 1. The model finds six of the seven and one of the three.
LABELS = np.array([0, 0, 0, 0, 0, 0, 0, 1, 1, 1])
PREDICTIONS = np.array([0, 0, 0, 0, 0, 0, 1, 1, 0, 0])
GROUPS = ("a",) * 5 + ("b",) * 5
ZEROS, ONES = np.zeros_like(LABELS), np.ones_like(LABELS)
# Class 0: precision 6/8, recall 6/7, F1 = 12/15. Class 1: precision 1/2, recall 1/3, F1 = 2/5.
F1 = 0.7 * 12 / 15 + 0.3 * 2 / 5
# Always class 0: precision 7/10, recall 1, F1 = 14/17; class 1 is never predicted and counts as 0.
CONSTANT_F1 = 0.7 * 14 / 17
# (6 * 1 - 1 * 2) over the root of the margins 7, 3, 8 and 2
MATTHEWS = 4 / np.sqrt(7 * 3 * 8 * 2)


@pytest.mark.parametrize(
    ("metric", "predictions", "labels", "expected"),
    [
        ("accuracy", PREDICTIONS, LABELS, 0.7),
        ("f1", PREDICTIONS, LABELS, F1),
        ("f1", ZEROS, LABELS, CONSTANT_F1),
        ("positive_f1", PREDICTIONS, LABELS, 2 / 5),
        ("matthews", PREDICTIONS, LABELS, MATTHEWS),
        # three classes: right 4, margins (2, 2, 2) and (3, 0, 3): (4 * 6 - 12) / sqrt((36 - 12) * (36 - 18))
        ("matthews", np.array([0, 0, 0, 2, 2, 2]), np.array([0, 0, 1, 1, 2, 2]), 12 / np.sqrt(24 * 18)),
        # where nothing can be said the score is 0
        ("positive_f1", ZEROS, LABELS, 0.0),
        ("positive_f1", ONES, ZEROS, 0.0),
        ("positive_f1", ZEROS, ZEROS, 0.0),  # class 1 neither occurs nor is predicted
        ("matthews", ZEROS, LABELS, 0.0),
        ("matthews", PREDICTIONS, ONES, 0.0),
        ("matthews", ONES, ONES, 0.0),  # all right, and yet there was nothing to tell apart
    ],
)
def test_metrics_by_hand(metric: Metric, predictions: np.ndarray, labels: np.ndarray, expected: float) -> None:
    assert measure(metric, predictions, labels) == pytest.approx(expected)


def test_counts_by_hand() -> None:
    # right answers, labels and answers by class
    assert _counts(PREDICTIONS, LABELS).tolist() == [[6, 1], [7, 3], [8, 2]]
    assert _counts(np.array([2]), np.array([0])).tolist() == [[0, 0, 0], [1, 0, 0], [0, 0, 1]]


def test_hundreds_of_classes_are_scored_in_little_memory() -> None:
    """A table of true and predicted classes for each row would need 800 MB here."""
    rng = np.random.default_rng(0)
    labels, predictions = rng.integers(0, 1000, 200), rng.integers(0, 1000, 200)
    predictions[:50] = labels[:50]
    terms = _terms(labels, predictions, 1000)
    assert terms.nbytes < 3e6
    assert measure("f1", predictions, labels) == pytest.approx(
        f1_score(labels, predictions, average="weighted", zero_division=0)
    )


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
    names = tuple(f"class {index}" for index in range(classes))
    scores = score(predictions, labels, ("",) * len(labels), names)
    counts = _terms(labels, predictions, classes).sum(axis=0)
    table = confusion_matrix(labels, predictions, labels=range(classes))
    assert counts.tolist() == [table.diagonal().tolist(), table.sum(axis=1).tolist(), table.sum(axis=0).tolist()]
    for metric, wanted in theirs.items():
        assert measure(metric, predictions, labels) == pytest.approx(wanted)
        # with every class, also those without examples; many tables at once; scale does not matter
        assert OF_COUNTS[metric](np.stack([counts, 3 * counts])).tolist() == pytest.approx([wanted, wanted])
        if metric != "positive_f1" or classes == 2:
            assert scores.metrics[metric] == pytest.approx(100 * wanted, abs=1e-4)
    assert ("positive_f1" in scores.metrics) == (classes == 2)
    assert scores.majority["accuracy"] == pytest.approx(100 * np.bincount(labels).max() / len(labels), abs=1e-4)
    assert set(scores.recall) == {names[index] for index in set(labels.tolist())}
    assert scores.examples == len(labels)


def test_the_scores_of_classes_by_hand() -> None:
    scores = score(PREDICTIONS, LABELS, GROUPS, ("no", "yes", "maybe"))
    percent: Any = {name: pytest.approx(100 * each, abs=1e-3) for name, each in (("f1", F1), ("matthews", MATTHEWS))}
    assert scores.metrics == {"accuracy": 70.0, **percent}
    # a constant answer is as accurate as the model: without this line nobody would notice
    assert scores.majority == {"accuracy": 70.0, "f1": pytest.approx(100 * CONSTANT_F1, abs=1e-3), "matthews": 0.0}
    assert scores.groups == {"a": 100.0, "b": 40.0}
    # a class without examples has no recall, rather than one of 0
    assert scores.recall == {"no": pytest.approx(100 * 6 / 7, abs=1e-3), "yes": pytest.approx(100 / 3, abs=1e-3)}
    assert scores.examples == 10
    two = score(PREDICTIONS, LABELS, GROUPS, ("no", "yes"))
    assert list(two.metrics) == list(two.majority) == ["accuracy", "f1", "matthews", "positive_f1"]
    assert two.metrics["positive_f1"] == pytest.approx(40.0)
    assert two.majority["positive_f1"] == 0.0, "the majority is the other class"


@pytest.mark.parametrize("groups", [("",) * 10, ()])
def test_examples_without_a_sub_case(groups: tuple[str, ...]) -> None:
    assert score(PREDICTIONS, LABELS, groups, ("no", "yes", "maybe")).groups == {}


# --- scores and spans ----------------------------------------------------------------------------------------------

# Deviations of the truth: -2 -1 0 1 2, of the answers: -2 0 -1 1 2, so 4 + 0 + 0 + 1 + 4 = 9, and both squares are 10.
TRUTH = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
ESTIMATES = np.array([10.0, 30.0, 20.0, 40.0, 50.0])
correlations = pytest.mark.parametrize("metric", ["pearson", "spearman"])


@correlations
def test_correlations_by_hand(metric: Metric) -> None:
    assert measure(metric, ESTIMATES, TRUTH) == pytest.approx(0.9)
    assert measure(metric, -ESTIMATES, TRUTH) == pytest.approx(-0.9)


def test_ranks_by_hand() -> None:
    # ties share their mean rank: 1.5 1.5 3.5 3.5 against 1 2 3 4: deviations -1 -1 1 1 and -1.5 -.5 .5 1.5, so 4 over
    # sqrt(4 * 5)
    assert measure("spearman", np.array([7.0, 7.0, 9.0, 9.0]), np.arange(4.0)) == pytest.approx(4 / math.sqrt(20))
    assert measure("spearman", np.exp(ESTIMATES), TRUTH) == pytest.approx(0.9), "only the order counts"
    assert measure("pearson", np.exp(ESTIMATES), TRUTH) < 0.8


@correlations
@pytest.mark.parametrize("place", [0.0, 0.1, 1e9, -1e-9])
def test_a_constant_or_a_single_example_has_no_correlation(metric: Metric, place: float) -> None:
    constant = np.full(5, place)
    assert measure(metric, constant, TRUTH) == measure(metric, ESTIMATES, constant) == 0.0
    assert measure(metric, constant[:1], TRUTH[:1]) == 0.0


@correlations
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf], ids=str)
def test_non_finite_answers_are_refused(metric: Metric, value: float) -> None:
    with refused("non-finite"):
        measure(metric, np.array([*ESTIMATES[:4], value]), TRUTH)


@correlations
@pytest.mark.parametrize(("factor", "shift"), [(1e-12, 1e3), (1e200, 0.0), (1e-200, 0.0), (1.0, 1e8)])
def test_neither_scale_nor_place_matters(metric: Metric, factor: float, shift: float) -> None:
    assert measure(metric, factor * ESTIMATES + shift, TRUTH) == pytest.approx(0.9, abs=0.03)


VALUES = st.one_of(
    st.sampled_from([0.0, 0.5, 1.0, 5.0]),  # many ties
    st.floats(-100, 100).map(lambda value: round(value, 3)),
)
PAIRS = st.lists(st.tuples(VALUES, VALUES), min_size=2, max_size=40)


@given(PAIRS)
@example([(1.0, 2.0), (1.0, 3.0)])
@example([(0.1, 0.3)] * 7)
def test_they_agree_with_scipy(pairs: list[tuple[float, float]]) -> None:
    estimates, truth = np.array(pairs).T
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy warns of a constant and gives nan
        theirs = {"pearson": pearsonr(estimates, truth)[0], "spearman": spearmanr(estimates, truth)[0]}
    constant = np.ptp(estimates) == 0.0 or np.ptp(truth) == 0.0
    scores = score(estimates, truth, ("",) * len(truth), ("score",), NUMBERS)
    for metric, value in theirs.items():
        wanted = 0.0 if constant else value
        assert measure(metric, estimates, truth) == pytest.approx(wanted, abs=1e-9)  # type: ignore[arg-type]
        assert scores.metrics[metric] == pytest.approx(100 * wanted, abs=1e-3)


@given(PAIRS, st.integers(0, 2**32 - 1))
def test_the_ranks_of_a_resample_are_ranks_of_its_rows(pairs: list[tuple[float, float]], seed: int) -> None:
    estimates, truth = np.array(pairs).T
    drawn = np.random.default_rng(seed).multinomial(len(pairs), np.full(len(pairs), 1 / len(pairs)), size=3)
    rows = [np.repeat(np.arange(len(pairs)), counts) for counts in drawn]
    wanted = [measure("spearman", estimates[each], truth[each]) for each in rows]
    assert _spearman_of(estimates, truth, drawn).tolist() == pytest.approx(wanted, abs=1e-9)


def test_the_scores_of_numbers_and_spans_by_hand() -> None:
    numbers = score(ESTIMATES.astype(np.float32), TRUTH, ("a", "a", "b", "b", "b"), ("score",), NUMBERS)
    assert numbers.metrics == {"pearson": 90.0, "spearman": 90.0}
    assert numbers.majority == {"pearson": 0.0, "spearman": 0.0}
    found = np.array([[1.0, 1.0], [0.0, 0.5], [0.0, 0.0], [1.0, 1.0]])
    spans = score(found, np.zeros((4, 2), dtype=np.int64), ("",) * 4, ("start", "end"), SPANS)
    assert spans.metrics == {"exact_match": 50.0, "span_f1": 62.5}
    assert spans.majority == {"exact_match": 0.0, "span_f1": 0.0}
    for each, examples in ((numbers, 5), (spans, 4)):
        assert (each.groups, each.recall, each.examples) == ({}, {}, examples), "only classes have an accuracy"
