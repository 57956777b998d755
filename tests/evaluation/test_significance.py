"""Spread over seeds, contrasts of scores, and the paired bootstrap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import numpy as np
import pytest

from srnet.evaluation import Interval, Term, accuracy, contrast, measure, paired_bootstrap, spread
from srnet.evaluation.significance import _resamples
from srnet.tasks.base import Metric

LABELS = np.random.default_rng(7).integers(0, 2, 300)


def answers(right: float, seed: int, labels: np.ndarray = LABELS) -> np.ndarray:
    """Predictions of which a share `right` is right."""
    return np.where(np.random.default_rng(seed).random(len(labels)) < right, labels, 1 - labels)


def test_spread_by_hand() -> None:
    # mean 72; squared deviations 4 + 0 + 4 = 8, over n - 1 = 2 is 4, so the sd is 2 (over n it would be 1.63)
    result = spread([70.0, 72.0, 74.0])
    assert (result.mean, result.sd, result.seeds) == (72.0, 2.0, 3)
    assert str(result) == "72.0 ± 2.0"


def test_one_seed_has_no_spread_and_does_not_claim_one() -> None:
    assert spread([70.0]).sd == 0.0
    assert str(spread([70.0])) == "70.0"


def test_an_interval_that_touches_zero_is_on_neither_side() -> None:
    assert not Interval(1.0, 0.0, 2.0).above_zero
    assert Interval(1.0, 0.1, 2.0).above_zero
    assert not Interval(-1.0, -2.0, 0.0).below_zero
    assert Interval(-1.0, -2.0, -0.1).below_zero
    assert str(Interval(1.0, -0.5, 2.0)) == "+1.0 [-0.5, +2.0]"


# --- ours minus theirs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["accuracy", "f1"])
def test_identical_predictions_differ_by_nothing(metric: Metric) -> None:
    same = [answers(0.7, 1), answers(0.6, 2)]
    interval = paired_bootstrap(same, same, LABELS, metric, samples=100)
    assert (interval.difference, interval.low, interval.high) == (0.0, 0.0, 0.0)
    assert not interval.above_zero
    assert not interval.below_zero


def test_clearly_better_is_above_zero() -> None:
    good, bad = [answers(0.9, 3), answers(0.9, 4)], [answers(0.6, 5), answers(0.6, 6)]
    interval = paired_bootstrap(good, bad, LABELS, "accuracy", samples=200)
    exact = 100 * np.mean([accuracy(g, LABELS) - accuracy(b, LABELS) for g, b in zip(good, bad, strict=True)])
    assert interval.difference == pytest.approx(exact)
    assert 0.0 < interval.low < interval.difference < interval.high
    assert interval.above_zero
    assert paired_bootstrap(bad, good, LABELS, "accuracy", samples=200).below_zero


def test_it_is_deterministic() -> None:
    ours, theirs = [answers(0.7, 7)], [answers(0.65, 14)]
    first, second = (paired_bootstrap(ours, theirs, LABELS, "accuracy", samples=50) for _ in range(2))
    _resamples.cache_clear()
    third = paired_bootstrap(ours, theirs, LABELS, "accuracy", samples=50)
    assert first == second == third


def test_seeds_that_disagree_widen_the_interval() -> None:
    # the mean gain is the same; if examples alone were drawn the intervals would be about as wide
    base = [answers(0.5, 8)] * 4
    agreeing = paired_bootstrap([answers(0.7, 9)] * 4, base, LABELS, "accuracy", samples=200)
    mixed = [answers(0.9, 10), answers(0.9, 11), answers(0.5, 12), answers(0.5, 13)]
    disagreeing = paired_bootstrap(mixed, base, LABELS, "accuracy", samples=200)
    assert disagreeing.high - disagreeing.low > 1.5 * (agreeing.high - agreeing.low)


def test_a_higher_level_asks_for_a_wider_interval() -> None:
    sides = [answers(0.8, 15)], [answers(0.7, 16)]
    usual, strict = (paired_bootstrap(*sides, LABELS, "accuracy", level=level) for level in (0.95, 0.99))
    assert (usual.level, strict.level) == (0.95, 0.99)
    assert usual.difference == strict.difference
    assert strict.low < usual.low < usual.high < strict.high


def test_both_sides_need_the_same_seeds() -> None:
    with pytest.raises(ValueError, match="same seeds"):
        paired_bootstrap([LABELS], [LABELS, LABELS], LABELS, "accuracy")


def test_a_class_that_one_side_never_predicts() -> None:
    labels = np.array([0, 1, 2] * 40)
    interval = paired_bootstrap([labels], [np.zeros_like(labels)], labels, "f1", samples=200)
    # always class 0: precision 1/3, recall 1, F1 = 1/2, which counts for a third of the examples
    assert interval.difference == pytest.approx(100 * (1 - 1 / 6))
    assert interval.above_zero


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
    # one seed is always right, the other always wrong: only if both terms draw the same seeds do they cancel out
    seeds = [LABELS, 1 - LABELS]
    labels = {"a": LABELS, "b": LABELS}
    alone = contrast([Term(1.0, "a", seeds)], labels, "accuracy", samples=200)
    assert (alone.difference, alone.low, alone.high) == (50.0, 0.0, 100.0)
    both = contrast([Term(1.0, "a", seeds), Term(-1.0, "b", seeds)], labels, "accuracy", samples=200)
    assert (both.difference, both.low, both.high) == (0.0, 0.0, 0.0)


def test_every_term_needs_the_same_seeds() -> None:
    terms = [Term(1.0, "a", [LABELS] * 3), Term(-1.0, "a", [LABELS] * 3), Term(1.0, "b", [LABELS] * 2)]
    with pytest.raises(ValueError, match="same seeds"):
        contrast(terms, {"a": LABELS, "b": LABELS}, "accuracy")


def test_the_order_of_the_terms_does_not_matter() -> None:
    terms = [Term(1.0, "a", [answers(0.7, 20)]), Term(-0.95, "a", [answers(0.8, 21)])]
    one, other = (contrast(each, {"a": LABELS}, "f1", samples=100) for each in (terms, terms[::-1]))
    assert (one.difference, one.low, one.high) == pytest.approx((other.difference, other.low, other.high))


# --- against a loop that nobody can misread ------------------------------------------------------------------------


def slow_draws(
    ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray], labels: np.ndarray, metric: Metric, samples: int
) -> np.ndarray:
    """Seeds and examples with replacement, both sides alike."""
    rng, differences = np.random.default_rng(123), []
    for _ in range(samples):
        rows = rng.integers(0, len(labels), len(labels))
        seeds = rng.integers(0, len(ours), len(ours))
        each = [
            measure(metric, ours[s][rows], labels[rows]) - measure(metric, theirs[s][rows], labels[rows]) for s in seeds
        ]
        differences.append(100 * np.mean(each))
    return np.array(differences)


def sides(labels: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rates = ((0.85, 0.7), (0.75, 0.72), (0.9, 0.65))
    return tuple([answers(pair[side], 30 + 2 * n + side, labels) for n, pair in enumerate(rates)] for side in (0, 1))  # type: ignore[return-value]


@pytest.mark.parametrize("metric", ["accuracy", "f1"])
def test_it_agrees_with_a_plain_loop(metric: Metric) -> None:
    labels = (np.random.default_rng(22).random(120) < 0.3).astype(np.int64)
    ours, theirs = sides(labels)
    fast = paired_bootstrap(ours, theirs, labels, metric, samples=2000)
    slow = slow_draws(ours, theirs, labels, metric, samples=2000)
    # the 2.5 % quantile of 2000 draws of a normal is itself uncertain by 0.06 standard deviations: twice, three sigmas
    allowed = 0.26 * slow.std()
    low, high = np.quantile(slow, [0.025, 0.975])
    assert (fast.low, fast.high) == (pytest.approx(low, abs=allowed), pytest.approx(high, abs=allowed))
    exact = np.mean(
        [measure(metric, a, labels) - measure(metric, b, labels) for a, b in zip(ours, theirs, strict=True)]
    )
    assert fast.difference == pytest.approx(100 * exact)


def of_metric(metric: Metric) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """Answers of two models with three seeds each, and the labels; with ties, and one seed that is a constant."""
    rng = np.random.default_rng(40)
    if metric in ("exact_match", "span_f1"):
        models = [np.stack([(f1 := rng.random(50)) > 0.6, f1], axis=1) for _ in range(6)]
        return models[:3], models[3:], np.zeros((50, 2), dtype=np.int64)
    if metric in ("pearson", "spearman"):
        labels = rng.integers(0, 11, 50) / 2
        models = [np.round(labels + noise * rng.normal(size=50), 1) for noise in (1, 2, 3, 4, 5)]
        return [*models[:2], np.full(50, 0.3)], models[2:], labels
    labels = (rng.random(50) < 0.3).astype(np.int64)
    models = [answers(rate, 50 + n, labels) for n, rate in enumerate((0.9, 0.8, 0.7, 0.6, 0.5))]
    return [*models[:2], np.zeros_like(labels)], models[2:], labels


@pytest.mark.parametrize("metric", get_args(Metric))
def test_every_resample_is_scored_as_its_rows_would_be(metric: Metric) -> None:
    ours, theirs, labels = of_metric(metric)
    samples = 40
    seeds = np.random.default_rng(0).multinomial(3, np.full(3, 1 / 3), size=samples)
    differences = []
    for drawn, counts in zip(seeds, _resamples(samples, 50, 1, 0), strict=True):
        rows = np.repeat(np.arange(50), counts.astype(int))
        gains = [
            measure(metric, a[rows], labels[rows]) - measure(metric, b[rows], labels[rows])
            for a, b in zip(ours, theirs, strict=True)
        ]
        differences.append(100 * np.dot(drawn, gains) / 3)
    low, high = np.quantile(differences, [0.025, 0.975])
    found = paired_bootstrap(ours, theirs, labels, metric, samples=samples)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-6)
    whole = [measure(metric, a, labels) - measure(metric, b, labels) for a, b in zip(ours, theirs, strict=True)]
    assert found.difference == pytest.approx(100 * np.mean(whole))


def test_resamples_in_which_a_score_is_constant() -> None:
    # a single label differs: every third resample has none of it, and no correlation
    labels = np.array([0.1] * 9 + [0.7])
    interval = paired_bootstrap([labels], [np.full(10, 0.2)], labels, "pearson", samples=500)
    assert (interval.difference, interval.low, interval.high) == pytest.approx((100.0, 0.0, 100.0))


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


def test_few_seeds_widen_the_interval_by_hand() -> None:
    # by seed the gain is 1, 2 and 3 points: mean 2, sd 1, and t(97.5 %, 2 degrees) = 4.3027, so 2 - 4.3027 / sqrt(3)
    labels, theirs = np.zeros(100, dtype=np.int64), np.ones(100, dtype=np.int64)
    ours = [np.where(np.arange(100) < right, 0, 1) for right in (1, 2, 3)]
    terms = (Term(1.0, "dev", ours), Term(-1.0, "dev", [theirs] * 3))
    plain, wide = (contrast(terms, {"dev": labels}, "accuracy", few_seeds=few) for few in (False, True))
    assert plain.low >= 0.0, "a resample never goes below the worst seed"
    assert wide.low == pytest.approx(2.0 - 4.3027 / np.sqrt(3), abs=1e-4)
    assert wide.high >= plain.high
    assert wide.difference == pytest.approx(2.0)


def test_one_seed_cannot_be_widened() -> None:
    terms = (Term(1.0, "dev", [answers(0.7, 1)]), Term(-1.0, "dev", [answers(0.6, 2)]))
    few, plain = (contrast(terms, {"dev": LABELS}, "accuracy", few_seeds=few) for few in (True, False))
    assert few == plain
