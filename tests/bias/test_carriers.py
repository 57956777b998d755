"""What carries a shortcut: counts, lift and corrected p-values by hand."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from srnet.bias.carriers import Binary, find_carriers
from srnet.bias.numbers import Numbers


def test_counts_shares_lift_and_p_by_hand() -> None:
    """10 of 40 rows have `sign`, all of them label b, which 15 of 40 rows have; `noise` is in 20, 8 of them b."""
    y = np.array([1] * 15 + [0] * 25)
    sign, noise = np.zeros(40), np.zeros(40)
    sign[:10] = 1
    noise[[*range(8), *range(15, 27)]] = 1
    found = find_carriers(("sign", "noise"), csr_matrix(np.stack([sign, noise], axis=1)), y, ("a", "b"))
    assert [(each.feature, each.label, each.rows, each.labels) for each in found] == [("sign", "b", 10, (0.0, 100.0))]
    assert found[0].share == 25.0
    assert found[0].lift == pytest.approx(1.0 / (15 / 40))
    by_chance = comb(15, 10) / comb(40, 10)
    assert found[0].p == pytest.approx(4 * by_chance), "the smallest of four: two features, two labels (Holm)"
    variance = 10 * (15 / 40) * (25 / 40) * (30 / 39)
    assert found[0].strength == pytest.approx((10 - 10 * 15 / 40) / variance**0.5)


def test_a_feature_of_few_rows_or_of_all_is_not_looked_at() -> None:
    y = np.array([1] * 20 + [0] * 20)
    few, all_rows = np.zeros(40), np.ones(40)
    few[:4] = 1
    assert find_carriers(("few", "all"), csr_matrix(np.stack([few, all_rows], axis=1)), y, ("a", "b")) == ()


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_features_without_a_relation_carry_nothing_nearly_always(seed: int) -> None:
    """Corrected for all looks, a carrier of random labels is an event of 5 %; one that is this certain never occurs."""
    rng = np.random.default_rng(seed)
    x = csr_matrix((rng.random((200, 1000)) < 0.1).astype(float))
    found = find_carriers([str(n) for n in range(1000)], x, rng.integers(0, 2, 200), ("a", "b"))
    assert all(each.p > 1e-4 for each in found)


def test_numbers_are_taken_in_levels_and_ranges() -> None:
    x = np.array([[0.0, 0.19, 3.0], [1.0, 0.2, 40.0], [1.0, 1.0, 5.0]])
    binary = Binary(("whether", "share", "size"), x)
    levels = tuple(f"share: {low} to {low + 20} %" for low in (0, 20, 40, 60, 80))
    assert binary.names == ("whether", *levels, "size = 3", "size = 5", "size = 40")
    assert [binary.names[column] for column in binary.of(x)[[1]].indices] == ["whether", levels[1], "size = 40"]


def test_of_sparse_features_only_those_that_a_row_has_or_has_not_are_kept() -> None:
    numbers = Numbers.of("words", np.array([1.0, 2.0, 9.0]))
    binary = Binary(numbers.names, numbers.matrix(np.array([1.0, 2.0, 9.0])))
    assert "words" not in binary.names
    assert binary.names[:3] == ("words = 1", "words = 2", "words = 9")
