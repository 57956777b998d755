"""Budgets are met to the weight, whatever the scores look like."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from srnet.masks.budget import divide_budget, keep_largest, meet_budget, prune_count
from srnet.masks.modules import ScoreMask

FEW_VALUES = st.sampled_from([-1.0, 0.0, 0.01, 0.02])
"""So few different scores that ties are the rule: hard initialisation (Eq. 1) gives just two."""


@st.composite
def tied_scores(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Scores and magnitudes with many ties, and how many of them to prune."""
    count = draw(st.integers(1, 40))
    scores = draw(st.lists(FEW_VALUES, min_size=count, max_size=count))
    magnitude = draw(st.lists(st.sampled_from([0.1, 0.2, 0.3]), min_size=count, max_size=count))
    return torch.tensor(scores), torch.tensor(magnitude), draw(st.integers(0, count))


@settings(max_examples=150)
@given(tied_scores(), st.booleans())
def test_keeps_exactly_the_rest(case: tuple[torch.Tensor, torch.Tensor, int], with_tiebreak: bool) -> None:
    scores, magnitude, pruned = case
    keep = keep_largest(scores, pruned, magnitude if with_tiebreak else None)
    assert int(keep.sum()) == len(scores) - pruned
    if 0 < pruned < len(scores):
        assert scores[keep].min() >= scores[~keep].max()


@settings(max_examples=150)
@given(tied_scores())
def test_order_of_pruning_is_score_then_magnitude_then_position(case: tuple[torch.Tensor, torch.Tensor, int]) -> None:
    scores, magnitude, pruned = case
    rank = sorted(range(len(scores)), key=lambda i: (scores[i].item(), magnitude[i].item(), i))
    expected = [index not in rank[:pruned] for index in range(len(scores))]
    assert keep_largest(scores, pruned, magnitude).tolist() == expected


def test_ties_by_hand() -> None:
    tied = torch.zeros(4)
    assert keep_largest(tied, 2).tolist() == [False, False, True, True]  # the earlier entries go first
    magnitude = torch.tensor([9.0, 1.0, 9.0, 1.0])
    assert keep_largest(tied, 2, magnitude).tolist() == [True, False, True, False]
    assert keep_largest(tied, 3, magnitude).tolist() == [False, False, True, False]


def test_shape_is_kept() -> None:
    assert keep_largest(torch.rand(3, 5), 4).shape == (3, 5)


@pytest.mark.parametrize("cut", ["middle", "kth"])
@settings(max_examples=80)
@given(case=tied_scores())
def test_cut_reproduces_the_mask(cut: Any, case: tuple[torch.Tensor, torch.Tensor, int]) -> None:
    scores, magnitude, pruned = case
    keep = keep_largest(scores, pruned, magnitude)
    mask = ScoreMask(scores.clone(), 0.0)
    mask.set_cut(keep, cut)
    assert torch.equal(mask.binary(), keep)
    # what training learned is not disturbed: tied scores move by one unit in the last place, all others not at all
    assert torch.allclose(mask.scores, scores, rtol=1e-6, atol=1e-6)
    assert torch.equal(mask.scores[keep], scores[keep])


def test_the_published_cut_is_the_k_th_value() -> None:
    # k = 2 of 4 pruned: the published code keeps scores > kthvalue(2) = 0.2; ours would lie halfway, at 0.25
    scores, keep = torch.tensor([0.4, 0.2, 0.1, 0.3]), torch.tensor([True, False, False, True])
    mask = ScoreMask(scores, 0.0)
    mask.set_cut(keep, "kth")
    above = torch.nextafter(scores.kthvalue(2).values, torch.tensor(1.0))
    assert mask.phi == above, "score >= phi is then score > k-th value"
    mask.set_cut(keep)
    assert float(mask.phi) == pytest.approx(0.25)


# --- several matrices ----------------------------------------------------------------------------------------------

