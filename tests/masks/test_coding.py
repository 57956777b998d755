"""A coded mask: it costs what its entropy is, comes back bit by bit, and comes back from nothing but itself."""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from srnet.core.errors import UserError
from srnet.masks.coding import _entropy, decode_mask, encode_mask
from srnet.masks.mask import Mask

BACKBONE, OTHER = "ab" * 32, "cd" * 32
START = 11 + 32
"""Of the content, behind the magic and its checksum."""


def content(data: bytes) -> tuple[bytes, bytes]:
    """The header, and counts and coded bits behind it."""
    size = int.from_bytes(data[START + 32 : START + 36], "little")
    return data[START + 36 : START + 36 + size], data[START + 36 + size :]


def sealed(inner: bytes) -> bytes:
    """A forger's file, with a checksum that fits."""
    return b"SRNETMASK2\n" + hashlib.sha256(inner).digest() + inner


def rising(count: int) -> torch.Tensor:
    """1, -2, 3, ...: magnitudes that differ by more than the bins can miss."""
    return torch.tensor([(1 + n) * (-1) ** n for n in range(count)], dtype=torch.float32)


# --- what it costs -------------------------------------------------------------------------------------------------


def test_entropy_by_hand() -> None:
    # 8 bits, 2 of them set: 2 * log2(8/2) + 6 * log2(8/6) = 4 + 6 * 0.41504
    assert _entropy(8, 2) == pytest.approx(4 + 6 * math.log2(4 / 3))
    assert _entropy(8, 4) == 8.0
    assert _entropy(8, 0) == _entropy(8, 8) == _entropy(0, 0) == 0.0


def test_a_mask_by_magnitude_is_nothing_but_its_counts() -> None:
    weights = {"a": rising(16)[5 * torch.arange(16) % 16].reshape(4, 4)}  # no row or column is pruned as a whole
    mask = Mask({"a": weights["a"].abs() > 8})
    # two bins of eight cost two counts of a byte; one bin would cost a count and 16 bits, and more bins more counts
    _, rest = content(encode_mask(mask, weights, BACKBONE))
    assert rest == bytes([0, 8])


@pytest.mark.parametrize("transposed", [False, True])
def test_rows_and_columns_that_are_pruned_as_a_whole_cost_a_bit_each(transposed: bool) -> None:
    keep = torch.zeros(64, dtype=torch.bool)
    keep[torch.randperm(64, generator=torch.Generator().manual_seed(0))[:32]] = True
    whole = keep[:, None].expand(64, 500)
    whole = whole.T if transposed else whole
    weights = {"a": torch.randn(whole.shape, generator=torch.Generator().manual_seed(1))}
    data = encode_mask(Mask({"a": whole.contiguous()}), weights, BACKBONE)
    header, rest = content(data)
    assert json.loads(zlib.decompress(header)) == {"a": -2 if transposed else -1}
    assert len(rest) <= 1 + 64 / 8 + 4  # the count, the bits, and the rest of a word
    assert decode_mask(data, weights, BACKBONE) == Mask({"a": whole.contiguous()})


