"""Decisions as bits, between two refreshes."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from srnet.masks.bits import pack_bits, unpack_bits


def test_by_hand() -> None:
    # of 11 decisions, padded to 16, each byte has two neighbours of a pair: the n-th of each eighth
    keep = torch.tensor([1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1], dtype=torch.bool)
    # eighths: (1, 0), (0, 1), (1, 1), (0, 0), (0, 1), (1, -): bits 0, 2 and 5 of the first, 1, 2 and 4 of the second
    assert pack_bits(keep).tolist() == [1 + 4 + 32, 2 + 4 + 16]


@given(st.lists(st.integers(1, 7), min_size=1, max_size=3), st.integers(0, 9))
def test_nothing_is_lost(shape: list[int], seed: int) -> None:
    keep = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) > 0.5
    packed = pack_bits(keep)
    assert packed.numel() == -(-keep.numel() // 8)
    assert torch.equal(unpack_bits(packed, keep.shape), keep)
    across = keep.movedim(0, -1)  # not in one piece
    assert torch.equal(unpack_bits(pack_bits(across), across.shape), across)
