"""The loss on pairs and neutral text: by hand, against plain probabilities, and its two controls."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from srnet.objectives.balance import Balance, PermutedBalance, mean_log_probs
from srnet.objectives.base import OBJECTIVES, parse_objective
from srnet.tasks.answers.text import IGNORED, TEXTS

ln = math.log
NONE = IGNORED

# A vocabulary of two. One pair and one neutral text, of two tokens each; the last position predicts nothing.
P = [[[3 / 4, 1 / 4], [1 / 2, 1 / 2]], [[1 / 4, 3 / 4], [1 / 5, 4 / 5]], [[1 / 2, 1 / 2], [1 / 3, 2 / 3]]]
LOGITS = torch.tensor(P).log()
LABELS = torch.tensor([[0, NONE], [1, 0], [1, NONE]])
TEACHER = torch.tensor([[[3 / 4, 1 / 4], [1 / 2, 1 / 2]]]).log()
PAIRS, TEXT = torch.tensor([0, 1]), torch.tensor([2])
D = ln(3 / 4) - (ln(3 / 4) + ln(1 / 5)) / 2
"""The first sentence has one token, of probability 3/4, the second two, of 3/4 and 1/5."""
KL = 3 / 4 * ln((3 / 4) / (1 / 2)) + 1 / 4 * ln((1 / 4) / (1 / 2))
"""Of the one predicted token of the neutral text."""


def loss(logits: torch.Tensor = LOGITS, **options: float) -> float:
    value = Balance(**options)(logits, LABELS, pairs=PAIRS, text=TEXT, teacher=TEACHER)
    return float(value)


def test_both_terms_by_hand() -> None:
    assert loss(smooth=0.3) == pytest.approx(math.sqrt(D**2 + 0.09) - 0.3 + KL, rel=1e-5)
    assert loss(weight=2.0, keep=5.0, smooth=0.3) == pytest.approx(
        2 * (math.sqrt(D**2 + 0.09) - 0.3) + 5 * KL, rel=1e-5
    )


def test_without_the_pairs_the_language_is_left() -> None:
    assert loss(weight=0.0) == pytest.approx(KL, rel=1e-5)
    assert loss(keep=0.0, smooth=1e-6) == pytest.approx(abs(D), abs=1e-5)


def test_the_gradient_of_equal_sentences_vanishes() -> None:
    logits = LOGITS.clone()
    logits[1] = logits[0]
    labels = LABELS.clone()
    labels[1] = labels[0]
    logits.requires_grad_()
    Balance(keep=0.0)(logits, labels, pairs=PAIRS, text=TEXT, teacher=TEACHER).backward()
    assert logits.grad is not None
    assert logits.grad.abs().max() == 0.0


def test_exchanging_the_sentences_changes_nothing() -> None:
    exchanged = Balance()(LOGITS, LABELS, pairs=PAIRS.flip(0), text=TEXT, teacher=TEACHER)
    assert float(exchanged) == pytest.approx(loss())


def test_the_permuted_control_reads_its_own_pairs() -> None:
    given = {"text": TEXT, "teacher": TEACHER}
    permuted = PermutedBalance()(LOGITS, LABELS, permuted_pairs=PAIRS, **given)
    assert float(permuted) == pytest.approx(loss())
    with pytest.raises(KeyError):
        PermutedBalance()(LOGITS, LABELS, pairs=PAIRS, **given)


def test_a_sentence_of_several_sequences() -> None:
    """A masked language model predicts one token in each."""
    logits = torch.tensor([[[0.5, 0.5]], [[0.25, 0.75]], [[0.9, 0.1]]]).log()
    means = mean_log_probs(logits, torch.tensor([[0], [0], [1]]), torch.tensor([0, 0, 1]), 2)
    assert means.tolist() == pytest.approx([(ln(0.5) + ln(0.25)) / 2, ln(0.1)])


@settings(max_examples=30)
@given(data=st.data())
def test_padding_and_order_change_nothing(data: st.DataObject) -> None:
    count, tokens, words = (data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4)), 3)
    values = data.draw(
        st.lists(st.floats(-4, 4), min_size=3 * count * tokens * words, max_size=3 * count * tokens * words)
    )
    logits = torch.tensor(values, dtype=torch.float64).reshape(3 * count, tokens, words)
    labels = torch.tensor(
        data.draw(st.lists(st.integers(0, 2), min_size=3 * count * tokens, max_size=3 * count * tokens))
    )
    labels = labels.reshape(3 * count, tokens)
    teacher = logits[2 * count :].flip(-1)
    pairs, text = torch.arange(2 * count), torch.arange(2 * count, 3 * count)
    expected = Balance()(logits, labels, pairs=pairs, text=text, teacher=teacher)
    wider = torch.nn.functional.pad(logits, (0, 0, 0, 2), value=7.0)
    padded = torch.nn.functional.pad(labels, (0, 2), value=IGNORED)
    taught = torch.nn.functional.pad(teacher, (0, 0, 0, 2), value=-3.0)
    torch.testing.assert_close(Balance()(wider, padded, pairs=pairs, text=text, teacher=taught), expected)


# --- the loss of text, and its distillation ------------------------------------------------------------------------


def test_the_mean_over_tokens_not_over_texts() -> None:
    losses = TEXTS.losses(LOGITS, LABELS)
    every = [-ln(3 / 4), -ln(3 / 4), -ln(1 / 5), -ln(1 / 2)]
    assert losses.mean().item() == pytest.approx(sum(every) / 4)
    assert losses[1].item() == pytest.approx((every[1] + every[2]) * 3 / 4)


def test_imitation_by_hand() -> None:
    """T^2 KL of the softened distributions, where a token is predicted."""
    found = TEXTS.imitation(LOGITS[2:], TEACHER, 2.0, LABELS[2:])
    theirs = [math.sqrt(3 / 4), math.sqrt(1 / 4)]
    theirs = [each / sum(theirs) for each in theirs]
    assert found.item() == pytest.approx(4 * sum(t * ln(t / 0.5) for t in theirs), rel=1e-5)


# --- the registry --------------------------------------------------------------------------------------------------


def test_what_it_needs() -> None:
    assert OBJECTIVES["balance"].needs == ("pairs", "text", "teacher")
    assert OBJECTIVES["balance-permuted"].needs == ("permuted_pairs", "text", "teacher")
    assert OBJECTIVES["balance"].debiases


def test_options_by_name() -> None:
    registered, options = parse_objective("balance:weight=0,keep=2")
    assert options == {"keep": 2.0, "weight": 0.0}
    with refused("balance", "strength"):
        parse_objective("balance:strength=2")
    assert registered.text(options) == "balance:keep=2.0,weight=0.0"
