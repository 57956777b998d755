"""Soft movement pruning and L0: a penalty decides how many weights stay."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from driven import TOTAL, kept, masks, prepared
from torch import nn

from srnet.masks.parametrization import current_mask, raw_weights
from srnet.pruners.l0 import L0
from srnet.pruners.penalised import FIRST_STEERED, LIMIT
from srnet.pruners.soft_movement import SoftMovement
from srnet.training.method import Method, split_snapshot

both = pytest.mark.parametrize("kind", [SoftMovement, L0], ids=lambda kind: kind.name)
SHIFT = {"soft-movement": 0.0, "l0": 2 / 3 * math.log(11)}
"""L0 counts P(gate > 0) = sigmoid(S - beta log(-l / r)), and log(0.1 / 1.1) = -log 11."""


@torch.no_grad()
def set_scores(method: Method, **values: float) -> None:
    for name, mask in masks(method).items():
        mask.scores.fill_(values[name.removesuffix(".weight")])


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


# --- both ----------------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    ("step", "strength"),
    # from 0.1 to 0.9 of 100 steps: 8 (1 - (1 - (t - 10)/80)^3)
    [(0, 0.0), (5, 0.0), (10, 0.0), (30, 8 * 37 / 64), (50, 7.0), (90, 8.0), (100, 8.0)],
)
def test_a_given_penalty_follows_the_cubic_curve(kind: Any, step: int, strength: float, toy: nn.Module) -> None:
    method = prepared(toy, kind(0.9, penalty=8.0, begin=0.1, ramp=0.9))
    set_scores(method, first=math.log(3), second=0.0)
    assert method.after_step(step)["mask/penalty"] == pytest.approx(strength)
    penalty = method.penalty(step)
    if strength == 0.0:
        assert penalty is None
        return
    assert penalty is not None
    shift = SHIFT[kind.name]
    mean = (sigmoid(math.log(3) + shift) + sigmoid(shift)) / 2
    assert penalty.item() == pytest.approx(strength * mean, rel=1e-5)
    penalty.backward()
    gradients = [mask.scores.grad for mask in masks(method).values()]
    for gradient, score in zip(gradients, (math.log(3), 0.0), strict=True):
        s = sigmoid(score + shift)
        assert gradient.flatten()[3].item() == pytest.approx(strength / 2 / gradient.numel() * s * (1 - s), rel=1e-4)


def steered(model: nn.Module) -> float:
    """What a checkpoint keeps of it."""
    (buffer,) = (buffer for name, buffer in model.named_buffers() if name.endswith("steered"))
    return float(buffer)


@both
def test_a_steered_penalty_by_hand(kind: Any, toy: nn.Module) -> None:
    """It is multiplied by exp(0.1 log(kept / wanted)); from 0.0 to 1.0 the wanted share falls from 1 to 0.5."""
    method = prepared(toy, kind(0.5, begin=0.0, ramp=1.0))
    set_scores(method, first=3.0, second=3.0)
    method.after_step(50)
    # kept 1, wanted 1 - 0.5 * 7/8 = 0.5625: too many, so it rises, and acts
    expected = FIRST_STEERED * math.exp(0.1 * math.log(1 / 0.5625))
    assert steered(toy) == pytest.approx(expected, rel=1e-6)
    mean = sigmoid(3.0 + SHIFT[kind.name])
    assert float(method.penalty(50)) == pytest.approx(expected * mean, rel=1e-5)
    set_scores(method, first=-9.0, second=3.0)
    method.after_step(100)
    # kept 20 of 120, wanted 0.5: too few, so it falls, and does not act
    assert steered(toy) == pytest.approx(expected * math.exp(0.1 * math.log(20 / 120 / 0.5)), rel=1e-6)
    assert method.penalty(100) is None


@both
def test_before_the_beginning_there_is_no_penalty_to_steer(kind: Any, toy: nn.Module) -> None:
    method = prepared(toy, kind(0.5, begin=0.3))
    for step in (1, 15, 30):
        assert method.after_step(step)["mask/penalty"] == 0.0
        assert method.penalty(step) is None
        assert steered(toy) == FIRST_STEERED
    method.after_step(31)
    assert method.penalty(31) is not None


@both
def test_a_steered_penalty_stays_within_bounds(kind: Any, toy: nn.Module) -> None:
    method = prepared(toy, kind(0.97, begin=0.0, ramp=0.1), total=1000)
    set_scores(method, first=9.0, second=9.0)
    for step in range(1, 200):
        method.after_step(step)
    assert steered(toy) == LIMIT
    set_scores(method, first=-9.0, second=-9.0)
    for step in range(200, 400):
        method.after_step(step)
    assert 0.0 < steered(toy) < 1e-3


@both
def test_an_error_beyond_measure_moves_it_by_a_measured_step(kind: Any, toy: nn.Module) -> None:
    method = prepared(toy, kind(0.5, begin=0.0, ramp=1.0))
    set_scores(method, first=-9.0, second=-9.0)
    method.after_step(100)  # nothing is kept: the logarithm of 1e-4 / 0.5 would be -8.5
    assert steered(toy) == pytest.approx(FIRST_STEERED * math.exp(-0.3), rel=1e-6)


@both
def test_a_model_that_is_moved_is_still_steered(kind: Any, toy: nn.Module) -> None:
    """As to a GPU, which happens after `prepare`: what is saved must be what steers, or a resumed run goes astray."""
    method = prepared(toy, kind(0.5, begin=0.0))
    toy._apply(lambda tensor: tensor.clone())  # type: ignore[no-untyped-call]
    set_scores(method, first=3.0, second=3.0)
    method.after_step(50)
    assert steered(toy) > FIRST_STEERED


@both
def test_the_sparsity_is_counted(kind: Any, toy: nn.Module) -> None:
    method = prepared(toy, kind(0.9))
    assert method.kept_share(0) == 1.0
    set_scores(method, first=-9.0, second=9.0)
    assert "mask/sparsity" not in method.after_step(5)
    assert method.after_step(10)["mask/sparsity"] == pytest.approx(100 / 120)


@both
def test_a_penalty_of_nothing_is_none(kind: Any, toy: nn.Module) -> None:
    method = prepared(toy, kind(0.9, penalty=0.0))
    assert method.penalty(TOTAL) is None


@both
def test_steering_arrives(kind: Any, toy: nn.Module) -> None:
    """Each score is pulled up by a force of its own and down by the penalty: half of them must lose."""
    method = prepared(toy, kind(0.5, begin=0.0, ramp=0.5), total=600)
    scores = [mask.scores for mask in masks(method).values()]
    worth = [torch.linspace(0.0, 2.0, each.numel()).reshape(each.shape) for each in scores]
    optimizer = torch.optim.SGD(scores, lr=1.0)
    for step in range(1, 601):
        optimizer.zero_grad()
        loss = -sum((w * torch.sigmoid(each)).mean() for w, each in zip(worth, scores, strict=True))
        penalty = method.penalty(step - 1)
        (loss if penalty is None else loss + penalty).backward()  # type: ignore[union-attr]
        optimizer.step()
        method.after_step(step)
    assert current_mask(method.layers).sparsity == pytest.approx(0.5, abs=0.1)


# --- soft movement -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tau", [0.1, 0.25, 0.01])
def test_kept_where_the_sigmoid_is_above_tau_and_not_at_it(tau: float, toy: nn.Module) -> None:
    method = prepared(toy, SoftMovement(0.9, threshold=tau))
    mask = masks(method)["first.weight"]
    cut = torch.tensor(math.log(tau / (1 - tau)))
    with torch.no_grad():
        mask.scores.copy_(cut)
        mask.scores[0, :3] = torch.stack([torch.nextafter(cut, torch.tensor(9.0)), cut + 0.01, cut - 0.01])
    expected = torch.zeros(10, 10, dtype=torch.bool)
    expected[0, :2] = True
    assert torch.equal(current_mask(method.layers)["first.weight"], expected)
    assert torch.equal(toy.first.weight != 0, expected)  # type: ignore[union-attr]


def test_the_threshold_never_moves(toy: nn.Module) -> None:
    method = prepared(toy, SoftMovement(0.9))
    set_scores(method, first=-1.0, second=1.0)
    for step in (10, 50, 100):
        method.after_step(step)
    assert kept(method) == {"first.weight": 100, "second.weight": 20}  # sigmoid(-1) = 0.27 > 0.1


def test_the_published_floor_keeps_half_a_percent_of_every_matrix() -> None:
    """Fewer than int(0.005 n) + 1 scores above tau: kept are those above the value of rank n - int(0.005 n) - 1."""
    model = nn.Sequential(nn.Linear(20, 30))  # 600 weights, of which 4 stay
    method = prepared(model, SoftMovement(0.9, floor=0.005))
    (mask,) = masks(method).values()
    with torch.no_grad():
        mask.scores.copy_(torch.arange(600.0).reshape(30, 20) - 1000)  # all far below tau
    method.after_step(1)
    expected = torch.zeros(600, dtype=torch.bool)
    expected[-4:] = True
    assert torch.equal(current_mask(method.layers)["0.weight"].flatten(), expected)
    with torch.no_grad():
        mask.scores[0] = 1.0  # twenty above tau: the floor is of no account any more
    method.after_step(2)
    assert torch.equal(current_mask(method.layers)["0.weight"].flatten(), torch.arange(600) < 20)


# --- L0 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opened", [0.9, 0.5])
def test_gates_start_open(opened: float, toy: nn.Module) -> None:
    method = prepared(toy, L0(0.9, open_at_first=opened))
    for mask in masks(method).values():
        assert torch.allclose(torch.sigmoid(mask.scores), torch.tensor(opened))


def test_the_share_of_open_gates(toy: nn.Module) -> None:
    """Open where sigmoid(S) * 1.2 > 0.1, so where S > -log 11 = -2.398."""
    method = prepared(toy, L0(0.9))
    set_scores(method, first=-2.39, second=-2.41)
    assert method.kept_share(0) == pytest.approx(100 / 120)
    assert kept(method) == {"first.weight": 100, "second.weight": 0}


def test_what_a_gate_lets_through_is_kept_in_the_weight(toy: nn.Module) -> None:
    method = prepared(toy, L0(0.9))
    before = raw_weights(method.layers)["first.weight"].detach().clone()
    set_scores(method, first=math.log(3), second=50.0)
    weights, _ = split_snapshot(method.snapshot())
    assert torch.allclose(weights["first.weight"], 0.8 * before)  # 0.75 * 1.2 - 0.1
    assert torch.equal(raw_weights(method.layers)["first.weight"], before), "training goes on with the weight itself"


def test_training_is_noisy_and_evaluation_is_not(toy: nn.Module) -> None:
    prepared(toy, L0(0.9))
    x = torch.ones(2, 10)
    toy.train()
    assert not torch.equal(toy(x), toy(x))
    toy.eval()
    assert torch.equal(toy(x), toy(x))