sparsities = st.floats(0.0, 0.99)


@settings(max_examples=80)
@given(tied_scores(), tied_scores(), sparsities, st.booleans())
def test_budget_is_exact(
    first: tuple[torch.Tensor, torch.Tensor, int],
    second: tuple[torch.Tensor, torch.Tensor, int],
    sparsity: float,
    with_tiebreak: bool,
) -> None:
    scores = {"a": first[0], "b": second[0]}
    magnitude = {"a": first[1], "b": second[1]} if with_tiebreak else None
    local = meet_budget(scores, sparsity, "local", magnitude)
    for name, tensor in scores.items():
        assert int((~local[name]).sum()) == round(sparsity * tensor.numel())
    everything = meet_budget(scores, sparsity, "global", magnitude)
    assert everything.total - everything.kept == round(sparsity * everything.total)


def test_local_and_global_by_hand() -> None:
    scores = {"small": torch.tensor([[0.1, 0.2], [0.3, 0.4]]), "large": torch.tensor([[1.0, 2.0], [3.0, 4.0]])}
    local = meet_budget(scores, 0.5, "local")
    assert local["small"].tolist() == local["large"].tolist() == [[False, False], [True, True]]
    over_all = meet_budget(scores, 0.5, "global")  # the four smallest of the eight are all in one matrix
    assert not over_all["small"].any()
    assert over_all["large"].all()


@pytest.mark.parametrize("sparsity", [1.0, -0.1, 1.5, float("nan")])
def test_a_share_that_leaves_nothing_is_refused(sparsity: float) -> None:
    with refused("sparsity", f"{sparsity:g}"):
        prune_count(sparsity, 10)


@pytest.mark.parametrize(
    ("sparsity", "tiny", "query"),
    [
        (0.0, 0, 0),
        (0.5, 2, 294_912),  # 2.5 is 2: halves go to the even number
        (0.7, 4, 412_877),  # 3.5 -> 4, 412,876.8 -> 412,877
        (0.9, 4, 530_842),  # 4.5 -> 4, 530,841.6 -> 530,842
        (0.97, 5, 572_129),  # 4.85 -> 5, 572,129.28 -> 572,129
    ],
)
def test_numbers_to_prune_by_hand(sparsity: float, tiny: int, query: int) -> None:
    assert (prune_count(sparsity, 5), prune_count(sparsity, 768 * 768)) == (tiny, query)


# --- one budget for several matrices -------------------------------------------------------------------------------

HUNDREDS = {"a": 100, "b": 100, "c": 100}


