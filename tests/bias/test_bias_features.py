"""What the bias model sees, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srnet.bias import WordVectors, claim_features, overlap_features

PAIRS = (
    ("The doctor saw the lawyer .", "the lawyer"),  # contiguous
    ("The doctor near the lawyer slept .", "the doctor slept"),  # every word occurs, but with a gap
    ("The lawyer left .", "the doctor left"),  # "doctor" is new
)
PREMISES, HYPOTHESES = zip(*PAIRS, strict=True)

# unit length only after normalisation; "the", "saw", "near" and "slept" are unknown
VECTORS = WordVectors({"lawyer": 0, "doctor": 1, "left": 2}, np.array([[3.0, 0.0], [0.6, 0.8], [0.0, 2.0]]))


def test_overlap_without_vectors() -> None:
    # all words in, contiguous subsequence, share of words in
    assert overlap_features(PREMISES, HYPOTHESES, None).tolist() == [[1, 1, 1], [1, 0, 1], [0, 0, pytest.approx(2 / 3)]]


def test_overlap_with_vectors() -> None:
    rows = overlap_features(PREMISES, HYPOTHESES, VECTORS)
    assert rows[:, :3].tolist() == overlap_features(PREMISES, HYPOTHESES, None).tolist()
    assert rows[0, 3:].tolist() == rows[1, 3:].tolist() == [1.0, 1.0]  # a word is entirely similar to itself
    # doctor = (0.6, 0.8) is nearest to left = (0, 1): 0.8, before lawyer = (1, 0): 0.6. So 1, 0.8, 1.
    assert rows[2, 3:].tolist() == pytest.approx([2.8 / 3, 0.8])


def test_an_unknown_word_is_similar_to_itself_only() -> None:
    rows = overlap_features(["lawyer", "zebra"], ["zebra", "zebra"], VECTORS)
    assert rows.tolist() == [[0, 0, 0, 0, 0], [1, 1, 1, 1, 1]]


def test_opposite_words_are_dissimilar() -> None:
    vectors = WordVectors({"hot": 0, "cold": 1}, np.array([[1.0, 1.0], [-1.0, -1.0]]))
    assert overlap_features(["hot"], ["cold"], vectors)[0, 3:].tolist() == pytest.approx([-1.0, -1.0])


def test_empty_texts_have_no_overlap() -> None:
    assert overlap_features(["the lawyer", ""], ["", "lawyer"], VECTORS).tolist() == [[0] * 5, [0] * 5]


# ASCII only: capitals of other scripts do not always come back ("ß" becomes "SS")
texts = st.lists(st.sampled_from(["the", "doctor", "lawyer", "left", "saw", "zebra", ","]), max_size=6).map(" ".join)


@settings(deadline=None, max_examples=100)
@given(texts, texts)
def test_bounds_and_case(premise: str, hypothesis: str) -> None:
    row = overlap_features([premise], [hypothesis], VECTORS)[0]
    assert ((row[:3] >= 0) & (row[:3] <= 1)).all()
    assert row[0] >= row[1], "a contiguous subsequence has all its words in the premise"
    assert (row[0] == 1) == (row[2] == 1)
    assert row[4] <= row[3] + 1e-9
    assert (overlap_features([premise.upper()], [hypothesis.title()], VECTORS)[0] == row).all()


# --- claims --------------------------------------------------------------------------------------------------------


def test_claims_are_max_pooled() -> None:
    vectors = WordVectors({"a": 0, "b": 1}, np.array([[1.0, -2.0, -5.0], [0.0, 3.0, -4.0]]))
    rows = claim_features(["a B", "a", "a zebra", ""], vectors)
    assert rows.tolist() == [
        [1, 3, -4],  # dimension by dimension
        [1, -2, -5],  # not normalised
        [1, 0, 0],  # an unknown word is the zero vector
        [0, 0, 0],
    ]


def test_a_backbone_brings_its_own_vectors(tiny_backbone: str) -> None:
    vectors = WordVectors.from_backbone(tiny_backbone)
    assert vectors.best_similarities(["doctor"], ["doctor"]).tolist() == [1.0]
    different = vectors.best_similarities(["doctor"], ["lawyer"])[0]
    assert 0.0 < abs(different) < 1.0, "both words are known, and they have a vector each"
    assert claim_features(["the doctor left"], vectors).shape == (1, 32)
