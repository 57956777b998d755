"""Group DRO step by step, by hand, and what holds whatever the batches are."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from srnet.objectives.group_dro import GroupDRO

ln = math.log
# the model gives the truth 3/4, 1/2 and 1/4: losses ln 4/3, ln 2 and ln 4
LOGITS = torch.tensor([[ln(3), 0.0], [0.0, 0.0], [0.0, ln(3)]])
LABELS = torch.zeros(3, dtype=torch.long)


def prepared(eta: float, groups: list[int]) -> GroupDRO:
    loss = GroupDRO(eta)
    loss.prepare(torch.zeros(len(groups)), group=torch.tensor(groups))
    return loss


def weights(loss: GroupDRO) -> list[float]:
    q: list[float] = loss.state_dict()["log_q"].exp().tolist()
    return q


def test_two_steps_by_hand() -> None:
    loss = prepared(1.0, [0, 1, 1])
    assert weights(loss) == pytest.approx([0.5, 0.5])
    # loss_0 = ln 4/3; loss_1 = (ln 2 + ln 4) / 2 = ln sqrt 8. With eta = 1: q = (4/3, sqrt 8) / Z
    first = loss(LOGITS, LABELS, group=torch.tensor([0, 1, 1]))
    z = 4 / 3 + 8**0.5
    assert weights(loss) == pytest.approx([4 / 3 / z, 8**0.5 / z], rel=1e-5)
    assert first.item() == pytest.approx((4 / 3 * ln(4 / 3) + 8**0.5 * ln(8**0.5)) / z, rel=1e-5)
    # a batch of group 0 alone: loss_1 is 0, and only group 0 gains
    second = loss(LOGITS[1:2], LABELS[1:2], group=torch.tensor([0]))
    z = 4 / 3 * 2 + 8**0.5
    assert weights(loss) == pytest.approx([8 / 3 / z, 8**0.5 / z], rel=1e-5)
    assert second.item() == pytest.approx(8 / 3 / z * ln(2), rel=1e-5)


def test_the_gradient_takes_the_weights_as_given() -> None:
    loss, logits = prepared(1.0, [0, 1]), LOGITS[:2].clone().requires_grad_()
    loss(logits, LABELS[:2], group=torch.tensor([0, 1])).backward()
    assert logits.grad is not None
    q = weights(loss)  # q (p - y): no gradient through q itself
    assert logits.grad[0].tolist() == pytest.approx([q[0] * -0.25, q[0] * 0.25], rel=1e-5)
    assert logits.grad[1].tolist() == pytest.approx([q[1] * -0.5, q[1] * 0.5], rel=1e-5)


def test_a_tiny_weight_can_grow_again() -> None:
    loss = prepared(100.0, [0, 1])
    for _ in range(5):
        loss(LOGITS[2:], LABELS[2:], group=torch.tensor([1]))
    assert weights(loss)[0] == 0.0, "in float32"
    for _ in range(6):
        loss(LOGITS[2:], LABELS[2:], group=torch.tensor([0]))
    assert weights(loss) == pytest.approx([1.0, 0.0])


@st.composite
def batches(draw: st.DrawFn) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Logits and groups of a few batches; all labels are 0."""
    numbers, made = st.floats(-5, 5), []
    for _ in range(draw(st.integers(1, 4))):
        size = draw(st.integers(1, 5))
        rows = draw(st.lists(st.lists(numbers, min_size=2, max_size=2), min_size=size, max_size=size))
        groups = draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
        made.append((torch.tensor(rows), torch.tensor(groups)))
    return made


@settings(max_examples=40)
@given(batches=batches(), eta=st.floats(0.001, 5.0))
def test_properties(batches: list[tuple[torch.Tensor, torch.Tensor]], eta: float) -> None:
    loss = prepared(eta, [0, 1, 2])
    for logits, group in batches:
        before, losses = weights(loss), -logits.log_softmax(1)[:, 0]
        value = loss(logits, torch.zeros(len(group), dtype=torch.long), group=group).item()
        after = weights(loss)
        means = [losses[group == g].mean().item() if (group == g).any() else 0.0 for g in range(3)]
        assert sum(after) == pytest.approx(1.0, abs=1e-5), "weights are a distribution"
        assert value <= max(means) + 1e-4, "a weighted mean is at most the worst group's loss"
        gains = [math.log(a / b) for a, b in zip(after, before, strict=True) if a > 1e-30 < b]
        if len(gains) == 3:
            assert sorted(range(3), key=gains.__getitem__) == sorted(range(3), key=lambda g: (gains[g], means[g]))
            assert gains[means.index(max(means))] == pytest.approx(max(gains), abs=1e-4)


@settings(max_examples=20)
@given(batches=batches())
def test_a_restored_state_continues_the_same(batches: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    one, other = prepared(0.5, [0, 1, 2]), prepared(0.5, [0, 1, 2])
    for logits, group in batches:
        labels = torch.zeros(len(group), dtype=torch.long)
        other.load_state_dict(one.state_dict())
        assert torch.equal(one(logits, labels, group=group), other(logits, labels, group=group))