def test_a_flipped_weight_costs_its_bin_alone() -> None:
    weights = {"a": 1.0 + torch.arange(4096) // 8}  # 512 magnitudes, each eight times
    keep = weights["a"] > 256
    keep[5] = True
    _, rest = content(encode_mask(Mask({"a": keep}), weights, BACKBONE))
    # 2 bins: 2 counts of 2 bytes, and 2048 bits with one set: 11 + 2047 * log2(2048 / 2047) = 12.4, in one word of four
    # bytes. 4 bins would save that one a bit and cost two counts more
    assert rest[:4] == (1).to_bytes(2, "little") + (2048).to_bytes(2, "little")
    assert len(rest) == 4 + 4


@pytest.mark.parametrize("share", [0.5, 0.25, 0.03, 0.0005])
def test_a_random_mask_costs_its_entropy(share: float) -> None:
    generator = torch.Generator().manual_seed(0)
    weights = {"a": torch.randn(1000, 1000, generator=generator)}
    keep = torch.rand(1000, 1000, generator=generator) < share
    header, rest = content(encode_mask(Mask({"a": keep}), weights, BACKBONE))
    exact = _entropy(1_000_000, int(keep.sum()))
    assert exact <= 8 * len(rest) <= 1.001 * exact + 8 * (3 + 8), "a count of 3 bytes, and the coder's last two words"
    assert len(header) < 64


def test_four_percent_of_flips_cost_theirs() -> None:
    generator = torch.Generator().manual_seed(0)
    weights = {"a": torch.randn(1000, 1000, generator=generator)}
    flips = torch.rand(1000, 1000, generator=generator) < 0.04
    mask = Mask({"a": (weights["a"].abs() > weights["a"].abs().median()) ^ flips})
    size = 8 * len(encode_mask(mask, weights, BACKBONE))
    assert _entropy(100, 4) / 100 <= size / 1_000_000 <= _entropy(100, 4) / 100 + 0.01


def test_the_same_bytes_on_every_machine() -> None:
    """Sender and receiver may have other machines and other versions of the coder."""
    numbers = np.arange(3000) ** 2 * 7919 % 2_097_143 - 2**20
    weights = {"a": torch.tensor(numbers % 1999 - 1000).float() / 512, "b": torch.tensor(numbers[:60]).float()}
    keep = {name: (each.abs() > 1) ^ (torch.arange(len(each)) % 37 == 0) for name, each in weights.items()}
    data = encode_mask(Mask(keep), weights, BACKBONE)
    _, rest = content(data)
    assert hashlib.sha256(rest).hexdigest() == "5e8f1684e17ee926d8646dc1a49edafa0a1b4e53acd97f08d3c4ce4326094e53"
    assert decode_mask(data, weights, BACKBONE) == Mask(keep)


# --- it comes back -------------------------------------------------------------------------------------------------

shapes = st.lists(st.lists(st.integers(0, 40), min_size=0, max_size=3).map(tuple), max_size=4)


@st.composite
def masked_weights(draw: Any) -> tuple[Mask, dict[str, torch.Tensor]]:
    """Few different magnitudes or many, none kept or all, bits that follow magnitudes or do not."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    levels, share = draw(st.sampled_from([1, 2, 5, 10**6])), draw(st.sampled_from([0.0, 0.001, 0.3, 0.5, 0.99, 1.0]))
    follows, units = draw(st.booleans()), draw(st.sampled_from([None, 0, 1]))
    weights, keep = {}, {}
    for number, shape in enumerate(draw(shapes)):
        values = rng.integers(-levels, levels + 1, shape) / levels
        noise = rng.random(shape) if not follows else np.abs(values) + 0.01 * rng.random(shape)
        if units is not None and len(shape) == 2 and noise.size:  # the same along one dimension
            noise = np.broadcast_to(noise.max(axis=units, keepdims=True), shape)
        cut = np.quantile(noise, 1 - share) if noise.size else 0.0
        weights[f"{number}"] = torch.from_numpy(np.asarray(values, np.float32))
        keep[f"{number}"] = torch.from_numpy(np.asarray(noise >= cut if share else np.zeros(shape), bool))
    return Mask(keep), weights


@given(masked_weights())
def test_roundtrip(made: tuple[Mask, dict[str, torch.Tensor]]) -> None:
    mask, weights = made
    assert decode_mask(encode_mask(mask, weights, BACKBONE), weights, BACKBONE) == mask


@pytest.mark.parametrize("value", [0.0, -0.0, 1e-42, 3.0])
@pytest.mark.parametrize("kept", [0, 1, 499, 500])
def test_equal_magnitudes(value: float, kept: int) -> None:
    weights = {"a": torch.full((500,), value) * torch.tensor([1.0, -1.0]).repeat(250)}
    mask = Mask({"a": torch.arange(500) < kept})
    assert decode_mask(encode_mask(mask, weights, BACKBONE), weights, BACKBONE) == mask


def test_a_receiver_may_know_the_shape_alone() -> None:
    shape_alone = {"head": torch.zeros(()).expand(2, 300)}
    mask = Mask({"head": torch.rand(2, 300, generator=torch.Generator().manual_seed(0)) < 0.5})
    assert decode_mask(encode_mask(mask, shape_alone, BACKBONE), shape_alone, BACKBONE) == mask


def test_layout_in_memory_does_not_matter() -> None:
    weight = rising(600).reshape(20, 30)
    mask = Mask({"a": weight.abs() > 100})
    data = encode_mask(mask, {"a": weight}, BACKBONE)
    assert decode_mask(data, {"a": weight.T.contiguous().T}, BACKBONE) == mask


# --- refused -------------------------------------------------------------------------------------------------------

WEIGHTS = {"a": rising(600).reshape(20, 30), "b": rising(50)}
MASK = Mask({"a": torch.rand(20, 30, generator=torch.Generator().manual_seed(1)) < 0.4, "b": WEIGHTS["b"] > 0})
DATA = encode_mask(MASK, WEIGHTS, BACKBONE)


def test_another_backbone_is_refused() -> None:
    with refused("m.coded", "abababababab", "cdcdcdcdcdcd"):
        decode_mask(DATA, WEIGHTS, OTHER, "m.coded")


@pytest.mark.parametrize("place", range(len(DATA)))
def test_a_flipped_bit_is_refused_wherever_it_is(place: int) -> None:
    damaged = bytearray(DATA)
    damaged[place] ^= 1 << place % 8
    with refused("m.coded"):
        decode_mask(bytes(damaged), WEIGHTS, BACKBONE, "m.coded")


@given(st.integers(0, len(DATA) - 1))
def test_a_truncated_file_is_refused(size: int) -> None:
    with refused("m.coded"):
        decode_mask(DATA[:size], WEIGHTS, BACKBONE, "m.coded")


@given(st.integers(START + 32, len(DATA) - 1), st.integers(1, 255), st.booleans())
def test_a_forged_file_is_refused_or_a_mask_for_these_weights(place: int, change: int, cut: bool) -> None:
    inner = bytearray(DATA[START:])
    inner[place - START] ^= change
    try:
        made = decode_mask(sealed(bytes(inner[: place - START] if cut else inner)), WEIGHTS, BACKBONE)
    except UserError:
        return
    assert all(made[name].shape == WEIGHTS[name].shape for name in made)


def forged(header: bytes, rest: bytes) -> bytes:
    return sealed(bytes.fromhex(BACKBONE) + len(header).to_bytes(4, "little") + header + rest)


@pytest.mark.parametrize(
    ("header", "named"),
    [
        (b'{"a": 9}', "header"),
        (b'{"a": -3}', "header"),
        (b'{"b": -1}', "rows or columns"),
        (b'{"a": true}', "header"),
        (b'{"a": 1.0}', "header"),
        (b'["a"]', "header"),
        (b'{"c": 1}', "'c'"),
        (b'{"b": 1, "a": 1}', "matrix"),
        (b"{", "unreadable"),
        (b"[" * 100_000, "unreadable"),
        (b" " * (1 << 23), "unreadable"),
    ],
)
def test_a_forged_header_is_refused(header: bytes, named: str) -> None:
    with refused("m.coded", named):
        decode_mask(forged(zlib.compress(header), content(DATA)[1]), WEIGHTS, BACKBONE, "m.coded")


def test_forged_counts_and_bits_are_refused() -> None:
    header, rest = content(encode_mask(Mask({"b": MASK["b"]}), WEIGHTS, BACKBONE))
    counts = (b"\xff" + rest[1:], b"")
    bits = (rest + b"\1", rest + bytes(4), rest + b"\1\0\0\0")
    for changed in (*counts, *bits):
        with refused("m.coded", "counts" if changed in counts else "bits"):
            decode_mask(forged(header, changed), WEIGHTS, BACKBONE, "m.coded")
