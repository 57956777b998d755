"""Spread over seeds and the paired bootstrap."""

from __future__ import annotations

import numpy as np
import pytest

from srnet.evaluation import Interval, accuracy, paired_bootstrap, spread

LABELS = np.random.default_rng(7).integers(0, 2, 300)


def answers(right: float, seed: int) -> np.ndarray:
    """Predictions of which a share `right` is right."""
    return np.where(np.random.default_rng(seed).random(len(LABELS)) < right, LABELS, 1 - LABELS)


def test_spread_by_hand() -> None:
    # mean 72; squared deviations 4 + 0 + 4 = 8, over n - 1 = 2 is 4, so the sd is 2 (over n it would be 1.63)
    result = spread([70.0, 72.0, 74.0])
    assert (result.mean, result.sd, result.seeds) == (72.0, 2.0, 3)
    assert str(result) == "72.0 ± 2.0"


def test_one_seed_has_no_spread_and_does_not_claim_one() -> None:
    assert spread([70.0]).sd == 0.0
    assert str(spread([70.0])) == "70.0"


def test_identical_predictions_differ_by_nothing() -> None:
    same = [answers(0.7, 1), answers(0.6, 2)]
    interval = paired_bootstrap(same, same, LABELS, "accuracy", samples=100)
    assert (interval.difference, interval.low, interval.high) == (0.0, 0.0, 0.0)
    assert not interval.above_zero


def test_clearly_better_is_above_zero() -> None:
    good, bad = [answers(0.9, 3), answers(0.9, 4)], [answers(0.6, 5), answers(0.6, 6)]
    interval = paired_bootstrap(good, bad, LABELS, "accuracy", samples=200)
    exact = 100 * np.mean([accuracy(g, LABELS) - accuracy(b, LABELS) for g, b in zip(good, bad, strict=True)])
    assert interval.difference == pytest.approx(exact)
    assert 0.0 < interval.low < interval.difference < interval.high
    assert interval.above_zero
    assert not paired_bootstrap(bad, good, LABELS, "accuracy", samples=200).above_zero


def test_it_is_deterministic() -> None:
    ours, theirs = [answers(0.7, 7)], [answers(0.65, 14)]
    first, second = (paired_bootstrap(ours, theirs, LABELS, "accuracy", samples=50) for _ in range(2))
    assert first == second


def test_seeds_that_disagree_widen_the_interval() -> None:
    # the mean gain is the same; if examples alone were drawn the intervals would be about as wide
    base = [answers(0.5, 8)] * 4
    agreeing = paired_bootstrap([answers(0.7, 9)] * 4, base, LABELS, "accuracy", samples=200)
    mixed = [answers(0.9, 10), answers(0.9, 11), answers(0.5, 12), answers(0.5, 13)]
    disagreeing = paired_bootstrap(mixed, base, LABELS, "accuracy", samples=200)
    assert disagreeing.high - disagreeing.low > 1.5 * (agreeing.high - agreeing.low)


def test_both_sides_need_the_same_seeds() -> None:
    with pytest.raises(ValueError, match="same seeds"):
        paired_bootstrap([LABELS], [LABELS, LABELS], LABELS, "accuracy")


def test_an_interval_that_touches_zero_is_not_above_it() -> None:
    assert not Interval(1.0, 0.0, 2.0).above_zero
    assert Interval(1.0, 0.1, 2.0).above_zero
    assert str(Interval(1.0, -0.5, 2.0)) == "+1.0 [-0.5, +2.0]"
