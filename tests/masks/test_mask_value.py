"""The mask as a value: what it accepts, counts, combines and writes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from srnet.masks.mask import Mask


def mask(**rows: list[int]) -> Mask:
    return Mask({name: torch.tensor(row, dtype=torch.bool) for name, row in rows.items()})


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.uint8])
def test_only_booleans_are_masks(dtype: torch.dtype) -> None:
    # the published code stores float32 masks; 0.5 would then silently scale a weight
    with pytest.raises(ValueError, match=r"a\.weight"):
        Mask({"a.weight": torch.ones(2, dtype=dtype)})


def test_counts() -> None:
    m = mask(a=[1, 0, 0, 0], b=[1, 1])
    assert (m.total, m.kept, m.sparsity) == (6, 3, 0.5)
    assert m.sparsities() == {"a": 0.75, "b": 0.0}


def test_a_mask_does_not_follow_the_tensor_it_was_made_of() -> None:
    source = torch.ones(3, dtype=torch.bool)
    m = Mask({"a": source})
    source[0] = False
    assert m.kept == 3


def test_equality_is_by_value() -> None:
    assert mask(a=[1, 0], b=[1]) == mask(b=[1], a=[1, 0])
    assert hash(mask(a=[1, 0], b=[1])) == hash(mask(b=[1], a=[1, 0]))
    assert mask(a=[1, 0]) != mask(a=[0, 1])
    assert mask(a=[1, 0]) != mask(b=[1, 0])
    assert Mask({"a": torch.ones(2, 3, dtype=torch.bool)}) != Mask({"a": torch.ones(3, 2, dtype=torch.bool)})


def test_union_and_intersection() -> None:
    left, right = mask(a=[1, 1, 0, 0]), mask(a=[1, 0, 1, 0])
    assert left.union(right) == mask(a=[1, 1, 1, 0])
    assert left.intersection(right) == mask(a=[1, 0, 0, 0])


def test_masks_of_different_matrices_do_not_combine() -> None:
    for other in (mask(b=[1, 1]), mask(a=[1, 1, 1])):
        with pytest.raises(ValueError, match="same matrices"):
            mask(a=[1, 1]).union(other)


def test_apply_zeroes_what_is_pruned_and_nothing_else() -> None:
    weights = {"a": torch.tensor([2.0, -3.0]), "bias": torch.tensor([5.0])}
    applied = mask(a=[0, 1]).apply(weights)
    assert applied["a"].tolist() == [0.0, -3.0]
    assert applied["bias"] is weights["bias"]
    assert weights["a"].tolist() == [2.0, -3.0], "the caller's weights stay as they were"


def test_apply_zeroes_even_what_is_not_finite() -> None:
    # 0 * inf would be nan, so a product is not good enough
    assert mask(a=[0]).apply({"a": torch.tensor([torch.inf])})["a"].tolist() == [0.0]


@pytest.mark.parametrize("weights", [{}, {"a": torch.ones(3)}])
def test_apply_refuses_a_model_it_does_not_fit(weights: dict[str, torch.Tensor]) -> None:
    with refused("a is missing"):
        mask(a=[1, 0]).apply(weights)


# --- bytes ---------------------------------------------------------------------------------------------------------

shapes = st.dictionaries(
    st.text(min_size=1, max_size=8), st.lists(st.integers(0, 5), min_size=0, max_size=3), max_size=4
)


@settings(max_examples=60)
@given(shapes, st.integers(0, 2**31))
def test_bytes_roundtrip(shapes: dict[str, list[int]], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    m = Mask({name: torch.rand(shape, generator=generator) < 0.5 for name, shape in shapes.items()})
    assert Mask.from_bytes(m.to_bytes()) == m


def test_one_bit_per_weight() -> None:
    # the published mask.pt takes four bytes per weight: 326 MiB for BERT-base
    size = len(Mask({"a.weight": torch.rand(1000, 100) < 0.5}).to_bytes())
    assert 100_000 / 8 <= size < 100_000 / 8 + 200


def test_every_flipped_byte_and_every_truncation_is_noticed() -> None:
    data = mask(a=[1, 0, 1], b=[0, 1]).to_bytes()
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 1
        for altered in (bytes(flipped), data[:position]):
            with refused("mask-file"):
                Mask.from_bytes(altered, source="mask-file")
