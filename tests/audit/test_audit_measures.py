"""Loyalty, calibration, deciles, overlap and disagreements, each against values computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from audited import NLI, judged, split_of, task_of
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.spatial.distance import jensenshannon

from srnet.audit.report import (
    CONFIDENCE,
    SUPPORT,
    _Calibration,
    _calibrations,
    _deciles,
    _dependences,
    _Loyalty,
    _shortcut_sides,
    loyalty,
    sub_cases,
)
from srnet.audit.rows import (
    Judged,
    _predictions_of,
    disagreements,
    judge_split,
    split_scores,
    word_overlap,
    worst_first,
)
from srnet.evaluation.significance import Interval, score_text
from srnet.tasks.splits import Coarse, Split

# --- loyalty -------------------------------------------------------------------------------------------------------


def loyalty_of(a: list[list[float]], b: list[list[float]]) -> _Loyalty:
    (found,) = loyalty(judged([0] * len(a), a, b))
    return found


def test_loyalty_by_hand() -> None:
    """m = (3/4, 1/4); KL(p|m) = (ln(2/3) + ln 2)/2, KL(q|m) = ln(4/3). The authors use scipy's default, base e."""
    p, q = [0.5, 0.5], [1.0, 0.0]
    opposite = [1.0, 0.0], [0.0, 1.0]
    one = 1.0 - math.sqrt(((math.log(2 / 3) + math.log(2)) / 2 + math.log(4 / 3)) / 2)
    least = 1.0 - math.sqrt(math.log(2))
    assert one == pytest.approx(1.0 - jensenshannon(p, q), abs=1e-12)
    for a, b, label, probability in (
        ([p], [q], 1.0, one),
        ([opposite[0]], [opposite[1]], 0.0, least),
        ([p, opposite[0]], [q, opposite[1]], 0.5, (one + least) / 2),
    ):
        assert loyalty_of(a, b) == _Loyalty("dev", label, pytest.approx(probability, abs=1e-12))


LOGITS = arrays.arrays(np.float64, (7, 3), elements=st.floats(-30, 30, width=32))


@given(LOGITS, LOGITS)
def test_loyalty_is_a_share_and_a_model_is_loyal_to_itself(one: np.ndarray, other: np.ndarray) -> None:
    split = split_of([("a", "b")] * 7, [0] * 7)
    task = task_of(split, labels=NLI)
    there, back, itself = (
        next(loyalty(judge_split(task, split, models))) for models in ((one, other), (other, one), (one, one))
    )
    assert 1.0 - math.sqrt(math.log(2)) <= there.probability + 1e-12 <= 1.0 + 1e-12
    assert there.probability == pytest.approx(back.probability, abs=1e-12)
    assert (itself.label, itself.probability) == (1.0, 1.0)


# --- calibration ---------------------------------------------------------------------------------------------------


def calibration_of(confidence: list[float], right: list[bool]) -> _Calibration:
    """The calibration of a model that always answers with the second class."""
    (found,) = _calibrations(judged([int(each) for each in right], [[1 - each, each] for each in confidence]))
    return found


def test_calibration_error_by_hand() -> None:
    """Bins of 1, 2 and 1 rows with gaps 0.45, 0.35 and 0.05: (0.45 + 0.70 + 0.05) / 4."""
    found = calibration_of([0.55, 0.85, 0.85, 0.95], [True, False, True, True])
    assert [(each.low, each.high, each.rows, each.accuracy) for each in found.bins] == [
        (0.5, 0.6, 1, 1.0),
        (0.8, 0.9, 2, 0.5),
        (0.9, 1.0, 1, 1.0),
    ]
    assert found.error == pytest.approx(0.3, abs=1e-12)


def test_a_value_on_an_edge_belongs_to_the_bin_below() -> None:
    (bin,) = calibration_of([0.6], [True]).bins
    assert (bin.low, bin.high) == (0.5, 0.6)


@given(st.lists(st.tuples(st.floats(0.51, 1.0), st.booleans()), min_size=1, max_size=20))
def test_calibration_error_is_a_share_and_all_rows_are_in_a_bin(rows: list[tuple[float, bool]]) -> None:
    found = calibration_of(*map(list, zip(*rows, strict=True)))
    assert sum(each.rows for each in found.bins) == len(rows)
    assert 0.0 <= found.error <= 1.0