@pytest.mark.parametrize(
    ("budget", "totals", "claims", "expected"),
    [
        pytest.param(60, {"a": 100, "b": 100}, {"a": 2.0, "b": 1.0}, {"a": 40, "b": 20}, id="by claim"),
        pytest.param(60, {"a": 100, "b": 50}, {"a": 0.3, "b": 0.3}, {"a": 40, "b": 20}, id="by size"),
        # 120 would be 20 more than there are
        pytest.param(160, {"a": 100, "b": 100}, {"a": 3.0, "b": 1.0}, {"a": 100, "b": 60}, id="clipped"),
        # 150, 75, 15: a is full; of the 140 left b would get 116.7: full too; c takes the rest
        pytest.param(240, HUNDREDS, {"a": 10.0, "b": 5.0, "c": 1.0}, {"a": 100, "b": 100, "c": 40}, id="twice clipped"),
        pytest.param(10, HUNDREDS, {"a": 1.0, "b": 1.0, "c": 1.0}, {"a": 4, "b": 3, "c": 3}, id="equal remainders"),
        # 5.6, 2.7, 1.7: the two largest remainders get one each
        pytest.param(10, HUNDREDS, {"a": 0.56, "b": 0.27, "c": 0.17}, {"a": 5, "b": 3, "c": 2}, id="remainders"),
        pytest.param(50, {"a": 100, "b": 50}, {"a": 0.0, "b": 0.0}, {"a": 33, "b": 17}, id="nobody claims"),
        pytest.param(150, {"a": 100, "b": 100}, {"a": 1.0, "b": 0.0}, {"a": 100, "b": 50}, id="left to who did not"),
        pytest.param(90, {"a": 100, "b": 100}, {"a": 1.0, "b": 0.0}, {"a": 90, "b": 0}, id="nothing for no claim"),
        pytest.param(0, {"a": 3, "b": 4}, {"a": 1.0, "b": 2.0}, {"a": 0, "b": 0}, id="nothing"),
        pytest.param(0, {"a": 0, "b": 0}, {"a": 1.0, "b": 2.0}, {"a": 0, "b": 0}, id="no weights"),
        pytest.param(7, {"a": 3, "b": 4}, {"a": 1e-9, "b": 2.0}, {"a": 3, "b": 4}, id="everything"),
        # shares 1.554 and 0.046 of 0.8: the published code clips the first, forgets the rest and keeps 0.523
        pytest.param(
            1600, {"a": 1000, "b": 1000}, {"a": 0.97125, "b": 0.02875}, {"a": 1000, "b": 600}, id="published as 0.523"
        ),
    ],
)
def test_a_shared_budget_by_hand(
    budget: int, totals: dict[str, int], claims: dict[str, float], expected: dict[str, int]
) -> None:
    assert divide_budget(budget, totals, claims) == expected


@st.composite
def shared(draw: st.DrawFn) -> tuple[int, dict[str, int], dict[str, float]]:
    names = [f"m{index}" for index in range(draw(st.integers(1, 12)))]
    totals = {name: draw(st.integers(1, 10_000)) for name in names}
    claim = st.one_of(st.just(0.0), st.floats(0.0, 1.0), st.floats(1e-12, 1e-6))
    return draw(st.integers(0, sum(totals.values()))), totals, {name: draw(claim) for name in names}


@settings(max_examples=300)
@given(shared())
def test_a_shared_budget_is_spent_and_nobody_gets_more_than_it_has(
    case: tuple[int, dict[str, int], dict[str, float]],
) -> None:
    budget, totals, claims = case
    counts = divide_budget(budget, totals, claims)
    assert sum(counts.values()) == budget
    assert counts.keys() == totals.keys()
    assert all(0 <= counts[name] <= totals[name] for name in totals)


@settings(max_examples=300)
@given(shared(), st.integers(1, 10_000))
def test_who_claims_more_never_gets_less(case: tuple[int, dict[str, int], dict[str, float]], total: int) -> None:
    budget, names, claims = case
    totals = dict.fromkeys(names, total)
    counts = divide_budget(budget % (total * len(totals) + 1), totals, claims)
    ranked = sorted(claims, key=lambda name: claims[name])
    for lower, higher in pairwise(ranked):
        # of two that claim alike one may get the odd weight
        assert counts[lower] <= counts[higher] + (claims[lower] == claims[higher])


@settings(max_examples=200)
@given(shared(), st.integers(0, 11), st.floats(1.1, 100.0))
def test_a_higher_claim_of_ones_own_never_costs_a_weight(
    case: tuple[int, dict[str, int], dict[str, float]], which: int, factor: float
) -> None:
    budget, totals, claims = case
    name = sorted(totals)[which % len(totals)]
    before = divide_budget(budget, totals, claims)[name]
    after = divide_budget(budget, totals, claims | {name: claims[name] * factor + 1e-3})[name]
    assert after >= before


@pytest.mark.parametrize("budget", [-1, 8])
def test_a_budget_beyond_what_there_is_is_a_bug(budget: int) -> None:
    with pytest.raises(ValueError, match=f"{budget} weights cannot be kept of 7"):
        divide_budget(budget, {"a": 3, "b": 4}, {"a": 1.0, "b": 1.0})
