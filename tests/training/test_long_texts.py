"""Texts that are far longer than a model reads: the same tokens, without the memory."""

from __future__ import annotations

import os
import random
import resource

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from srnet.tasks.splits import Split
from srnet.training import data
from srnet.training.data import encode

LENGTH = 16


def pairs(first: list[str], second: list[str]) -> Split:
    count = len(first)
    return Split("dev", "ID", ("",) * count, tuple(first), tuple(second), np.zeros(count, np.int64), ("",) * count)


@pytest.fixture(scope="module")
def tokenizer(tiny_backbone: str) -> object:
    return AutoTokenizer.from_pretrained(tiny_backbone)


def text(words: int, rng: random.Random) -> str:
    return " ".join(rng.choice(("the", "doctor", "saw", "xyzzy", "é", "日本", "a-b", "don't")) for _ in range(words))


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(1, 400), st.integers(1, 400)), min_size=1, max_size=4), st.randoms())
def test_the_tokens_are_those_of_the_whole_texts(
    tokenizer: object, lengths: list[tuple[int, int]], rng: random.Random
) -> None:
    split = pairs([text(a, rng) for a, _ in lengths], [text(b, rng) for _, b in lengths])
    ours = encode(split, tokenizer, LENGTH)
    whole = tokenizer(list(split.text_a), list(split.text_b), truncation=True, max_length=LENGTH)  # type: ignore[operator]
    assert ours.columns["input_ids"].tolist() == [token for row in whole["input_ids"] for token in row]


def test_a_long_pair_is_cut_before_it_is_paired(tokenizer: object) -> None:
    """Memory does not grow with the square of the length: measured in a process of its own."""
    rng = random.Random(0)
    split = pairs([text(5_000, rng) for _ in range(20)], [text(2_500, rng) for _ in range(20)])
    child = os.fork()
    if child == 0:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        encode(split, tokenizer, 128)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        os._exit(min(255, grown // 2**10 // 4))  # in steps of 4 MiB
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) * 4 < 200
    assert min(map(len, split.text_b)) > data._LONG * 128, "the case is long enough to be cut"