# --- dependence on the shortcut ------------------------------------------------------------------------------------


def test_deciles_by_hand() -> None:
    values = np.random.default_rng(0).permutation(20).astype(float)
    assert _deciles(values).tolist() == (values // 2).tolist(), "two of twenty different values in each"
    assert _deciles(np.array([0.0, 0.0, 1.0])).tolist() == [0, 0, 1]
    assert _deciles(np.array([1.0] * 15 + [2.0] * 5)).tolist() == [0] * 15 + [1] * 5


@given(arrays.arrays(np.float64, st.integers(1, 60), elements=st.floats(0, 1, width=16)))
def test_deciles_keep_the_order_and_equal_values_together(values: np.ndarray) -> None:
    numbers = _deciles(values)
    assert numbers.max() < 10
    order = np.argsort(values, kind="stable")
    assert (np.diff(numbers[order]) >= 0).all()
    for value in values:
        assert len(set(numbers[values == value].tolist())) == 1


def test_over_bias_confidence_by_hand() -> None:
    """The shortcut says 1 with 0.9 twice, and with 0.6 twice; A follows it, B knows the labels."""
    bias = np.array([[0.1, 0.9], [0.1, 0.9], [0.4, 0.6], [0.4, 0.6]])
    labels = [1, 0, 0, 0]
    follows, knows = [[0.2, 0.8]] * 4, [[0.2, 0.8], [0.8, 0.2], [0.8, 0.2], [0.8, 0.2]]
    rows = judged(labels, follows, knows, bias=bias)
    support, found = _dependences(rows)
    assert [each.over for each in (support, found)] == [SUPPORT, CONFIDENCE]
    by_support = [(each.low, each.rows, each.accuracy, each.bias_accuracy) for each in support.bins]
    assert by_support == [(0.1, 1, (0.0, 1.0), 0.0), (0.4, 2, (0.0, 1.0), 0.0), (0.9, 1, (1.0, 1.0), 1.0)]
    low, high = found.bins
    assert (low.rows, low.low, low.accuracy, low.follows, low.bias_accuracy) == (2, 0.6, (0.0, 1.0), (1.0, 0.0), 0.0)
    assert (high.rows, high.accuracy, high.follows, high.bias_accuracy) == (2, (0.5, 1.0), (1.0, 0.5), 0.5)
    assert (high.gold, high.answers) == ((0.5, 0.5), ((0.0, 1.0), (0.5, 0.5)))
    (sides,) = _shortcut_sides(rows)
    assert (sides.rows_right, sides.where_right, sides.where_wrong) == (1, (1.0, 1.0), (0.0, 1.0))


def test_where_the_shortcut_is_never_wrong_there_is_no_accuracy() -> None:
    (sides,) = _shortcut_sides(judged([1], [[0.2, 0.8]], bias=np.array([[0.1, 0.9]])))
    assert sides.where_wrong == (None,)


PAIRS = [
    ("the cat sat on the mat", "the dog sat"),  # 2 of 3
    ("the cat", "The CAT!"),  # all, whatever their case
    ("the cat", "a dog"),
    ("", "a dog"),
    ("the cat", ""),
    ("one two three four five six seven eight nine ten", "one b c d e f g h i j"),  # 1 of 10
]


def test_word_overlap_by_hand() -> None:
    a, b = zip(*PAIRS, strict=True)
    assert word_overlap(a, b).tolist() == [2 / 3, 1.0, 0.0, 0.0, 0.0, 0.1]


def judged_by(split: Split, *logits: np.ndarray) -> Judged:
    return judge_split(task_of(split), split, logits)


def test_over_word_overlap_has_the_low_end_and_full_overlap_apart() -> None:
    (found,) = _dependences(judged_by(split_of(PAIRS, [0] * 6), np.array([[1.0, 0.0], [0.0, 1.0]] * 3)))
    assert [(each.low, each.rows) for each in found.bins] == [(0.0, 3), (0.1, 1), (2 / 3, 1), (1.0, 1)]
    assert [each.accuracy for each in found.bins] == [(2 / 3,), (0.0,), (1.0,), (0.0,)]
    assert list(_dependences(judged_by(split_of([("a", "")] * 2, [0, 1]), np.eye(2)))) == [], "single texts"


# --- answers and scores --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("decision", "answer"), [("argmax", 0), ("sum", 1)])
def test_three_way_answers_on_a_two_way_set_follow_its_decision(decision: str, answer: int) -> None:
    coarse = Coarse(("entailment", "non-entailment"), (0, 1, 1), decision)  # type: ignore[arg-type]
    split = Split("hans", "OOD", ("1",), ("a",), ("b",), np.array([1]), ("",), coarse)
    found = _predictions_of(split, np.log([[0.4, 0.3, 0.3]]))
    assert found.answers.tolist() == [answer]
    np.testing.assert_allclose(found.probabilities, [[0.4, 0.6]])
    np.testing.assert_allclose(found.confidence, [(0.4, 0.6)[answer]])


def test_scores_and_their_difference() -> None:
    right, wrong = [0.1, 0.9], [0.9, 0.1]
    found = split_scores(judged([1] * 10, [wrong] * 5 + [right] * 5, [right] * 10), "accuracy")
    assert [each.difference for each in found.scores] == [50.0, 100.0]
    assert found.difference is not None
    assert found.difference.difference == 50.0
    assert found.difference.low > 0.0
    assert found.difference.seeds == 1
    assert found.majority == 100.0
    assert split_scores(judged([1, 0], [right, right]), "accuracy").difference is None


@pytest.mark.parametrize(("right", "text"), [(29, "96.7 [90.2, 100.0]"), (1, "3.3 [0.0, 9.8]")])
def test_the_interval_of_a_score_stays_within_its_range(right: int, text: str) -> None:
    """sqrt(p (1 - p) / 30) = 3.28 points; 1.96 of them reach beyond the range."""
    share = right / 30
    error = 100 * math.sqrt(share * (1 - share) / 30)
    assert score_text(Interval(100 * share, 0.0, error, 1)) == text


def test_sub_cases_count_every_level() -> None:
    split = split_of([("a", "b")] * 4, [0, 0, 1, 1], groups=["x > one", "x > two", "x > two", "y"])
    logits = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    assert [(each.name, each.rows, each.right, each.accuracy) for each in sub_cases(judged_by(split, logits))] == [
        ("x", 3, (2,), (2 / 3,)),
        ("x > one", 1, (1,), (1.0,)),
        ("x > two", 2, (1,), (0.5,)),
        ("y", 1, (1,), (1.0,)),
    ]


# --- disagreements -------------------------------------------------------------------------------------------------


def test_disagreements_are_ranked_by_how_confidently_one_is_wrong() -> None:
    a = [[0.3, 0.7], [0.9, 0.1], [0.45, 0.55], [0.05, 0.95]]
    b = [[0.8, 0.2], [0.2, 0.8], [0.6, 0.4], [0.04, 0.96]]
    two, one = judged([1, 1, 0, 0], a, b), judged([1, 0], [[0.9, 0.1], [0.8, 0.2]])
    assert [(each.row, each.blame) for each in disagreements([two])] == [(1, 0.9), (0, 0.8), (2, 0.55)]
    assert [each.row for each in worst_first([two])] == [1, 0, 2, 3], "in row 3 both are wrong, and agree"
    assert [(each.row, each.blame) for each in disagreements([one])] == [(0, 0.9)], "one model against the labels"


TABLES = arrays.arrays(np.float64, (12, 2), elements=st.floats(-5, 5, width=32))


@given(TABLES, TABLES, st.lists(st.integers(0, 1), min_size=12, max_size=12))
def test_the_order_is_by_blame_and_holds_each_row_once(a: np.ndarray, b: np.ndarray, labels: list[int]) -> None:
    split = split_of([("a", "b")] * 12, labels)
    found = list(worst_first([judged_by(split, a, b)] * 2))
    assert sorted((each.place, each.row) for each in found) == [(n, row) for n in (0, 1) for row in range(12)]
    differ = [each.blame for each in found if each.disagree]
    assert differ == sorted(differ, reverse=True)
    assert [each.disagree for each in found] == sorted((each.disagree for each in found), reverse=True)
