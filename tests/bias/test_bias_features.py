"""The features of the bias model, computed by hand."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

import srnet.bias.texts
from srnet.bias.shortcuts.base import KINDS, PLAIN
from srnet.bias.shortcuts.overlap import overlap_features
from srnet.bias.shortcuts.words import Bag, pooled
from srnet.bias.texts import task_vocabulary, tokenise, words
from srnet.bias.vectors import WordVectors
from srnet.tasks.base import Task
from srnet.tasks.splits import Example, Split

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


def test_unknown_words_empty_texts_and_opposites() -> None:
    rows = overlap_features(["lawyer", "zebra", "the lawyer", ""], ["zebra", "zebra", "", "lawyer"], VECTORS)
    assert rows.tolist() == [[0] * 5, [1] * 5, [0] * 5, [0] * 5], "an unknown word is similar to itself only"
    vectors = WordVectors({"hot": 0, "cold": 1}, np.array([[1.0, 1.0], [-1.0, -1.0]]))
    assert overlap_features(["hot"], ["cold"], vectors)[0, 3:].tolist() == pytest.approx([-1.0, -1.0])


def test_a_row_is_contiguous_only_in_one_piece() -> None:
    premises = ["a b a c", "a b a c", "a b", "b a", "x a b"]
    hypotheses = ["a c", "a a", "a b a", "a b", "A, B."]
    # "a b a" has every word inside, but is longer than its premise
    assert overlap_features(premises, hypotheses, None)[:, :2].tolist() == [[1, 1], [1, 0], [1, 0], [1, 0], [1, 1]]


def test_repeated_words_count_each_time() -> None:
    assert overlap_features(["a a a"], ["a a b b b"], None)[0, 2] == pytest.approx(2 / 5)


def test_extended_without_vectors() -> None:
    rows = overlap_features(["a b c d", "a", "a b"], ["a", "a b", "a b"], None, extended=True)
    assert rows[:, 3].tolist() == pytest.approx([np.log(3), 0, 0])  # 3 words more; fewer; as many


def test_extended_with_vectors() -> None:
    vectors = WordVectors({"x": 0, "y": 1, "z": 2}, np.array([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]]))
    rows = overlap_features(["x"] * 4, ["z y x", "y", "x y", "x x"], vectors, extended=True)
    assert rows.shape == (4, 7)
    assert rows[:, 4].tolist() == pytest.approx([-1, 0.6, 0.6, 1])
    assert rows[:, 6].tolist() == pytest.approx([0.6, 0, 1, 1])  # of one word there is no second


def test_both_sides_have_as_many_texts() -> None:
    with pytest.raises(ValueError, match="2 premises for 1 hypotheses"):
        overlap_features(["a", "b"], ["a"], None)
    assert overlap_features([], [], VECTORS, extended=True).shape == (0, 7)


# ASCII only: capitals of other scripts do not always come back ("ß" becomes "SS")
texts = st.lists(st.sampled_from(["the", "doctor", "lawyer", "left", "saw", "zebra", ","]), max_size=6).map(" ".join)


@settings(max_examples=100)
@given(texts, texts)
def test_bounds_and_case(premise: str, hypothesis: str) -> None:
    row = overlap_features([premise], [hypothesis], VECTORS)[0]
    assert ((row[:3] >= 0) & (row[:3] <= 1)).all()
    assert row[0] >= row[1], "a contiguous subsequence has all its words in the premise"
    assert (row[0] == 1) == (row[2] == 1)
    assert row[4] <= row[3] + 1e-9
    assert (overlap_features([premise.upper()], [hypothesis.title()], VECTORS)[0] == row).all()


# --- against the slow way ------------------------------------------------------------------------------------------

# few words, so that they meet; final sigma, a capital whose lower case is two characters, separators, other scripts
pieces = st.sampled_from(
    ["a", "B", "the", "The", "ΟΔΟΣ", "οδος", "Σ", "İ", "ß", "é", "e\u0301", "日本", "x_1", "½", "٣"]
)
separators = st.sampled_from([" ", "\n", "\t", ",", "-", "\x00", "\u2028", "\xa0", "'", "", "\ud800", "·"])
mixed = st.lists(st.tuples(pieces, separators).map("".join), max_size=8).map("".join)
any_text = mixed | st.text(max_size=20)
some_vectors = st.lists(st.lists(st.integers(-3, 3).map(float), min_size=3, max_size=3), min_size=4, max_size=4).map(
    lambda rows: dict(zip(["a", "the", "οδος", "日本"], map(np.array, rows), strict=True))
)


def made_of(vectors: dict[str, np.ndarray]) -> WordVectors:
    return WordVectors({word: row for row, word in enumerate(vectors)}, np.stack(list(vectors.values())))


@settings(max_examples=150)
@given(st.lists(any_text, max_size=6))
def test_tokens_are_the_words_of_each_text(texts: list[str]) -> None:
    tokens = tokenise(texts)
    found = [tokens.vocabulary[id] for id in tokens.ids]
    assert [found[a : a + n] for a, n in zip(tokens.starts, tokens.counts, strict=True)] == [words(t) for t in texts]
    assert len(set(tokens.vocabulary)) == len(tokens.vocabulary)


@settings(max_examples=150)
@given(st.lists(st.tuples(any_text, any_text), min_size=1, max_size=12), some_vectors, st.integers(1, 5), st.booleans())
def test_as_the_reference_whatever_the_chunks(
    pairs: list[tuple[str, str]], vectors: dict[str, np.ndarray], chunk: int, extended: bool
) -> None:
    a, b = zip(*pairs, strict=True)
    made, usual = made_of(vectors), srnet.bias.texts.CHUNK
    whole = overlap_features(a, b, made, extended), overlap_features(a, b, None, extended), pooled(b, made)
    try:
        srnet.bias.texts.CHUNK = chunk
        parts = overlap_features(a, b, made, extended), overlap_features(a, b, None, extended), pooled(b, made)
    finally:
        srnet.bias.texts.CHUNK = usual
    slow = (
        *(reference.overlap_features(a, b, each, extended) for each in (vectors, None)),
        reference.claim_features(b, vectors),
    )
    for one, other, third in zip(whole, parts, slow, strict=True):
        np.testing.assert_allclose(one, third, atol=1e-6)
        np.testing.assert_allclose(other, one, atol=1e-6)


@pytest.mark.parametrize("words_at_once", [1, 7, 8192])
def test_many_long_texts_as_the_reference(words_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srnet.bias.shortcuts.overlap._WORDS_AT_ONCE", words_at_once)
    monkeypatch.setattr("srnet.bias.texts.CHUNK", 64)
    rng = np.random.default_rng(0)
    names = [f"w{i}" for i in range(300)]
    vectors = dict(zip(names[:250], rng.normal(size=(250, 8)), strict=True))

    def texts() -> list[str]:
        return [" ".join(rng.choice(names, rng.integers(0, 40)) if i % 9 else names[:400]) for i in range(200)]

    a, b = texts(), texts()
    b[:50] = [text[3:40] for text in a[:50]]  # some that do occur
    fast = overlap_features(a, b, made_of(vectors), extended=True)
    np.testing.assert_allclose(fast, reference.overlap_features(a, b, vectors, extended=True), atol=1e-5)


@settings(max_examples=100)
@given(any_text, any_text, some_vectors)
def test_bounds(premise: str, hypothesis: str, vectors: dict[str, np.ndarray]) -> None:
    row = overlap_features([premise], [hypothesis], made_of(vectors), extended=True)[0]
    assert ((row[:3] >= 0) & (row[:3] <= 1)).all()
    assert (np.abs(row[[3, 4, 6]]) <= 1 + 1e-6).all()
    assert row[4] <= row[3] + 1e-6
    assert row[5] >= 0
    if len(words(hypothesis)) > 1:
        assert row[4] <= row[6]


def test_the_vocabulary_of_a_task_is_of_all_its_splits() -> None:
    def split(name: str, a: str, b: str) -> Split:
        return Split.of(name, "ID", [Example(name, a, b, 0)])

    train, dev, ood = split("train", "One TWO", "three"), split("dev", "four", ""), split("hard", "5", "Über-six")
    task = Task("toy", ("no",), "accuracy", "overlap", train, dev, {"hard": ood}, split("more", "seven", ""))
    assert task_vocabulary(task) == {"one", "two", "three", "four", "5", "über", "six", "seven"}


# --- claims --------------------------------------------------------------------------------------------------------


def test_claims_are_max_pooled() -> None:
    vectors = WordVectors({"a": 0, "b": 1}, np.array([[1.0, -2.0, -5.0], [0.0, 3.0, -4.0]]))
    rows = pooled(["a B", "a", "a zebra", ""], vectors)
    assert rows.tolist() == [
        [1, 3, -4],  # dimension by dimension
        [1, -2, -5],  # not normalised
        [1, 0, 0],  # an unknown word is the zero vector
        [0, 0, 0],
    ]


def test_a_backbone_brings_its_own_vectors(tiny_backbone: str) -> None:
    vectors = WordVectors.from_backbone(tiny_backbone)
    similarity = overlap_features(["doctor", "lawyer"], ["doctor", "doctor"], vectors)[:, 3]
    assert similarity[0] == 1.0
    assert 0.0 < abs(similarity[1]) < 1.0, "both words are known, and they have a vector each"
    assert pooled(["the doctor left"], vectors).shape == (1, 32)


def test_claims_as_words_they_hold() -> None:
    known = Bag.of(["a cat, a cat", "A dog", "the dog", "The zebra"])
    assert known.words == ("a", "dog", "the"), "in two claims, not twice in one"
    rows = known.matrix(["the THE dog", "zebra", ""])
    assert rows.toarray().tolist() == [[0, 1, 1], [0, 0, 0], [0, 0, 0]]


def test_claims_without_a_common_word() -> None:
    examples = [Example(str(n), "a", text, 0) for n, text in enumerate(["one", "two", ""])]
    train, dev = (Split.of(name, "ID", examples) for name in ("train", "dev"))
    task = Task("toy", ("no", "yes"), "accuracy", "claim", train, dev, {})
    with refused("two texts"):
        KINDS["claim"].fit(task, "", PLAIN)
