"""The trainable mask: how its scores start (Eq. 1 and 2), its forward pass and its straight-through gradient."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from srnet.masks.budget import keep_largest
from srnet.masks.mask import Mask
from srnet.masks.modules import FixedMask, ScoreMask
from srnet.masks.parametrization import attach, attached, current_mask, raw_weights
from srnet.masks.scores import initial_scores

WEIGHT = torch.tensor([[0.5, -2.0], [3.0, -0.25]])
KEEP = torch.tensor([[False, True], [True, False]])


def layer() -> nn.Linear:
    linear = nn.Linear(2, 2, bias=False)
    linear.weight.data.copy_(WEIGHT)
    return linear


def test_hard_initialisation_is_equation_1() -> None:
    # phi = 0.01, alpha = 2: 0 below the threshold, alpha * phi = 0.02 above
    scores = initial_scores(WEIGHT, KEEP, "hard", phi=0.01, alpha=2.0)
    assert torch.equal(scores, torch.tensor([[0.0, 0.02], [0.02, 0.0]]))
    assert torch.equal(ScoreMask(scores, 0.01).binary(), KEEP)


def test_soft_initialisation_is_equation_2() -> None:
    scores = initial_scores(WEIGHT, KEEP, "soft", phi=0.01, alpha=2.0)
    assert torch.equal(scores, torch.tensor([[0.5, 2.0], [3.0, 0.25]]))
    # half of the weights stay for any phi above 0.5 and up to the k-th value, 2.0
    mask = ScoreMask(scores, 0.01)
    mask.set_cut(KEEP)
    assert 0.5 < mask.phi.item() <= 2.0
    assert torch.equal(mask.binary(), KEEP)


def test_scores_do_not_share_memory_with_the_weight() -> None:
    weight = WEIGHT.abs()
    initial_scores(weight, KEEP, "soft", 0.01, 2.0).add_(1.0)
    assert torch.equal(weight, WEIGHT.abs())


def test_a_fixed_mask_trains_the_kept_weights_only() -> None:
    linear = layer()
    attach({"l": linear}, {"l.weight": FixedMask(KEEP)})
    linear(torch.tensor([[1.0, 10.0]])).sum().backward()
    # dL/dW' = [[1, 10], [1, 10]], cut to the kept entries
    grad = raw_weights({"l": linear})["l.weight"].grad
    assert grad is not None
    assert grad.tolist() == [[0.0, 10.0], [1.0, 0.0]]


def test_scores_are_not_clipped() -> None:
    mask = ScoreMask(torch.tensor([-1e6, 1e6]), 0.01)
    assert mask.binary().tolist() == [False, True]
    mask.set_cut(torch.tensor([False, True]))
    assert mask.scores.tolist() == [-1e6, 1e6]


def test_looking_at_masked_layers() -> None:
    layers: dict[str, nn.Module] = {"masked": layer(), "plain": layer()}
    attach({"masked": layers["masked"]}, {"masked.weight": FixedMask(KEEP)})
    assert set(attached(layers)) == {"masked.weight"}
    assert current_mask(layers) == Mask({"masked.weight": KEEP})
    for weight in raw_weights(layers).values():
        assert torch.equal(weight, WEIGHT)


# --- a weight that learns as well ----------------------------------------------------------------------------------

STRAIGHT = torch.tensor([[2.0, 20.0], [7.0, 70.0]])
"""dL/dW' of the losses below."""


def learning(frozen: bool = False) -> tuple[nn.Linear, ScoreMask]:
    linear = layer()
    linear.weight.requires_grad = not frozen
    mask = ScoreMask(initial_scores(WEIGHT, KEEP, "hard", 0.01, 2.0), 0.01)
    attach({"l": linear}, {"l.weight": mask})
    return linear, mask


def gradients(linear: nn.Linear, mask: ScoreMask) -> tuple[torch.Tensor, torch.Tensor]:
    weight = raw_weights({"l": linear})["l.weight"].grad
    assert weight is not None
    assert mask.scores.grad is not None
    return weight, mask.scores.grad


