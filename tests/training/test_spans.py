"""Windows over long contexts, and the exact search for the best span."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from srnet.tasks.answers.spans import SpanSplit
from srnet.training import spans as module
from srnet.training.spans import NO_LOGIT, _encode_windows, _Windows

TEXT = "river Österreich the mountain (1815) café 東京 flows north-east, into über emoji 😀 bank's"
WORDS = TEXT.split()
NUMBERS = "one two three four five six seven eight nine ten eleven twelve"
KINDS = {name.lower(): getattr(hf, f"{name}Tokenizer") for name in ("Bert", "Roberta", "Albert", "GPT2")}
every = pytest.mark.parametrize("kind", KINDS)


@cache
def tokenizer(kind: str, **options: Any) -> Any:
    texts = [TEXT, "where does the river flow?"]
    made = KINDS[kind](**options).train_new_from_iterator(texts, vocab_size=400)
    made.pad_token = made.pad_token or made.eos_token
    return made


def questions(*rows: tuple[str, str, str]) -> SpanSplit:
    """Of (question, context, answer): the first occurrence is meant."""
    starts = np.array([context.index(answer) for _, context, answer in rows])
    ends = starts + [len(answer) for _, _, answer in rows]
    return SpanSplit(
        name="dev",
        kind="ID",
        ids=tuple(map(str, range(len(rows)))),
        text_a=tuple(question for question, _, _ in rows),
        text_b=tuple(context for _, context, _ in rows),
        labels=np.stack([starts, ends], axis=1),
        groups=("",) * len(rows),
        references=tuple((answer,) for _, _, answer in rows),
    )


def long_questions(count: int = 12, words: int = 60) -> SpanSplit:
    """Contexts of several windows; the word before the answer makes it occur once."""
    rng = np.random.default_rng(0)
    rows = []
    for n in range(count):
        chosen = [str(word) for word in rng.choice(WORDS, words)]
        at = int(rng.integers(0, words - 3))
        chosen[at] = f"river{n}"
        rows.append(("where does the river flow?", " ".join(chosen), " ".join(chosen[at : at + 1 + n % 3])))
    return questions(*rows)


def tokens_of(windows: _Windows, row: int) -> slice:
    return slice(windows.starts[row], windows.starts[row] + windows.lengths[row])


def gold_logits(windows: _Windows) -> np.ndarray:
    """What a perfect model gives: the answer where it is, [CLS] elsewhere."""
    logits = np.zeros((len(windows.offsets), 2), dtype=np.float32)
    for column in (0, 1):
        logits[windows.starts + windows.labels[:, column], column] = 9.0
    return logits


# --- windows -------------------------------------------------------------------------------------------------------


@every
def test_labels_stand_for_the_answer(kind: str) -> None:
    split = long_questions()
    windows = _encode_windows(split, tokenizer(kind), max_length=64, stride=16)
    held = np.flatnonzero(windows.labels[:, 1])
    assert set(windows.example[held]) == set(range(len(split))), "each answer lies whole in some window"
    for row in held:
        example = windows.example[row]
        offsets = windows.offsets[tokens_of(windows, row)]
        first, last = windows.labels[row]
        assert (offsets[first, 0], offsets[last, 1]) == tuple(split.labels[example])
        assert windows.answerable[tokens_of(windows, row)][[first, last]].all()
    np.testing.assert_array_equal(split.answers(windows.outputs(gold_logits(windows))), 1.0)


@settings(max_examples=60)
@given(data=st.data(), kind=st.sampled_from(sorted(KINDS)))
def test_a_perfect_model_is_right_whatever_the_text(data: st.DataObject, kind: str) -> None:
    words = data.draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=40))
    space = data.draw(st.sampled_from([" ", "  ", "\n", "\u00a0 "]))
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, min(first + 2, len(words) - 1)))
    before = space.join(words[:first]) + (space if first else "")
    answer = space.join(words[first : last + 1])
    context = space.join(filter(None, [before + answer, space.join(words[last + 1 :])]))
    split = questions(("where?", context, answer))
    split = replace(split, labels=np.array([[len(before), len(before) + len(answer)]]))
    windows = _encode_windows(split, tokenizer(kind), max_length=90, stride=30)
    if windows.labels.any():
        assert split.answers(windows.outputs(gold_logits(windows)))[0, 0] == 1.0
    else:
        whole = _encode_windows(split, tokenizer(kind), max_length=2000, stride=0)
        assert np.diff(whole.labels)[0, 0] + 1 > 30, "only an answer longer than the stride may lie in no window"


@every
def test_neighbours_share_the_stride_and_all_of_the_context_is_seen(kind: str) -> None:
    split = long_questions(count=3)
    whole = _encode_windows(split, tokenizer(kind), max_length=2000, stride=0)
    windows = _encode_windows(split, tokenizer(kind), max_length=64, stride=16)
    assert len(whole) == 3 < len(windows)
    assert windows.lengths.max() <= 64
    boundary = int(kind == "gpt2")  # the line break before the context is no part of it, but is counted
    for example in range(3):
        rows = np.flatnonzero(windows.example == example)
        ids = [context_ids(windows, row, boundary=boundary * (row == rows[0])) for row in rows]
        for one, next_one in pairwise(ids):
            assert one[-16:] == next_one[:16]
        assert ids[0] + [token for each in ids[1:] for token in each[16:]] == context_ids(whole, example, boundary)


def context_ids(windows: _Windows, row: int, boundary: int = 0) -> list[int]:
    """The tokens of the context, also those that hold nothing but a space."""
    part = tokens_of(windows, row)
    places = np.flatnonzero(windows.answerable[part])
    return windows.columns["input_ids"][part][places[0] - boundary : places[-1] + 1].tolist()


def test_an_answer_between_two_windows() -> None:
    """[CLS] where [SEP] six words [SEP]: without a stride "six" ends a window, and "seven" begins the next."""
    split = questions(("where", NUMBERS, "six seven"), ("where", NUMBERS, "seven"))
    made = word_tokenizer(*NUMBERS.split(), "where")
    apart = _encode_windows(split, made, max_length=10, stride=0)
    assert apart.example.tolist() == [0, 0, 1, 1]
    assert apart.labels.tolist() == [[0, 0], [0, 0], [0, 0], [3, 3]]
    shared = _encode_windows(split, made, max_length=10, stride=2)
    assert shared.example.tolist() == [0, 0, 0, 1, 1, 1], "words 0-5, 4-9 and 8-11"
    assert shared.labels.tolist() == [[0, 0], [4, 5], [0, 0], [0, 0], [5, 5], [0, 0]]


def word_tokenizer(*words: str) -> Any:
    vocabulary = {word: n for n, word in enumerate(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words))}
    return hf.BertTokenizer(vocab=vocabulary)


@pytest.mark.parametrize("trim", [True, False], ids=["trimmed", "with-spaces"])
def test_spaces_before_a_word_belong_to_no_answer(trim: bool) -> None:
    split = questions(("where?", "the river  flows\n north", "flows"))
    made = tokenizer("roberta", trim_offsets=trim)
    windows = _encode_windows(split, made, max_length=64, stride=8)
    starts, ends = windows.offsets[windows.answerable].T
    context = split.text_b[0]
    assert all(not context[start].isspace() for start in starts)
    assert (starts < ends).all()
    assert windows.outputs(gold_logits(windows)).tolist() == [[11, 16]]


@every
def test_only_the_context_may_be_answered(kind: str) -> None:
    split = questions(("the river north", "the river north", "river"))
    windows = _encode_windows(split, tokenizer(kind), max_length=64, stride=8)
    held = {place for start, end in windows.offsets[windows.answerable].tolist() for place in range(start, end)}
    assert held == {place for place, character in enumerate("the river north") if character != " "}
    assert not windows.offsets[~windows.answerable].any()


@pytest.mark.parametrize("side", ["padding_side", "truncation_side"])
def test_a_tokenizer_that_works_from_the_left(side: str) -> None:
    made = hf.BertTokenizer(vocab=tokenizer("bert").get_vocab(), **{side: "left"})
    split = long_questions()
    windows = _encode_windows(split, made, max_length=64, stride=16)
    assert (np.diff(windows.example) >= 0).all()
    np.testing.assert_array_equal(split.answers(windows.outputs(gold_logits(windows))), 1.0)
    ids = windows.collate(np.arange(len(windows)))["input_ids"]
    assert (ids[:, 0] == made.cls_token_id).all(), "the labels (0, 0) must be [CLS]"


def test_a_character_without_a_token_does_not_lose_the_answer() -> None:
    """BERT drops control characters, also where an answer begins or ends with one."""
    split = questions(("where", "\x7fone two\x7f", "\x7fone"), ("where", "one two\x7f", "two\x7f"))
    windows = _encode_windows(split, word_tokenizer("one", "two", "where"), max_length=32, stride=4)
    assert windows.labels.tolist() == [[3, 3], [4, 4]]


def test_a_context_without_a_token_has_the_empty_answer() -> None:
    split = questions(("where", "\x7f", "\x7f"), ("where", "one", "one"))
    windows = _encode_windows(split, word_tokenizer("one", "where"), max_length=32, stride=4)
    assert windows.labels.tolist() == [[0, 0], [3, 3]]
    assert windows.outputs(gold_logits(windows)).tolist() == [[0, 0], [0, 3]]


def test_long_questions_are_cut() -> None:
    question = " ".join(["where"] * 100)
    made = word_tokenizer("one", "two", "where")
    windows = _encode_windows(questions((question, "one two", "two")), made, max_length=384, stride=128)
    assert windows.lengths.tolist() == [3 + 64 + 2]
    windows = _encode_windows(questions((question, "one two", "two")), made, max_length=20, stride=4)
    assert windows.lengths.tolist() == [3 + 9 + 2], "half of the rest is for the context"
    assert windows.labels.tolist() == [[12, 12]]


def test_a_question_cut_within_a_word_still_fits() -> None:
    split = questions(("Österreich" * 40, "the river", "river"))
    windows = _encode_windows(split, tokenizer("bert"), max_length=32, stride=8)
    assert windows.lengths.max() <= 32
    assert windows.labels.any()


def test_blocks_do_not_change_the_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    split = long_questions()
    whole = _encode_windows(split, tokenizer("bert"), 64, 16)
    monkeypatch.setattr(module, "AT_ONCE", 5)
    parts = _encode_windows(split, tokenizer("bert"), 64, 16)
    for name in ("labels", "lengths", "example", "offsets", "answerable"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))
    np.testing.assert_array_equal(whole.columns["input_ids"], parts.columns["input_ids"])


def test_windows_that_cannot_be() -> None:
    class Slow:
        is_fast, name_or_path = False, "slow/one"

    for made, length, stride, named in (
        (tokenizer("bert"), 12, 5, "max_length"),
        (tokenizer("bert"), 64, -1, "stride of -1"),
        (Slow(), 64, 16, "slow/one"),
    ):
        with refused(named):
            _encode_windows(long_questions(1), made, length, stride)


# --- batches -------------------------------------------------------------------------------------------------------


@every
def test_a_batch(kind: str) -> None:
    windows = _encode_windows(long_questions(), tokenizer(kind), 64, 16)
    rows = np.array([len(windows) - 1, 0, 3])
    batch = windows.collate(rows)
    shape = (3, int(windows.lengths[rows].max()))
    names = {"input_ids", "attention_mask", "labels"} | ({"token_type_ids"} if kind == "bert" else set())
    assert set(batch) == names
    assert all(batch[name].shape == shape for name in names - {"labels"})
    assert batch["labels"].tolist() == windows.labels[rows].tolist()
    assert batch["attention_mask"].sum(1).tolist() == windows.lengths[rows].tolist()


def test_values_of_tokens_are_padded_and_come_back() -> None:
    windows = _encode_windows(long_questions(), tokenizer("bert"), 64, 16)
    values = np.random.default_rng(0).normal(size=(len(windows.offsets), 2)).astype(np.float32)
    windows = replace(windows, token_extras={"teacher": values})
    back = np.zeros_like(values)
    for rows in np.array_split(np.random.default_rng(1).permutation(len(windows)), 4):
        batch = windows.collate(rows)
        mask, tokens = windows.layout(rows)
        assert batch["teacher"].shape == (*batch["input_ids"].shape, 2)
        assert batch["teacher"].dtype == torch.float32
        assert (batch["teacher"][batch["attention_mask"] == 0] == NO_LOGIT).all()
        back[tokens] = batch["teacher"].numpy()[mask]
    np.testing.assert_array_equal(back, values)


def test_values_for_other_tokens() -> None:
    windows = _encode_windows(long_questions(1), tokenizer("bert"), 64, 16)
    with pytest.raises(ValueError, match="teacher has 3 rows for"):
        replace(windows, token_extras={"teacher": np.zeros((3, 2))})


# --- the best span -------------------------------------------------------------------------------------------------


def made_windows(lengths: list[int], example: list[int], answerable: list[bool]) -> _Windows:
    """Windows in which the token with number n stands for the characters 10 n to 10 n + 5."""
    places = 10 * np.arange(sum(lengths))
    return _Windows(
        columns={"input_ids": places},
        labels=np.zeros((len(lengths), 2), dtype=np.int64),
        lengths=np.array(lengths),
        pad={"input_ids": 0},
        extras={},
        example=np.array(example),
        offsets=np.stack([places, places + 5], axis=1),
        answerable=np.array(answerable),
    )


def brute_force(windows: _Windows, logits: np.ndarray, longest: int) -> list[list[int]]:
    found: dict[int, tuple[float, list[int]]] = {}
    for row, example in enumerate(windows.example.tolist()):
        found.setdefault(example, (-np.inf, [0, 0]))
        tokens = range(*tokens_of(windows, row).indices(len(logits)))
        for start in tokens:
            for end in range(start, min(start + longest, tokens.stop)):
                score = float(logits[start, 0]) + float(logits[end, 1])
                if windows.answerable[[start, end]].all() and score > found[example][0]:
                    found[example] = score, [int(windows.offsets[start, 0]), int(windows.offsets[end, 1])]
    return [span for _, span in found.values()]


@st.composite
def cases(draw: st.DrawFn) -> tuple[_Windows, np.ndarray, int]:
    lengths = draw(st.lists(st.integers(1, 9), min_size=1, max_size=6))
    steps = draw(st.lists(st.integers(0, 1), min_size=len(lengths) - 1, max_size=len(lengths) - 1))
    total = sum(lengths)
    answerable = draw(st.lists(st.booleans(), min_size=total, max_size=total))
    # few different values, so that there are ties
    values = st.one_of(st.integers(-3, 3).map(float), st.floats(-(2.0**90), 2.0**90, width=32))
    logits = np.array(draw(st.lists(values, min_size=2 * total, max_size=2 * total)), dtype=np.float32)
    windows = made_windows(lengths, [0, *np.cumsum(steps).tolist()], answerable)
    return windows, logits.reshape(-1, 2), draw(st.integers(1, 12))


@settings(max_examples=300)
@given(cases())
def test_the_best_span_is_that_of_a_search_through_all(case: tuple[_Windows, np.ndarray, int]) -> None:
    windows, logits, longest = case
    assert windows.outputs(logits, longest).tolist() == brute_force(windows, logits, longest)


def test_the_best_span_by_hand() -> None:
    """Apart the best start is token 3 and the best end token 1, but an answer does not run backwards."""
    windows = made_windows([5], [0], [False, True, True, True, True])
    logits = np.array([[9, 9], [1, 5], [0, 0], [4, 0], [0, 1.5]], dtype=np.float32)
    assert windows.outputs(logits).tolist() == [[10, 15]]  # 1 + 5, against 4 + 1.5
    logits[4, 1] = 2.5
    assert windows.outputs(logits).tolist() == [[30, 45]]
    assert windows.outputs(logits, max_answer_tokens=1).tolist() == [[10, 15]]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_logits_that_are_no_numbers_are_refused(value: float) -> None:
    windows = made_windows([2, 2], [0, 1], [True] * 4)
    logits = np.array([[0, 1], [2, 1], [3, value], [1, 1]], dtype=np.float32)
    with refused("non-finite"):
        windows.outputs(logits)
