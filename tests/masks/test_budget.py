"""Budgets are met to the weight, whatever the scores look like."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from srnet.errors import UserError
from srnet.masks import check_sparsity, keep_largest, meet_budget, prune_count
from srnet.masks.scores import cut_between

FEW_VALUES = st.sampled_from([-1.0, 0.0, 0.01, 0.02])
"""So few different scores that ties are the rule: hard initialisation (Eq. 1) gives just two."""


@st.composite
def tied_scores(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Scores and magnitudes with many ties, and how many of them to prune."""
    count = draw(st.integers(1, 40))
    scores = draw(st.lists(FEW_VALUES, min_size=count, max_size=count))
    magnitude = draw(st.lists(st.sampled_from([0.1, 0.2, 0.3]), min_size=count, max_size=count))
    return torch.tensor(scores), torch.tensor(magnitude), draw(st.integers(0, count))


@settings(deadline=None, max_examples=150)
@given(tied_scores(), st.booleans())
def test_keeps_exactly_the_rest(case: tuple[torch.Tensor, torch.Tensor, int], with_tiebreak: bool) -> None:
    scores, magnitude, pruned = case
    keep = keep_largest(scores, pruned, magnitude if with_tiebreak else None)
    assert int(keep.sum()) == len(scores) - pruned
    if 0 < pruned < len(scores):
        assert scores[keep].min() >= scores[~keep].max()


@settings(deadline=None, max_examples=150)
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


@settings(deadline=None, max_examples=80)
@given(tied_scores())
def test_cut_reproduces_the_mask(case: tuple[torch.Tensor, torch.Tensor, int]) -> None:
    scores, magnitude, pruned = case
    keep = keep_largest(scores, pruned, magnitude)
    before = scores.clone()
    phi = cut_between(scores, keep)
    assert torch.equal(scores >= phi, keep)  # the comparison that the forward pass makes
    # what training learned is not disturbed: tied scores move by one unit in the last place, all others not at all
    assert torch.allclose(scores, before, rtol=1e-6, atol=1e-6)
    assert torch.equal(scores[keep], before[keep])


def test_cut_when_nothing_is_kept() -> None:
    scores = torch.tensor([0.5, 1e30])
    assert not (scores >= cut_between(scores, torch.zeros(2, dtype=torch.bool))).any()


# --- several matrices ----------------------------------------------------------------------------------------------

sparsities = st.floats(0.0, 0.99)


@settings(deadline=None, max_examples=80)
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
    with pytest.raises(UserError, match="out of range"):
        check_sparsity(sparsity)
    with pytest.raises(UserError, match="out of range"):
        prune_count(sparsity, 10)


def test_prune_count_by_hand() -> None:
    assert [prune_count(0.7, n) for n in (10, 100, 768 * 768)] == [7, 70, 412877]
