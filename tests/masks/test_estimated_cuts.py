"""Thresholds that are estimated from a sample of the scores, so that no step sorts them all."""

from __future__ import annotations

import math

import pytest
import torch

from srnet.masks.modules import SAMPLE, ScoreMask


def numbered(*shape: int) -> torch.Tensor:
    """Each entry is its own number; float32 tells them apart up to 16.7 million."""
    return torch.arange(math.prod(shape), dtype=torch.float32).reshape(shape)


def sampled(scores: torch.Tensor, turn: int) -> torch.Tensor:
    return ScoreMask(scores, 0.0).sample(turn)


def estimated(scores: torch.Tensor, kept: float, turn: int = 0) -> ScoreMask:
    """The mask with a threshold that is estimated from a sample."""
    mask = ScoreMask(scores, 0.0)
    mask.estimate_cut(mask.sample(turn), kept)
    return mask


def test_of_a_small_matrix_all_is_looked_at() -> None:
    scores = numbered(20, 30)
    for turn in (0, 1, 7):
        assert torch.equal(sampled(scores, turn), scores.flatten())
    assert sampled(numbered(2 * SAMPLE - 1), 5).numel() == 2 * SAMPLE - 1


@pytest.mark.parametrize(
    ("shape", "stride"),
    # 65,536 / 32,768 = 2, 18, 72 and 2: the next number that has no factor in common with the row's length
    [((256, 256), 3), ((768, 768), 19), ((768, 3072), 73), ((300, 300), 7)],
    ids=str,
)
def test_of_a_large_one_every_nth(shape: tuple[int, int], stride: int) -> None:
    scores = numbered(*shape)
    for turn in (0, 1, stride, stride + 2):
        assert torch.equal(sampled(scores, turn), torch.arange(turn % stride, scores.numel(), stride).float())


def test_in_time_every_score_is_looked_at() -> None:
    scores = numbered(256, 300)
    seen = torch.cat([sampled(scores, turn) for turn in range(1, 8)])  # 2, and so 7
    assert torch.equal(seen.sort().values, scores.flatten())


@pytest.mark.parametrize("shape", [(768, 768), (768, 3072), (3072, 768), (1024, 1024), (256, 256), (312, 312)], ids=str)
def test_a_sample_sees_every_column(shape: tuple[int, int]) -> None:
    """One that ran along the columns would take a part of the model's dimensions for all of them."""
    columns = sampled(numbered(*shape), 1).long() % shape[1]
    assert len(columns.unique()) == shape[1]


def test_a_sample_does_not_train() -> None:
    assert not sampled(torch.zeros(4), 0).requires_grad


# --- the cut -------------------------------------------------------------------------------------------------------

TEN = torch.tensor([3.0, 9.0, 1.0, 10.0, 5.0, 7.0, 2.0, 8.0, 6.0, 4.0])


@pytest.mark.parametrize(
    ("kept", "cut"), [(0.0, math.inf), (0.1, 10.0), (0.3, 8.0), (0.5, 6.0), (0.9, 2.0), (1.0, -math.inf)]
)
def test_a_cut_by_hand(kept: float, cut: float) -> None:
    mask = estimated(TEN, kept)
    assert mask.phi.item() == cut
    assert int(mask.binary().sum()) == round(10 * kept)


def test_where_everything_is_kept_what_the_sample_missed_is_kept_too() -> None:
    scores = torch.zeros(300, 300)
    scores[0, 0] = -1.0
    assert sampled(scores, 1).min() == 0.0
    assert estimated(scores, 1.0, turn=1).binary().all()


def test_where_scores_are_tied_more_stay() -> None:
    tied = torch.tensor([0.0, 0.0, 0.0, 1.0])
    assert estimated(tied, 0.25).phi.item() == 1.0
    assert estimated(tied, 0.5).phi.item() == 0.0  # all four: a tie must not wipe out a matrix
    assert estimated(torch.zeros(50), 0.03).binary().all()


@pytest.mark.parametrize("kept", [0.5, 0.1, 0.03])
def test_an_estimate_is_right_to_a_few_thousandths(kept: float) -> None:
    scores = torch.randn(768, 768, generator=torch.Generator().manual_seed(0))
    assert float(estimated(scores, kept, turn=3).binary().float().mean()) == pytest.approx(kept, abs=0.006)
