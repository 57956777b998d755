"""Movement pruning and gradual magnitude pruning: everything trains, the mask follows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from driven import TOTAL, masks, prepared, pruned, scatter
from torch import nn

from srnet.masks.parametrization import current_mask, raw_weights
from srnet.pruners.magnitude import GradualMagnitude
from srnet.pruners.movement import Movement

both = pytest.mark.parametrize("kind", [GradualMagnitude, Movement], ids=lambda kind: kind.name)


@both
@pytest.mark.parametrize(
    ("step", "first", "second"),
    # from 0.2 to 0.7 of 100 steps: s = 0.8 (1 - (1 - (t - 20)/50)^3)
    [
        (10, 0, 0),
        (20, 0, 0),
        (30, 39, 8),  # 0.8 * 0.488 = 0.3904: 39.04 and 7.808
        (40, 63, 13),  # 0.8 * 0.784 = 0.6272: 62.72 and 12.544
        (70, 80, 16),
        (100, 80, 16),
    ],
)
def test_the_schedule_to_the_weight(kind: Any, step: int, first: int, second: int, toy: nn.Module) -> None:
    method = prepared(toy, kind(0.8, begin=0.2, ramp=0.7))
    scatter(method)
    figures = method.after_step(step)
    assert pruned(method) == {"first.weight": first, "second.weight": second}
    assert figures["mask/sparsity"] == pytest.approx((first + second) / 120)


# --- movement ------------------------------------------------------------------------------------------------------


def test_before_the_beginning_nothing_is_pruned_from_large_matrices_either() -> None:
    """There the threshold comes from a sample; what the sample has not seen may be lower."""
    model = nn.Sequential(nn.Linear(300, 300, bias=False))
    method = prepared(model, Movement(0.9, begin=0.5), eval_every=1000)
    scatter(method)
    for step in range(1, 8):
        method.after_step(step)
        assert pruned(method) == {"0.weight": 0}, f"step {step}"


def test_an_estimated_threshold_is_nearly_right_and_an_evaluated_one_exact() -> None:
    model = nn.Sequential(nn.Linear(300, 300, bias=False))
    method = prepared(model, Movement(0.9), eval_every=50)
    scatter(method)
    method.after_step(99)
    assert pruned(method)["0.weight"] == pytest.approx(81_000, abs=500)
    figures = method.after_step(100)
    assert pruned(method)["0.weight"] == 81_000
    assert abs(figures["mask/drift"]) < 0.01


def test_scores_move_with_their_weights(toy: nn.Module) -> None:
    """dS = W dL/dW': where a descent step makes a weight larger, its score rises."""
    method = prepared(toy, Movement(0.5), total=1)
    weight = raw_weights(method.layers)["first.weight"]
    mask = masks(method)["first.weight"]
    toy(torch.ones(3, 10)).square().sum().backward()
    assert weight.grad is not None
    assert torch.allclose(mask.scores.grad, weight.detach() * weight.grad)  # all are kept, so dW = dL/dW'
    away = (weight.detach() - 1e-4 * weight.grad).abs() > weight.detach().abs()
    assert torch.equal(away, mask.scores.grad < 0)


@both
def test_what_is_pruned_gets_no_gradient_but_its_score_does(kind: Any, toy: nn.Module) -> None:
    method = prepared(toy, kind(0.5))
    scatter(method)
    method.after_step(TOTAL)
    keep = current_mask(method.layers)["first.weight"]
    toy(torch.randn(3, 10, generator=torch.Generator().manual_seed(0))).square().sum().backward()
    gradient = raw_weights(method.layers)["first.weight"].grad
    assert gradient is not None
    assert not gradient[~keep].any()
    assert gradient[keep].any()
    assert kind is GradualMagnitude or masks(method)["first.weight"].scores.grad[~keep].any()


# --- gradual magnitude ---------------------------------------------------------------------------------------------


def test_magnitudes_are_those_of_the_moment(toy: nn.Module) -> None:
    method = prepared(toy, GradualMagnitude(0.5, begin=0.0, ramp=0.1), eval_every=10)
    method.after_step(10)
    before = current_mask(method.layers)["first.weight"]
    weight = raw_weights(method.layers)["first.weight"]
    with torch.no_grad():
        weight.copy_(torch.where(before, weight * 1e-3, weight))  # what stayed shrinks: what was pruned is larger now
    method.after_step(20)
    assert torch.equal(current_mask(method.layers)["first.weight"], ~before)


def test_the_mask_is_chosen_every_few_steps_and_before_evaluations(toy: nn.Module) -> None:
    method = prepared(toy, GradualMagnitude(0.5, refresh_every=4), eval_every=10, total=15)
    assert [step for step in range(1, 16) if method.after_step(step)] == [4, 8, 10, 12, 15]


def test_a_global_budget(toy: nn.Module) -> None:
    method = prepared(toy, GradualMagnitude(0.5, scope="global"))
    with torch.no_grad():
        raw_weights(method.layers)["second.weight"].fill_(100.0)
    method.after_step(TOTAL)
    assert pruned(method) == {"first.weight": 60, "second.weight": 0}
