"""Spread over seeds, contrasts of scores, and the paired bootstrap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srnet.evaluation.metrics import measure, reported
from srnet.evaluation.significance import Interval, Term, _resamples, contrast, holm, paired_bootstrap, spread
from srnet.tasks.answers.base import METRICS
from srnet.tasks.answers.pairs import PAIRS
from srnet.tasks.base import Metric

LABELS = np.random.default_rng(7).integers(0, 2, 300)


def answers(right: float, seed: int, labels: np.ndarray = LABELS) -> np.ndarray:
    """Predictions of which a share `right` is right."""
    return np.where(np.random.default_rng(seed).random(len(labels)) < right, labels, 1 - labels)


def accuracy(predictions: np.ndarray, labels: np.ndarray) -> float:
    return measure("accuracy", predictions, labels)


def test_spread_by_hand() -> None:
    # mean 72; squared deviations 4 + 0 + 4 = 8, over n - 1 = 2 is 4, so the sd is 2 (over n it would be 1.63)
    result = spread([70.0, 72.0, 74.0])
    assert (result.mean, result.sd, result.seeds, str(result)) == (72.0, 2.0, 3, "72.0 ± 2.0")
    assert (spread([70.0]).sd, str(spread([70.0]))) == (0.0, "70.0"), "one seed has no spread and does not claim one"


# --- intervals -----------------------------------------------------------------------------------------------------


def test_an_interval_by_hand() -> None:
    # t(97.5 %, 2 degrees) = 4.3027 and z = 1.9600: (4.3027 * 0.3)^2 + (1.96 * 0.5)^2 = 1.6662 + 0.9604 = 2.6266
    both = Interval(2.0, 0.3, 0.5, 3)
    assert (both.low, both.high) == pytest.approx((2 - 1.6207, 2 + 1.6207), abs=1e-4)
    assert Interval(2.0, 0.3, 0.0, 3).low == pytest.approx(2 - 1.2908, abs=1e-4)
    assert Interval(2.0, 0.0, 0.5, 3).low == pytest.approx(2 - 0.9800, abs=1e-4)
    assert str(both) == "+2.0 [+0.4, +3.6]"
    assert str(Interval(2.0, 0.0, 0.5, 1)) == "+2.0 [+1.0, +3.0] (one seed: examples only)"
    more = Interval(2.0, 0.4, 0.5, 4).with_seeds(16)
    assert more == Interval(2.0, 0.2, 0.5, 16), "more seeds shrink the seed part alone"


def test_without_any_error_the_interval_is_a_point_on_one_side_of_the_bar() -> None:
    exact = Interval(2.0, 0.0, 0.0, 3)
    assert (exact.low, exact.high) == (2.0, 2.0)
    assert [exact.p_above(bar) for bar in (1.0, 2.0, 3.0)] == [0.0, 1.0, 1.0]
    assert [exact.p_below(bar) for bar in (1.0, 2.0, 3.0)] == [1.0, 1.0, 0.0]


ERRORS = st.sampled_from([0.0, 1e-3, 0.1, 1.0, 10.0])


@given(
    st.floats(-20, 20), ERRORS, ERRORS, st.integers(1, 8), st.floats(-20, 20), st.sampled_from([0.5, 0.9, 0.95, 0.9995])
)
def test_p_values_say_what_the_interval_says_at_any_level(
    difference: float, seed_error: float, example_error: float, seeds: int, bar: float, level: float
) -> None:
    interval = Interval(difference, seed_error if seeds > 1 else 0.0, example_error, seeds, level)
    above, below = interval.p_above(bar), interval.p_below(bar)
    assert 0.0 <= min(above, below) <= max(above, below) <= 1.0
    if abs(interval.low - bar) > 1e-9:
        assert (interval.low > bar) == (above < (1 - level) / 2)
    if abs(interval.high - bar) > 1e-9:
        assert (interval.high < bar) == (below < (1 - level) / 2)


def test_holm_by_hand() -> None:
    # sorted: 0.01 * 4, 0.02 * 3, 0.02 * 2 (not below the one before), 0.9
    assert holm([0.02, 0.9, 0.01, 0.02]) == pytest.approx([0.06, 0.9, 0.04, 0.06])
    assert holm([0.3]) == [0.3]
    assert holm([0.7, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


# --- simulations: the nominal level is what one gets ---------------------------------------------------------------

RATIOS = (0.0, 0.3, 1.0, 2.0, 5.0, 100.0)
"""Seed standard deviation over the example error."""


def simulated(seeds: int, ratio: float, own: float = 0.0, runs: int = 8000) -> list[Interval]:
    """Intervals of a difference that is 0. `own` is example noise that seeds do not share."""
    rng = np.random.default_rng([seeds, round(10 * ratio), round(10 * own)])
    shared, mine = rng.normal(size=(runs, 1)), own * rng.normal(size=(runs, seeds))
    by_seed = shared + mine + ratio * rng.normal(size=(runs, seeds))
    errors = by_seed.std(axis=1, ddof=1) / np.sqrt(seeds)
    examples = np.sqrt(1 + own**2 / seeds)
    return [
        Interval(float(m), float(e), float(examples), seeds) for m, e in zip(by_seed.mean(axis=1), errors, strict=True)
    ]


@pytest.mark.parametrize("own", [0.0, 1.0])
@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("seeds", [3, 4, 5])
def test_a_95_percent_interval_covers_whatever_the_seeds_and_the_examples_contribute(
    seeds: int, ratio: float, own: float
) -> None:
    intervals = simulated(seeds, ratio, own)
    coverage = np.mean([interval.low <= 0.0 <= interval.high for interval in intervals])
    assert coverage >= 0.94, "8000 runs of 95 % vary by 0.24 points"


@pytest.mark.parametrize("ratio", RATIOS)
def test_a_strict_level_is_kept_too(ratio: float) -> None:
    """Holm asks for tails much smaller than 2.5 %, where a wrong distribution shows."""
    intervals = simulated(3, ratio, runs=4000)
    assert np.mean([interval.p_above() < 0.0025 for interval in intervals]) <= 0.005


def test_seeds_and_examples_both_count_in_real_scores() -> None:
    """From predictions to coverage: seeds of different accuracy, judged on examples that are drawn anew each time."""
    rng, inside, runs, size = np.random.default_rng(5), 0, 400, 100
    for _ in range(runs):
        hard, shifts = rng.random(size), rng.normal(0.0, 0.05, 3)
        ours = [(hard < 0.6 + shift).astype(np.int64) for shift in shifts]
        interval = contrast([Term(1.0, "a", ours)], {"a": np.ones(size, dtype=np.int64)}, "accuracy", samples=100)
        inside += interval.low <= 60.0 <= interval.high
    assert inside / runs >= 0.93


# --- ours minus theirs ---------------------------------------------------------------------------------------------


def test_it_is_deterministic_and_a_higher_level_needs_a_wider_interval() -> None:
    ours, theirs = [answers(0.7, 7)], [answers(0.65, 14)]
    first, second = (paired_bootstrap(ours, theirs, LABELS, "accuracy", samples=50) for _ in range(2))
    _resamples.cache_clear()
    third = paired_bootstrap(ours, theirs, LABELS, "accuracy", samples=50)
    assert first == second == third
    strict = paired_bootstrap(ours, theirs, LABELS, "accuracy", samples=50, level=0.99)
    assert strict.low < first.low < first.difference == strict.difference < first.high < strict.high


@pytest.mark.parametrize("counts", [(1, 2), (3, 3, 2)])
def test_every_term_needs_the_same_seeds(counts: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="same seeds"):
        contrast([Term(1.0, "a", [LABELS] * count) for count in counts], {"a": LABELS}, "accuracy")


# --- contrasts of several terms ------------------------------------------------------------------------------------


def test_weights_by_hand() -> None:
    # 0.5 of all right, minus 0.2 of all right, plus 3 of all wrong: 30 points, whatever is drawn
    right, wrong = LABELS, 1 - LABELS
    terms = [Term(0.5, "a", [right]), Term(-0.2, "a", [right]), Term(3.0, "a", [wrong])]
    interval = contrast(terms, {"a": LABELS}, "accuracy", samples=50)
    assert (interval.difference, interval.low, interval.high) == pytest.approx((30.0, 30.0, 30.0))


def test_the_scores_of_several_splits_are_summed() -> None:
    labels = {"dev": LABELS, "hard": LABELS[:50]}
    dev, hard = answers(0.9, 17), answers(0.5, 18)[:50]
    terms = [Term(1.0, "dev", [dev, LABELS]), Term(-0.5, "hard", [hard, LABELS[:50]])]
    interval = contrast(terms, labels, "accuracy", samples=200)
    first, second = (accuracy(dev, LABELS) + 1) / 2, (accuracy(hard, LABELS[:50]) + 1) / 2
    assert interval.difference == pytest.approx(100 * (first - 0.5 * second))
    assert interval.low < interval.difference < interval.high


def test_terms_of_one_split_see_the_same_examples_and_splits_are_drawn_apart() -> None:
    ours = [answers(0.7, 19)]
    together = contrast([Term(1.0, "a", ours), Term(-1.0, "a", ours)], {"a": LABELS}, "accuracy", samples=100)
    assert (together.low, together.high) == (0.0, 0.0)
    apart = contrast([Term(1.0, "a", ours), Term(-1.0, "b", ours)], {"a": LABELS, "b": LABELS}, "accuracy", samples=100)
    assert apart.difference == 0.0
    assert apart.low < 0.0 < apart.high


def test_all_terms_see_the_same_seeds() -> None:
    # one seed is always right, the other always wrong: what both terms share cancels out seed by seed
    seeds = [LABELS, 1 - LABELS]
    labels = {"a": LABELS, "b": LABELS}
    alone = contrast([Term(1.0, "a", seeds)], labels, "accuracy", samples=200)
    # by seed 100 and 0: the standard deviation is 70.71, over the root of two seeds 50
    assert (alone.difference, alone.seed_error, alone.example_error) == (50.0, pytest.approx(50.0), 0.0)
    both = contrast([Term(1.0, "a", seeds), Term(-1.0, "b", seeds)], labels, "accuracy", samples=200)
    assert (both.difference, both.low, both.high) == (0.0, 0.0, 0.0)


def test_the_order_of_the_terms_does_not_matter() -> None:
    terms = [Term(1.0, "a", [answers(0.7, 20)]), Term(-0.95, "a", [answers(0.8, 21)])]
    one, other = (contrast(each, {"a": LABELS}, "f1", samples=100) for each in (terms, terms[::-1]))
    assert (one.difference, one.low, one.high) == pytest.approx((other.difference, other.low, other.high))


# --- against a plain loop ------------------------------------------------------------------------------------------

Side = Sequence[np.ndarray]


def gains(ours: Side, theirs: Side, labels: np.ndarray, metric: Metric, rows: np.ndarray | slice) -> list[float]:
    """Differences by seed, in points, on these rows."""
    sides = ([reported(metric, each[rows], labels[rows]) for each in side] for side in (ours, theirs))
    return [a - b for a, b in zip(*sides, strict=True)]


def sides(labels: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rates = ((0.85, 0.7), (0.75, 0.72), (0.9, 0.65))
    return tuple([answers(pair[side], 30 + 2 * n + side, labels) for n, pair in enumerate(rates)] for side in (0, 1))  # type: ignore[return-value]


@pytest.mark.parametrize("metric", ["accuracy", "f1"])
def test_it_agrees_with_a_plain_loop(metric: Metric) -> None:
    labels = (np.random.default_rng(22).random(120) < 0.3).astype(np.int64)
    both, rng = sides(labels), np.random.default_rng(123)
    fast = paired_bootstrap(*both, labels, metric, samples=2000)
    slow = [np.mean(gains(*both, labels, metric, rng.integers(0, 120, 120))) for _ in range(2000)]
    # the standard deviation of 2000 draws is itself uncertain by 1.6 %: twice, three sigmas
    assert fast.example_error == pytest.approx(np.std(slow, ddof=1), rel=0.07)
    by_seed = gains(*both, labels, metric, slice(None))
    assert fast.difference == pytest.approx(np.mean(by_seed))
    assert fast.seed_error == pytest.approx(np.std(by_seed, ddof=1) / np.sqrt(3))


def of_metric(metric: Metric) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """Answers of two models with three seeds each, and the labels; with ties, and one seed that is a constant."""
    rng = np.random.default_rng(40)
    if metric in ("exact_match", "span_f1"):
        models = [np.stack([(f1 := rng.random(50)) > 0.6, f1], axis=1) for _ in range(6)]
        return models[:3], models[3:], np.zeros((50, 2), dtype=np.int64)
    if metric in PAIRS.metrics:  # columns as `PAIRS.decode` gives them
        models = [
            np.stack(
                [-rng.random(50), rng.integers(1, 9, 50), *rng.integers(0, 2, (2, 50)), rng.random(50), np.ones(50)], 1
            )
            for _ in range(6)
        ]
        return models[:3], models[3:], np.full(50, 3)
    if metric in ("pearson", "spearman"):
        labels = rng.integers(0, 11, 50) / 2
        models = [np.round(labels + noise * rng.normal(size=50), 1) for noise in (1, 2, 3, 4, 5)]
        return [*models[:2], np.full(50, 0.3)], models[2:], labels
    labels = (rng.random(50) < 0.3).astype(np.int64)
    models = [answers(rate, 50 + n, labels) for n, rate in enumerate((0.9, 0.8, 0.7, 0.6, 0.5))]
    return [*models[:2], np.zeros_like(labels)], models[2:], labels


@pytest.mark.parametrize("metric", list(METRICS))
def test_every_resample_is_scored_as_its_rows_would_be(metric: Metric) -> None:
    ours, theirs, labels = of_metric(metric)
    rows = [np.repeat(np.arange(50), counts.astype(int)) for counts in _resamples(40, 50, 1, 0)]
    differences = [np.mean(gains(ours, theirs, labels, metric, each)) for each in rows]
    found = paired_bootstrap(ours, theirs, labels, metric, samples=40)
    assert found.example_error == pytest.approx(np.std(differences, ddof=1), abs=1e-6)
    assert found.difference == pytest.approx(np.mean(gains(ours, theirs, labels, metric, slice(None))))


def test_resamples_in_which_a_score_is_constant() -> None:
    # a single label differs: every third resample has none of it, and no correlation
    labels = np.array([0.1] * 9 + [0.7])
    interval = paired_bootstrap([labels], [np.full(10, 0.2)], labels, "pearson", samples=500)
    # in a share 0.9^10 = 0.349 of the resamples it is 0: the standard deviation is 100 sqrt(0.349 * 0.651)
    assert (interval.difference, interval.example_error) == (pytest.approx(100.0), pytest.approx(47.7, abs=1.5))


@pytest.mark.parametrize("cells", [1, 1000, 120 * 7])
def test_drawing_in_chunks_changes_nothing_but_the_luck(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = np.random.default_rng(23).integers(0, 2, 120)
    ours, theirs = sides(labels)
    whole = paired_bootstrap(ours, theirs, labels, "accuracy", samples=1000)
    monkeypatch.setattr("srnet.evaluation.significance._CHUNK", cells)
    chunked = paired_bootstrap(ours, theirs, labels, "accuracy", samples=1000)
    assert chunked.difference == whole.difference
    assert (chunked.low, chunked.high) != (whole.low, whole.high), "other draws: the chunks were small"
    allowed = 0.1 * (whole.high - whole.low)  # 0.36 standard deviations
    assert (chunked.low, chunked.high) == pytest.approx((whole.low, whole.high), abs=allowed)


def test_every_resample_has_as_many_examples_as_there_are() -> None:
    counts = _resamples(50, 30, 1, 0)
    assert (counts.sum(axis=1) == 30).all()
    assert len(np.unique(counts, axis=0)) == 50, "and each is another one"
    assert not np.array_equal(counts, _resamples(50, 30, 2, 0))
    assert not np.array_equal(counts, _resamples(50, 30, 1, 50))
