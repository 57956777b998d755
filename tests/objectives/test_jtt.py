"""Just Train Twice by hand, and against data in which the errors are really repeated."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from srnet.objectives.jtt import JustTrainTwice

ln = math.log
RIGHT, WRONG = [0.0, -5.0], [-5.0, 0.0]
"""An early model's log-probabilities about an example with label 0."""


def test_by_hand() -> None:
    # the truth gets 3/4 and 1/2; the early model is wrong about the second, which counts 6 times: mean weight 7/2
    logits = torch.tensor([[ln(3), 0.0], [0.0, 0.0]], requires_grad=True)
    labels, early = torch.zeros(2, dtype=torch.long), torch.tensor([RIGHT, WRONG])
    loss = JustTrainTwice()
    loss.prepare(labels, early=early)
    value = loss(logits, labels, early=early)
    assert value.item() == pytest.approx((ln(4 / 3) + 6 * ln(2)) / 2 / 3.5, rel=1e-6)
    value.backward()
    assert logits.grad is not None
    # w (p - y) / 2 / 3.5
    assert logits.grad.flatten().tolist() == pytest.approx([-0.25 / 7, 0.25 / 7, -3 / 7, 3 / 7], rel=1e-5)


def test_the_mean_weight_is_that_of_all_training_data() -> None:
    labels, early = torch.zeros(4, dtype=torch.long), torch.tensor([RIGHT, RIGHT, RIGHT, WRONG])
    loss = JustTrainTwice(upweight=5.0)  # weights 1, 1, 1, 5: mean 2
    loss.prepare(labels, early=early)
    for row, weight in ((0, 0.5), (3, 2.5)):
        value = loss(torch.zeros(1, 2), labels[row : row + 1], early=early[row : row + 1])
        assert value.item() == pytest.approx(weight * ln(2), rel=1e-6)


@settings(max_examples=40)
@given(
    rows=st.lists(st.tuples(st.floats(-5, 5), st.integers(0, 1), st.booleans()), min_size=1, max_size=8),
    upweight=st.integers(1, 9),
)
def test_it_is_ce_on_data_in_which_errors_are_repeated(rows: list[tuple[float, int, bool]], upweight: int) -> None:
    logits = torch.tensor([[value, 0.0] for value, _, _ in rows], dtype=torch.float64)
    labels = torch.tensor([label for _, label, _ in rows])
    early = torch.tensor([RIGHT if (label == 0) != wrong else WRONG for _, label, wrong in rows])
    loss = JustTrainTwice(upweight=float(upweight))
    loss.prepare(labels, early=early)
    repeated = [row for row, (_, _, wrong) in enumerate(rows) for _ in range(upweight if wrong else 1)]
    torch.testing.assert_close(
        loss(logits, labels, early=early), F.cross_entropy(logits[repeated], labels[repeated]), rtol=1e-5, atol=1e-7
    )
