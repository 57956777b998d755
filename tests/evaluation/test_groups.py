"""Worst-group and pair accuracy: by hand, invariances, and how often their intervals cover the truth."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srnet.evaluation.evidence import Evidence
from srnet.evaluation.groups import (
    FEWEST,
    given_groups,
    lowest,
    pair_contrast,
    pair_numbers,
    pairs_right,
    shortcut_groups,
    too_small,
    widened,
    worst_group,
)
from srnet.evaluation.significance import AsymmetricInterval, Interval, points, score_text
from srnet.tasks.base import Task
from srnet.tasks.splits import Split

# --- the interval --------------------------------------------------------------------------------------------------


def test_the_difference_of_two_figures_by_hand() -> None:
    # MOVER: below sqrt(3^2 + 4^2) = 5, above sqrt(5^2 + 12^2) = 13
    ours, theirs = AsymmetricInterval(60.0, 57.0, 65.0, 3), AsymmetricInterval(50.0, 38.0, 54.0, 3)
    difference = ours.minus(theirs)
    assert (difference.difference, difference.low, difference.high) == pytest.approx((10.0, 5.0, 23.0))
    assert str(difference) == points(difference) == "+10.0 [+5.0, +23.0]"
    assert str(replace(difference, seeds=1)) == "+10.0 [+5.0, +23.0] (one seed: examples only)"
    assert score_text(replace(ours, low=-3.0)) == "60.0 [0.0, 65.0]"
    assert ours.to_json() == {"value": 60.0, "low": 57.0, "high": 65.0, "level": 0.95}


def test_the_difference_of_symmetric_intervals_is_that_of_independent_errors() -> None:
    one, other = Interval(60.0, 0.0, 3.0, 3), Interval(50.0, 0.0, 4.0, 3)
    ours, theirs = (AsymmetricInterval(each.difference, each.low, each.high, 3) for each in (one, other))
    both = Interval(10.0, 0.0, 5.0, 3)
    assert (ours.minus(theirs).low, ours.minus(theirs).high) == pytest.approx((both.low, both.high))


ENDS = st.tuples(st.floats(-50, 50), st.floats(0, 20), st.floats(0, 20)).map(
    lambda each: AsymmetricInterval(each[0], each[0] - each[1], each[0] + each[2], 3)
)


@given(ENDS, ENDS)
def test_a_difference_turns_around_with_its_sides(one: AsymmetricInterval, other: AsymmetricInterval) -> None:
    there, back = one.minus(other), other.minus(one)
    assert (there.difference, there.low, there.high) == pytest.approx((-back.difference, -back.high, -back.low))
    assert there.low <= there.difference <= there.high


def test_the_lowest_accuracy_by_hand() -> None:
    # two groups: upper ends have tails of 2.5 % / 2 (z = 2.2414), lower ends of 2.5 % (z = 1.9600)
    found = lowest({"easy": Interval(70.0, 0.0, 10.0, 3), "hard": Interval(60.0, 0.0, 1.0, 3)})
    assert found.name == "hard"
    assert (found.accuracy.difference, found.accuracy.seeds, found.accuracy.level) == (60.0, 3, 0.95)
    assert found.accuracy.low == pytest.approx(70 - 19.600, abs=1e-3), "the other group may be the worst"
    assert found.accuracy.high == pytest.approx(60 + 2.2414, abs=1e-3)
    alone = Interval(60.0, 0.5, 1.0, 3)
    only = lowest({"hard": alone}).accuracy
    assert (only.low, only.high) == (alone.low, pytest.approx(alone.high)), "one group needs no correction"


# --- groups --------------------------------------------------------------------------------------------------------


def test_groups_by_hand() -> None:
    labels, right = np.array([0, 1, 0, 1, 1]), np.array([True, False, False, False, False])
    found = {name: rows.tolist() for name, rows in shortcut_groups(labels, ("no", "yes"), right).items()}
    assert found == {"no, shortcut right": [0], "no, shortcut wrong": [2], "yes, shortcut wrong": [1, 3, 4]}
    given = given_groups(("a > x", "b", "", "a > y", " > z"))
    assert {name: rows.tolist() for name, rows in given.items()} == {"a": [0, 3], "b": [1]}


def test_the_worst_group_by_hand() -> None:
    """The means over seeds are compared, not the seeds: of b they are 50 and 70 %, of a 40 and 90 %."""
    labels, groups = np.zeros(30, np.int64), {"a": np.arange(10), "b": np.arange(10, 20), "few": np.arange(20, 29)}
    first, second = (np.ones(30, np.int64) for _ in range(2))
    first[:4], second[:9], first[10:15], second[10:17] = 0, 0, 0, 0
    found = worst_group([first, second], labels, groups)
    assert found is not None
    assert (found.name, found.accuracy.difference) == ("b", pytest.approx(60.0))
    assert too_small(groups) == ("few",), "nine rows, all of them wrong, are left out"
    assert len(groups["few"]) == FEWEST - 1
    assert worst_group([first], labels, {"a": np.arange(10)}) is None, "one group is no worst one"
    assert worst_group([first], labels, {"x": np.arange(9), "y": np.arange(9, 18)}) is None


ANSWERS = st.lists(st.lists(st.booleans(), min_size=60, max_size=60), min_size=1, max_size=3)


@settings(max_examples=30, deadline=None)
@given(ANSWERS, st.permutations(range(3)))
def test_the_worst_group_is_below_the_mean_and_names_change_nothing(rows: Any, order: list[int]) -> None:
    answers, labels = [np.array(each, np.int64) for each in rows], np.ones(60, np.int64)
    groups = {f"g{n}": np.arange(20 * n, 20 * n + 20) for n in range(3)}
    found = worst_group(answers, labels, groups, samples=50)
    again = worst_group(answers, labels, {f"h{n}": groups[f"g{n}"] for n in order}, samples=50)
    assert found is not None
    assert again is not None
    assert found.accuracy == again.accuracy
    lowest_mean = min(100 * np.mean([each[part] for each in answers]) for part in groups.values())
    assert found.accuracy.difference == pytest.approx(lowest_mean)
    assert found.accuracy.difference <= 100 * np.mean(answers) + 1e-9
    assert found.accuracy.low <= found.accuracy.difference <= found.accuracy.high
    swapped = worst_group([1 - each for each in answers], 1 - labels, groups, samples=50)
    assert swapped is not None
    assert swapped.accuracy == found.accuracy, "what the classes are called does not matter"


# --- pairs ---------------------------------------------------------------------------------------------------------


def test_a_group_without_a_right_answer_has_an_interval() -> None:
    # 40 rows count as if ten were right: sqrt(.25 * .75 / 40) = 6.8465 %; z = 2.2414 for one of two groups
    labels, groups = np.zeros(80, np.int64), {"a": np.arange(40), "b": np.arange(40, 80)}
    found = worst_group([np.repeat([1, 0], 40)] * 3, labels, groups)
    assert found is not None
    assert (found.accuracy.difference, found.accuracy.high) == (0.0, pytest.approx(2.2414 * 6.8465, abs=1e-3))
    assert widened(Interval(50.0, 1.0, 7.0, 3), 40) == Interval(50.0, 1.0, 7.0, 3), "others stay as they are"
    assert widened(Interval(0.0, 0.0, 0.0, 3), 10).example_error == pytest.approx(100 * np.sqrt(0.25 / 10))


def test_pairs_by_hand() -> None:
    pairs = pair_numbers(("p", "", "q", "p", "alone", "q", " ", " ", "q"))
    assert pairs.tolist() == [0, -1, 1, 0, -1, 1, -1, -1, 1], "empty cells and single rows are in no pair"
    right = np.array([True, False, True, True, False, False, False, False, True])
    assert pairs_right(right, pairs).tolist() == [1, 0], "one wrong row of three makes q wrong"


def test_pair_accuracy_by_hand() -> None:
    """Ten pairs: of the first seed 6 are right, of the second 8, and every row of the other system."""
    pairs, labels = np.repeat(np.arange(10), 2), np.zeros(20, np.int64)
    first, second = labels.copy(), labels.copy()
    first[[0, 3, 5, 6, 7]], second[[0, 1, 2]] = 1, 1
    level = pair_contrast([(1.0, [first, second])], labels, pairs)
    assert level is not None
    # by seed 60 and 80: the standard deviation is 14.14, over the root of two seeds 10
    assert (level.difference, level.seed_error) == (pytest.approx(70.0), pytest.approx(10.0))
    # means of pairs over seeds: 0, 0, .5, .5 and six times 1. Their variance is .65 - .7^2 = .16: sqrt(.16 / 10)
    assert level.example_error == pytest.approx(12.65, rel=0.07), "1000 resamples"
    difference = pair_contrast([(1.0, [first, second]), (-1.0, [labels, labels])], labels, pairs)
    assert difference is not None
    assert difference.difference == pytest.approx(-30.0)
    assert pair_contrast([(1.0, [first])], labels, np.where(pairs < 9, pairs, -1)) is None, "nine pairs are too few"


def test_pairs_that_are_all_right_have_an_interval() -> None:
    """40 pairs: at least the error of ten wrong ones, sqrt(.25 * .75 / 40) = 6.85 points."""
    pairs, labels = np.repeat(np.arange(40), 2), np.zeros(80, np.int64)
    level = pair_contrast([(1.0, [labels, labels, labels])], labels, pairs)
    assert level
    assert (level.difference, level.example_error) == pytest.approx((100.0, 6.847), abs=1e-3)
    none = pair_contrast([(1.0, [labels]), (-1.0, [labels])], labels, pairs)
    assert none
    assert none.example_error == 0.0, "the same answers do not differ"


CELLS = st.lists(st.sampled_from(["", "a", "b", "c", "d"]), min_size=1, max_size=30)


@given(CELLS, st.data())
def test_pairs_are_no_better_than_their_rows_and_have_no_order(cells: list[str], data: st.DataObject) -> None:
    right = np.array(data.draw(st.lists(st.booleans(), min_size=len(cells), max_size=len(cells))), bool)
    pairs = pair_numbers(cells)
    found = pairs_right(right, pairs)
    for number in range(len(found)):
        assert found[number] == min(right[pairs == number])
    order = np.array(data.draw(st.permutations(range(len(cells)))))
    again = pairs_right(right[order], pair_numbers([cells[row] for row in order]))
    assert sorted(again.tolist()) == sorted(found.tolist())


# --- evidence ------------------------------------------------------------------------------------------------------


class Named(NamedTuple):
    key: str


def evidence(answers: dict[str, np.ndarray], right: np.ndarray | None = None, **changes: Any) -> Evidence[Named]:
    """On a dev set of 40 rows: 20 of each label, two groups, and a pair for every two rows."""
    rows = tuple(f"dev-{n}" for n in range(40))
    labels = np.repeat([0, 1], 20)
    pairs = {"pair": tuple(str(n // 2) for n in range(40))}
    groups = tuple("ab"[n % 2] for n in range(40))
    dev = replace(Split("dev", "ID", rows, rows, ("",) * 40, labels, groups, columns=pairs), **changes)
    task = Task("made-up", ("no", "yes"), "accuracy", "words", replace(dev, name="train"), dev, {})
    return Evidence(task, lambda model: {"dev": answers[model.key]}, shortcut_right=lambda split: right)


def test_evidence_has_both_figures_and_their_differences() -> None:
    labels = np.repeat([0, 1], 20)
    ours, full = labels.copy(), labels.copy()
    ours[:20:4], full[:20:2] = 1, 1  # five and ten of the twenty rows of a, each in a pair of its own
    found = evidence({"ours": ours, "full": full})
    figures = found.group_figures([Named("ours")], [Named("full")], "dev")
    assert figures.worst
    assert figures.worst_difference
    assert figures.pairs
    assert figures.pairs_difference
    assert (figures.worst.name, figures.worst.accuracy.difference) == ("a", pytest.approx(75.0))
    assert figures.worst_difference.difference == pytest.approx(25.0)
    assert (figures.pairs.difference, figures.pairs_difference.difference) == pytest.approx((75.0, 25.0))
    alone = found.group_figures([Named("full")], [Named("full")], "dev")
    assert (alone.worst_difference, alone.pairs_difference) == (None, None), "nothing to compare with"


def test_a_bias_model_decides_the_groups_where_it_has_predictions() -> None:
    labels = np.repeat([0, 1], 20)
    found = evidence({"ours": labels}, np.arange(40) < 10)
    names = ["no, shortcut right", "no, shortcut wrong", "yes, shortcut wrong"]
    assert [*found.groups_of("dev")] == names
    assert [*evidence({"ours": labels}).groups_of("dev")] == ["a", "b"]
    bare = evidence({"ours": labels}, groups=("",) * 40, columns={})
    figures = bare.group_figures([Named("ours")], [Named("ours")], "dev")
    assert (figures.worst, figures.pairs) == (None, None)


# --- simulations: the nominal level is what one gets ---------------------------------------------------------------

TRUTHS = {
    "tied": ([0.0] * 4, [1.0] * 4),
    "tied, unequal sizes": ([0.0] * 3, [0.5, 1.0, 2.0]),
    "nearly tied": ([0.0, 1.0, 2.0, 3.0], [1.0] * 4),
    "untied": ([0.0, 9.0], [0.5, 0.5]),
}
"""The true accuracy of each group, of which the lowest is 0, and its error by examples."""


def simulated(truth: str, seeds: int, ratio: float, runs: int = 1000) -> list[AsymmetricInterval]:
    """Worst-group accuracies; `ratio` is the standard deviation of seeds over the error by examples."""
    means, errors = map(np.array, TRUTHS[truth])
    rng = np.random.default_rng([len(truth), seeds, round(10 * ratio)])
    shared = means + errors * rng.normal(size=(runs, len(means)))
    by_seed = shared[..., None] + ratio * errors[:, None] * rng.normal(size=(*shared.shape, seeds))
    spread = by_seed.std(axis=2, ddof=1) / np.sqrt(seeds) if ratio else np.zeros_like(shared)
    return [
        lowest({str(n): Interval(*map(float, each), seeds) for n, each in enumerate(zip(*run, errors, strict=True))})
        .accuracy
        for run in zip(by_seed.mean(axis=2), spread, strict=True)
    ]  # fmt: skip


def coverage(intervals: list[AsymmetricInterval], truth: float = 0.0) -> float:
    return float(np.mean([each.low <= truth <= each.high for each in intervals]))


@pytest.mark.parametrize("ratio", [0.0, 1.0, 5.0])
@pytest.mark.parametrize("seeds", [3, 4, 5])
def test_worst_group_intervals_cover_whether_groups_are_tied_or_not(seeds: int, ratio: float) -> None:
    found = {truth: simulated(truth, seeds, ratio) for truth in TRUTHS}
    for truth, intervals in found.items():
        assert coverage(intervals) >= 0.93, truth
    for ours, theirs in permutations(found, 2):
        differences = [a.minus(b) for a, b in zip(found[ours], found[theirs], strict=True)]
        assert coverage(differences) >= 0.93, (ours, theirs)


@pytest.mark.parametrize("gap", [0.0, 0.5])
@pytest.mark.parametrize("share", [0.02, 0.05, 0.1, 0.3, 0.9, 0.98])
@pytest.mark.parametrize("rows", [10, 20, 50, 200])
def test_intervals_of_small_groups_with_extreme_accuracies_cover(rows: int, share: float, gap: float) -> None:
    """Four groups; seeds agree on every row, so that the binomial distribution is all there is."""
    rng, runs = np.random.default_rng([rows, round(100 * share), round(100 * gap)]), 1000
    counts = rng.binomial(rows, [share, *[min(1.0, share + gap)] * 3], size=(runs, 4))
    shares = np.arange(rows + 1) / rows
    errors = 100 * np.sqrt(shares * (1 - shares) / rows)
    of = [widened(Interval(100 * float(p), 0.0, float(e), 3), rows) for p, e in zip(shares, errors, strict=True)]
    found = [lowest({str(n): of[count] for n, count in enumerate(run)}).accuracy for run in counts.tolist()]
    assert coverage(found, 100 * share) >= 0.93


@pytest.mark.parametrize("shift", [0.02, 0.1])
@pytest.mark.parametrize("seeds", [3, 4, 5])
def test_intervals_cover_from_predictions_on(seeds: int, shift: float) -> None:
    """Rows and seeds are drawn anew each time. The rows of a pair are equally hard with probability one half."""
    rng, runs, size = np.random.default_rng([seeds, round(100 * shift)]), 400, 240
    pairs, labels = np.repeat(np.arange(size // 2), 2), np.ones(size, np.int64)
    groups = {"a": np.arange(80), "b": np.arange(80, 160), "c": np.arange(160, size)}
    levels = {"ours": np.repeat([0.6, 0.6, 0.8], 80), "full": np.repeat([0.5, 0.7, 0.8], 80)}
    inside = dict.fromkeys(("worst", "worst difference", "pairs", "pairs difference"), 0)
    # with an accuracy p of rows, pairs have (p + p^2) / 2; the mean of p^2 over seeds is higher by shift^2
    expected = {name: 50 * float(np.mean(own + own**2 + shift**2)) for name, own in levels.items()}
    for _ in range(runs):
        hard, seed_of = hardness(rng, size), shift * rng.normal(size=(2, seeds))
        sides = [
            [(hard < own + each).astype(np.int64) for each in by]
            for own, by in zip(levels.values(), seed_of, strict=True)
        ]
        ours, full = (worst_group(side, labels, groups, samples=100) for side in sides)
        own_pairs = pair_contrast([(1.0, sides[0])], labels, pairs, samples=100)
        minus = pair_contrast([(1.0, sides[0]), (-1.0, sides[1])], labels, pairs, samples=100)
        assert ours and full and own_pairs and minus  # noqa: PT018
        truths = (60.0, 10.0, expected["ours"], expected["ours"] - expected["full"])
        for name, found, truth in zip(
            inside, (ours.accuracy, ours.accuracy.minus(full.accuracy), own_pairs, minus), truths, strict=True
        ):
            inside[name] += found.low <= truth <= found.high
    assert all(count / runs >= 0.93 for count in inside.values()), inside


def hardness(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Uniform for each row; the two rows of a pair have the same with probability one half."""
    own, same = rng.random(rows), rng.random(rows // 2) < 0.5
    own[1::2] = np.where(same, own[::2], own[1::2])
    return own
