"""Hard concrete gates: l = -0.1, r = 1.1, beta = 2/3, by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from srnet.masks.modules import GateMask
from srnet.masks.parametrization import attach, current_mask, raw_weights
from srnet.masks.scores import BETA, HIGH, LOW

BY_HAND = {
    0.0: 0.5,  # 0.5 * 1.2 - 0.1
    math.log(9): 0.98,  # 0.9 * 1.2 - 0.1
    math.log(1 / 9): 0.02,
    math.log(3): 0.8,  # 0.75 * 1.2 - 0.1
    math.log(23): 1.0,  # 23/24 * 1.2 - 0.1 = 1.05
    math.log(1 / 23): 0.0,  # 1/24 * 1.2 - 0.1 = -0.05
    50.0: 1.0,
    -50.0: 0.0,
}


def gates(*scores: float) -> GateMask:
    return GateMask(torch.tensor(scores))


def test_evaluation_by_hand_and_without_chance() -> None:
    assert (BETA, LOW, HIGH) == (2 / 3, -0.1, 1.1), "as in the paper"
    mask = gates(*BY_HAND).eval()
    state = torch.random.get_rng_state()
    assert mask.gate().tolist() == pytest.approx(list(BY_HAND.values()), abs=1e-6)
    assert mask.binary().tolist() == [gate > 0 for gate in BY_HAND.values()]
    weight = torch.full((len(BY_HAND),), -2.0)
    assert mask(weight).tolist() == pytest.approx([-2 * gate for gate in BY_HAND.values()], abs=1e-6)
    assert torch.equal(torch.random.get_rng_state(), state), "no random number was drawn"


def test_training_by_hand() -> None:
    scores = (0.0, 1.5, -1.5, 4.0)
    torch.manual_seed(7)
    uniform = torch.rand(4).tolist()
    torch.manual_seed(7)
    mask = gates(*scores)
    drawn = mask.gate().tolist()
    assert mask.gate().tolist() != drawn, "each call draws anew"
    for u, score, gate in zip(uniform, scores, drawn, strict=True):
        x = (math.log(u) - math.log(1 - u) + score) * 3 / 2
        assert gate == pytest.approx(min(1.0, max(0.0, 1.2 / (1 + math.exp(-x)) - 0.1)), abs=1e-5)


def test_the_stretch_reaches_both_ends_and_never_beyond() -> None:
    torch.manual_seed(0)
    drawn = GateMask(torch.zeros(10_000)).gate()
    assert drawn.min() == 0.0
    assert drawn.max() == 1.0
    assert (drawn == 0.0).float().mean() == pytest.approx(float((drawn == 1.0).float().mean()), abs=0.02)
    assert ((drawn > 0) & (drawn < 1)).any()


@pytest.mark.parametrize("score", [-3.0, -1.0, 0.0, 1.0])
def test_how_often_a_gate_opens_is_what_the_penalty_counts(score: float) -> None:
    """P(gate > 0) = sigmoid(S - beta log(0.1 / 1.1)) = sigmoid(S + 2/3 log 11)."""
    torch.manual_seed(0)
    drawn = GateMask(torch.full((200_000,), score)).gate()
    expected = 1 / (1 + math.exp(-(score + 2 / 3 * math.log(11))))
    assert float((drawn > 0).float().mean()) == pytest.approx(expected, abs=0.004)


def test_extreme_draws_are_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    for edge in (0.0, 1.0):
        monkeypatch.setattr(torch, "rand_like", lambda t, edge=edge: torch.full_like(t, edge))
        mask = gates(0.0, 5.0, -5.0)
        mask(torch.ones(3)).sum().backward()
        assert mask.scores.grad is not None
        assert torch.isfinite(mask.scores.grad).all()


def test_the_gradient_by_hand() -> None:
    mask = gates(0.0, math.log(3), 50.0, -50.0).eval()
    weight = torch.tensor([2.0, -4.0, 2.0, 2.0], requires_grad=True)
    (mask(weight) * torch.tensor([1.0, 10.0, 1.0, 1.0])).sum().backward()
    assert mask.scores.grad is not None
    assert weight.grad is not None
    # W * dL/dW' * 1.2 s (1 - s): 2 * 1.2/4 and -4 * 10 * 1.2 * 3/16; where the gate is clamped nothing moves
    assert mask.scores.grad.tolist() == pytest.approx([0.6, -9.0, 0.0, 0.0], abs=1e-5)
    assert weight.grad.tolist() == pytest.approx([0.5, 8.0, 1.0, 0.0], abs=1e-5)  # gate * dL/dW'


def test_a_noisy_gate_opens_with_its_score() -> None:
    torch.manual_seed(0)
    mask = GateMask(torch.zeros(1000))
    mask.gate().sum().backward()
    assert mask.scores.grad is not None
    assert mask.scores.grad.min() >= 0 < mask.scores.grad.max()


def test_inside_a_model_it_follows_the_models_mode() -> None:
    linear = nn.Linear(3, 1, bias=False)
    model = nn.Sequential(linear)
    attach({"0": linear}, {"0.weight": GateMask(torch.tensor([[0.0, 50.0, -50.0]]))})
    model.train()
    torch.manual_seed(0)
    assert any(not torch.equal(linear.weight, linear.weight) for _ in range(9))  # a gate may be shut twice in a row
    model.eval()
    raw = raw_weights({"0": linear})["0.weight"]
    assert torch.equal(linear.weight, raw * torch.tensor([[0.5, 1.0, 0.0]]))
    assert current_mask({"0": linear})["0.weight"].tolist() == [[True, True, False]]