@pytest.mark.parametrize("compiling", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
def test_straight_through_gradients_by_hand(frozen: bool, compiling: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiling)
    linear, mask = learning(frozen)
    # W' = W * m = [[0, -2], [3, 0]], x = (1, 10), so y = (-20, 3)
    out = linear(torch.tensor([[1.0, 10.0]]))
    assert out.tolist() == [[-20.0, 3.0]]
    # L = 2 y_0 + 7 y_1, so dL/dW' = outer((2, 7), (1, 10)) = [[2, 20], [7, 70]]
    (out * torch.tensor([[2.0, 7.0]])).sum().backward()
    assert mask.scores.grad is not None
    assert mask.scores.grad.tolist() == [[1.0, -40.0], [21.0, -17.5]]  # W * dL/dW', also where it is pruned
    of_weight = raw_weights({"l": linear})["l.weight"].grad
    assert (None if of_weight is None else of_weight.tolist()) == (None if frozen else [[0.0, 20.0], [7.0, 0.0]])


@pytest.mark.parametrize("how", ["transposed", "expanded"])
def test_gradients_that_do_not_lie_in_one_piece(how: str) -> None:
    linear, mask = learning()
    if how == "transposed":
        (linear.weight.t() * STRAIGHT.t().contiguous()).sum().backward()
        expected = STRAIGHT
    else:
        linear.weight.sum().backward()
        expected = torch.ones(2, 2)
    of_weight, of_scores = gradients(linear, mask)
    assert torch.equal(of_weight, KEEP * expected)
    assert torch.equal(of_scores, WEIGHT * expected)


def test_a_layer_that_is_used_twice_adds_both_up() -> None:
    linear, mask = learning()
    x = torch.tensor([[1.0, 10.0]])
    ((linear(x) + linear(x)) * torch.tensor([[2.0, 7.0]])).sum().backward()
    of_weight, of_scores = gradients(linear, mask)
    assert of_weight.tolist() == [[0.0, 40.0], [14.0, 0.0]]
    assert of_scores.tolist() == [[2.0, -80.0], [42.0, -35.0]]


def test_nothing_is_pruned_below_minus_infinity() -> None:
    mask = ScoreMask(torch.tensor([[-1e30, 0.0], [1e30, -5.0]]), -torch.inf)
    assert mask.binary().all()
    assert torch.equal(mask(WEIGHT), WEIGHT)


@settings(max_examples=100)
@given(st.lists(st.sampled_from([-1.0, 0.0, 1e-45, 0.5]), min_size=4, max_size=4), st.integers(0, 4))
def test_the_forward_pass_uses_the_mask_it_tells(scores: list[float], pruned: int) -> None:
    """Also where thresholds and scores are neighbouring floats: ties at zero are broken by the smallest there is."""
    mask = ScoreMask(torch.tensor(scores).reshape(2, 2), 0.0)
    keep = keep_largest(mask.scores, pruned, WEIGHT.abs())
    mask.set_cut(keep)
    assert torch.equal(mask.binary(), keep)
    assert torch.equal(mask(WEIGHT), torch.where(keep, WEIGHT, 0.0))
    assert torch.equal(mask._traceable(WEIGHT), torch.where(keep, WEIGHT, 0.0))


def test_a_threshold_that_was_moved_with_its_model_is_read_again() -> None:
    """A conversion puts another tensor in its place, whose changes are counted from zero."""
    mask = ScoreMask(torch.tensor([1.0, 2.0, 3.0]), 0.0)
    mask.set_cut(torch.tensor([False, True, True]))
    assert mask(torch.ones(3)).tolist() == [0.0, 1.0, 1.0]
    mask.double()
    mask.set_cut(torch.tensor([False, False, True]))
    assert mask(torch.ones(3, dtype=torch.float64)).tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("shape", [(2, 2), (4,)])
def test_the_gradient_of_a_weight_that_is_updated_by_another_stays_that_of_the_other(shape: tuple[int, ...]) -> None:
    """W' + U has one gradient for both: only the scores' is multiplied by W."""
    weight, given = torch.tensor([[2.0, 3.0], [4.0, 5.0]]), torch.tensor([[1.0, 10.0], [100.0, 1000.0]])
    mask, update = ScoreMask(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), 0.5), torch.zeros(2, 2, requires_grad=True)
    doubled = 2 * update  # before the mask, so that its backward pass comes after that of the mask
    merged = mask(weight).view(shape) + doubled.view(shape)
    (merged * given.view(shape)).sum().backward()
    assert update.grad is not None
    assert torch.equal(update.grad, 2 * given)
    assert mask.scores.grad is not None
    assert torch.equal(mask.scores.grad, weight * given)
