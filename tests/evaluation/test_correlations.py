"""Correlations of scores, by hand and against scipy, and the metrics of spans."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr

from srnet.core.errors import UserError
from srnet.evaluation.metrics import measure, score
from srnet.tasks.answers.numbers import NUMBERS, spearman_of
from srnet.tasks.answers.spans import SPANS
from srnet.tasks.base import Metric

# Deviations of x: -2 -1 0 1 2, of y: -2 0 -1 1 2, so xy = 4 + 0 + 0 + 1 + 4 = 9 and both squares are 10.
LABELS = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
ANSWERS = np.array([10.0, 30.0, 20.0, 40.0, 50.0])
CORRELATIONS: tuple[Metric, ...] = ("pearson", "spearman")


@pytest.mark.parametrize("metric", CORRELATIONS)
def test_correlations_by_hand(metric: Metric) -> None:
    assert measure(metric, ANSWERS, LABELS) == pytest.approx(0.9)
    assert measure(metric, -ANSWERS, LABELS) == pytest.approx(-0.9)


def test_ties_share_their_mean_rank() -> None:
    # ranks 1.5 1.5 3.5 3.5 against 1 2 3 4: deviations -1 -1 1 1 and -1.5 -.5 .5 1.5, so 4 over sqrt(4 * 5)
    assert measure("spearman", np.array([7.0, 7.0, 9.0, 9.0]), np.arange(4.0)) == pytest.approx(4 / math.sqrt(20))


def test_only_the_order_counts_for_spearman() -> None:
    assert measure("spearman", np.exp(ANSWERS), LABELS) == pytest.approx(0.9)
    assert measure("pearson", np.exp(ANSWERS), LABELS) < 0.8


@pytest.mark.parametrize("metric", CORRELATIONS)
@pytest.mark.parametrize("place", [0.0, 0.1, 1e9, -1e-9])
def test_a_constant_says_nothing(metric: Metric, place: float) -> None:
    constant = np.full(5, place)
    assert measure(metric, constant, LABELS) == measure(metric, ANSWERS, constant) == 0.0
    assert measure(metric, constant[:1], LABELS[:1]) == 0.0, "and neither does a single example"


@pytest.mark.parametrize("metric", CORRELATIONS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf], ids=str)
def test_answers_that_are_no_numbers_are_refused(metric: Metric, value: float) -> None:
    with pytest.raises(UserError, match="non-finite"):
        measure(metric, np.array([*ANSWERS[:4], value]), LABELS)


@pytest.mark.parametrize("metric", CORRELATIONS)
@pytest.mark.parametrize(("factor", "shift"), [(1e-12, 1e3), (1e200, 0.0), (1e-200, 0.0), (1.0, 1e8)])
def test_neither_scale_nor_place_matters(metric: Metric, factor: float, shift: float) -> None:
    assert measure(metric, factor * ANSWERS + shift, LABELS) == pytest.approx(0.9, abs=0.03)


VALUES = st.one_of(
    st.sampled_from([0.0, 0.5, 1.0, 5.0]),  # many ties
    st.floats(-100, 100).map(lambda value: round(value, 3)),
)
PAIRS = st.lists(st.tuples(VALUES, VALUES), min_size=2, max_size=40)


@given(PAIRS)
@example([(1.0, 2.0), (1.0, 3.0)])
@example([(0.1, 0.3)] * 7)
def test_they_agree_with_scipy(pairs: list[tuple[float, float]]) -> None:
    answers, labels = np.array(pairs).T
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy warns of a constant and gives nan
        theirs = {"pearson": pearsonr(answers, labels)[0], "spearman": spearmanr(answers, labels)[0]}
    constant = np.ptp(answers) == 0.0 or np.ptp(labels) == 0.0
    scores = score(answers, labels, ("",) * len(labels), ("score",), NUMBERS)
    for metric in CORRELATIONS:
        wanted = 0.0 if constant else theirs[metric]
        assert measure(metric, answers, labels) == pytest.approx(wanted, abs=1e-9)
        assert scores.metrics[metric] == pytest.approx(100 * wanted, abs=1e-3)


@given(PAIRS, st.integers(0, 2**32 - 1))
def test_the_ranks_of_a_resample_are_ranks_of_its_rows(pairs: list[tuple[float, float]], seed: int) -> None:
    answers, labels = np.array(pairs).T
    drawn = np.random.default_rng(seed).multinomial(len(pairs), np.full(len(pairs), 1 / len(pairs)), size=3)
    rows = [np.repeat(np.arange(len(pairs)), counts) for counts in drawn]
    wanted = [measure("spearman", answers[each], labels[each]) for each in rows]
    assert spearman_of(answers, labels, drawn).tolist() == pytest.approx(wanted, abs=1e-9)


def test_the_scores_of_a_task_that_asks_for_numbers() -> None:
    scores = score(ANSWERS.astype(np.float32), LABELS, ("a", "a", "b", "b", "b"), ("score",), NUMBERS)
    assert scores.metrics == {"pearson": 90.0, "spearman": 90.0}
    assert scores.majority == {"pearson": 0.0, "spearman": 0.0}
    assert scores.groups == scores.recall == {}, "there is no accuracy of a number"
    assert scores.examples == 5


def test_the_scores_of_spans() -> None:
    found = np.array([[1.0, 1.0], [0.0, 0.5], [0.0, 0.0], [1.0, 1.0]])
    scores = score(found, np.zeros((4, 2), dtype=np.int64), ("",) * 4, ("start", "end"), SPANS)
    assert scores.metrics == {"exact_match": 50.0, "span_f1": 62.5}
    assert scores.majority == {"exact_match": 0.0, "span_f1": 0.0}
    assert scores.groups == scores.recall == {}
    assert scores.examples == 4
