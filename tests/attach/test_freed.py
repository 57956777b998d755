"""Masked weights that are made again in the backward pass: the same numbers, and none of them kept in between."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import batch, logits, made, train_in_own_loop
from methods import TRAINING
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.utils import parametrize
from torch.utils.checkpoint import checkpoint

import srnet
from srnet.masks import freed
from srnet.masks.modules import FixedMask, GateMask, ScoreMask, UnitMask
from srnet.masks.parametrization import attach, detach, raw_weights

ALWAYS, NEVER = 1, 10**9
WEIGHT = torch.tensor([[0.5, -2.0], [3.0, -0.25]])
SCORES = torch.tensor([[0.0, 0.02], [0.02, 0.0]])
"""With phi = 0.01 the mask is [[0, 1], [1, 0]]."""
X, STRAIGHT = torch.tensor([[1.0, 10.0]]), torch.tensor([[2.0, 7.0]])


@contextmanager
def from_rows(rows: int) -> Iterator[None]:
    before, freed.MANY_ROWS = freed.MANY_ROWS, rows
    try:
        yield
    finally:
        freed.MANY_ROWS = before


@pytest.fixture
def always() -> Iterator[None]:
    with from_rows(ALWAYS):
        yield


def masked(mask: nn.Module | None = None, trains: bool = False) -> nn.Linear:
    linear = nn.Linear(2, 2, bias=False)
    linear.weight.data.copy_(WEIGHT)
    linear.weight.requires_grad = trains
    attach({"l": linear}, {"l.weight": ScoreMask(SCORES.clone(), 0.01) if mask is None else mask})
    return linear


def mask_of(layer: nn.Module) -> Any:
    return cast(Any, layer).parametrizations["weight"][0]


def input_that_learns() -> torch.Tensor:
    """Only for its gradient a layer needs the masked weight again."""
    return X.clone().requires_grad_()


def made_by(layer: nn.Module) -> list[StorageWeakRef]:
    """What the masked weights of a layer occupy; filled while it runs."""
    found: list[StorageWeakRef] = []
    stack = cast(Any, layer).parametrizations["weight"]
    stack.register_forward_hook(lambda *args: found.append(StorageWeakRef(args[2].untyped_storage())))
    return found


# --- numbers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.usefixtures("always")
def test_gradients_by_hand(trains: bool, dtype: torch.dtype) -> None:
    """All of these numbers are exact in bf16 too."""
    linear = masked(trains=trains).to(dtype)
    mask_of(linear).float()
    x = X.clone().to(dtype).requires_grad_()
    out = linear(x)
    assert out.tolist() == [[-20.0, 3.0]]  # W' = [[0, -2], [3, 0]]
    out.backward(STRAIGHT.to(dtype))
    # dL/dW' = outer((2, 7), (1, 10)) = [[2, 20], [7, 70]], so d score = W * dL/dW', and dx = (2, 7) W' = (21, -4)
    assert mask_of(linear).scores.grad.tolist() == [[1.0, -40.0], [21.0, -17.5]]
    assert x.grad is not None
    assert x.grad.tolist() == [[21.0, -4.0]]
    of_weight = raw_weights({"l": linear})["l.weight"].grad
    assert (None if of_weight is None else of_weight.tolist()) == ([[0.0, 20.0], [7.0, 0.0]] if trains else None)


def gradients(layer: nn.Module, x: torch.Tensor, rows: int, autocast: bool = False) -> list[torch.Tensor]:
    layer.zero_grad()
    x = x.detach().clone().requires_grad_()
    with from_rows(rows):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            out = layer(x)
        out.backward(torch.linspace(-1.0, 1.0, out.numel(), dtype=out.dtype).reshape(out.shape))
    return [out.detach(), *(cast(torch.Tensor, each.grad) for each in (x, *layer.parameters()) if each.requires_grad)]


@settings(max_examples=60)
@given(
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    sizes=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    bias=st.booleans(),
    trains=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
    autocast=st.booleans(),
    seed=st.integers(0, 5),
)
def test_bit_for_bit_those_of_a_weight_that_is_kept(
    shape: list[int], sizes: tuple[int, int], bias: bool, trains: bool, dtype: torch.dtype, autocast: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    layer = nn.Linear(*sizes, bias=bias).to(dtype)
    layer.weight.requires_grad = trains
    attach({"l": layer}, {"l.weight": ScoreMask(torch.rand(layer.weight.shape), 0.5)})
    x = torch.randn(*shape, sizes[0], dtype=dtype)
    again, kept = (gradients(layer, x, rows, autocast and dtype == torch.float32) for rows in (ALWAYS, NEVER))
    assert len(again) == len(kept)
    assert all(torch.equal(one, other) for one, other in zip(again, kept, strict=True))
    # and those of the formula: y = x W'^T with W' = W m, and d score = W * dL/dW'
    if dtype == torch.float64:
        weight = raw_weights({"l": layer})["l.weight"].detach()
        plain = (weight * mask_of(layer).binary()).requires_grad_()
        out = nn.functional.linear(x, plain, layer.bias)
        out.backward(torch.linspace(-1.0, 1.0, out.numel(), dtype=out.dtype).reshape(out.shape))
        assert plain.grad is not None
        torch.testing.assert_close(again[0], out)
        torch.testing.assert_close(mask_of(layer).scores.grad, (weight * plain.grad).float())


@pytest.mark.parametrize("method", TRAINING)
@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_a_training_is_the_same_bit_for_bit(name: str, method: str) -> None:
    states = []
    for rows in (ALWAYS, NEVER):
        model = made(name)
        pruning = srnet.attach(model, TRAINING[method], steps=20)
        torch.manual_seed(1)
        with from_rows(rows):
            train_in_own_loop(model, pruning, name, range(12))
        states.append(model.state_dict())
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[1])


@pytest.mark.usefixtures("always")
def test_a_layer_that_is_used_twice_and_a_graph_that_is() -> None:
    linear = masked()
    out = (linear(X) + linear(X)) * STRAIGHT
    out.sum().backward(retain_graph=True)
    assert mask_of(linear).scores.grad.tolist() == [[2.0, -80.0], [42.0, -35.0]]
    out.sum().backward()
    assert mask_of(linear).scores.grad.tolist() == [[4.0, -160.0], [84.0, -70.0]]


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.usefixtures("always")
def test_under_activation_checkpointing(reentrant: bool) -> None:
    """Which decides itself what is saved, and computes the layer again."""
    linear = masked()
    x = input_that_learns()
    checkpoint(linear, x, use_reentrant=reentrant).backward(STRAIGHT)
    assert mask_of(linear).scores.grad.tolist() == [[1.0, -40.0], [21.0, -17.5]]
    assert x.grad is not None
    assert x.grad.tolist() == [[21.0, -4.0]]


@pytest.mark.usefixtures("always")
def test_compiled() -> None:
    model = made("mlp")
    srnet.attach(model, srnet.MaskTraining(0.5), steps=9)
    plain = copy.deepcopy(model)
    for each in (torch.compile(model, backend="aot_eager"), plain):
        batch("mlp", 0).loss(each).backward()
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        if other.grad is not None:
            torch.testing.assert_close(one.grad, other.grad, rtol=0, atol=1e-6)


@pytest.mark.usefixtures("always")
def test_a_copy_has_its_own_masked_weight() -> None:
    linear = masked()
    out = linear(X)
    other = copy.deepcopy(linear)
    mask_of(other).scores.data.zero_()
    assert other(X).tolist() == [[0.0, 0.0]]
    out.backward(STRAIGHT)
    assert mask_of(linear).scores.grad.tolist() == [[1.0, -40.0], [21.0, -17.5]]


# --- memory --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [ALWAYS, NEVER])
@pytest.mark.parametrize("autocast", [False, True])
def test_no_masked_weight_outlives_its_forward_pass(rows: int, autocast: bool) -> None:
    layers = nn.Sequential(*(masked() for _ in range(3)))
    with from_rows(rows), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        found = [made_by(layer) for layer in layers]
        out = layers(input_that_learns())
        alive = [not ref.expired() for refs in found for ref in refs]
    assert alive == [rows == NEVER and not autocast] * 3  # autocast keeps a copy in bf16
    out.float().sum().backward()
    assert all(ref.expired() for refs in found for ref in refs)


def saved_bytes(layer: nn.Module, autocast: bool = False) -> int:
    """What the graph of one layer keeps alive, beside parameters and inputs."""
    before = torch.ones(64, 8, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast), torch.profiler.profile(profile_memory=True) as found:
        out = layer(before)
        del out
        out = layer(before)
    events = [each for each in found.profiler.kineto_results.events() if each.name() == "[memory]"]
    return sum(each.nbytes() for each in events) - out.numel() * out.element_size()


@pytest.mark.parametrize("autocast", [False, True])
def test_what_a_layer_keeps(autocast: bool) -> None:
    layer = nn.Linear(8, 4096, bias=False)
    layer.weight.requires_grad = False
    attach({"l": layer}, {"l.weight": ScoreMask(torch.rand(4096, 8), 0.5)})
    size = 4096 * 8 * (2 if autocast else 4)
    with from_rows(NEVER):
        assert size <= saved_bytes(layer, autocast) < 1.2 * size
    with from_rows(ALWAYS):
        assert saved_bytes(layer, autocast) < 0.1 * size


@pytest.mark.parametrize("kind", [ScoreMask, FixedMask, UnitMask, GateMask])
def test_by_kind_of_mask(kind: type[nn.Module]) -> None:
    masks: dict[type[nn.Module], nn.Module] = {
        ScoreMask: ScoreMask(SCORES.clone(), 0.01),
        FixedMask: FixedMask(SCORES >= 0.01),
        UnitMask: UnitMask(ScoreMask(torch.tensor([0.0, 0.02]), 0.01), torch.tensor([0, 1]), 1),
        GateMask: GateMask(torch.tensor([[-9.0, 9.0], [9.0, -9.0]])),
    }
    results = []
    for rows in (ALWAYS, NEVER):
        linear = masked(copy.deepcopy(masks[kind]), trains=True)
        torch.manual_seed(0)
        results.append(gradients(linear, X, rows))
        linear.zero_grad()
        with from_rows(rows):
            found, out = made_by(linear), linear(input_that_learns())
            is_freed = found[0].expired()
        assert is_freed == (rows == ALWAYS and kind is not GateMask), "gates draw noise, which is not drawn twice"
        del out
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


def test_few_rows_are_freed_only_where_gradients_wait_for_them() -> None:
    linear = masked()
    found = made_by(linear)
    first = linear(input_that_learns())
    assert not found[0].expired(), "its place is the gradient's"
    first.sum().backward()
    second = linear(input_that_learns())
    assert found[1].expired(), "the gradient has a place of its own"
    second.sum().backward()
    linear.zero_grad()
    third = linear(input_that_learns())
    assert not found[2].expired()
    many = linear(input_that_learns().expand(freed.MANY_ROWS, 2))
    assert found[3].expired()
    assert mask_of(linear).scores.grad is None
    del third, many


# --- mistakes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["input", "weight", "scores", "threshold"])
@pytest.mark.usefixtures("always")
def test_what_was_changed_before_the_backward_pass_is_noticed(what: str) -> None:
    linear = masked()
    hidden = input_that_learns() * 1.0
    out = linear(hidden)
    changed = {
        "input": hidden,
        "weight": raw_weights({"l": linear})["l.weight"],
        "scores": mask_of(linear).scores,
        "threshold": mask_of(linear).phi,
    }[what]
    with torch.no_grad():
        changed.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward(STRAIGHT)


@pytest.mark.usefixtures("always")
def test_after_an_error_in_a_layer_nothing_is_left() -> None:
    linear = masked()
    with pytest.raises(RuntimeError):
        linear(torch.ones(1, 3))
    assert torch._C._autograd._top_saved_tensors_default_hooks(False) is None
    assert not cast(Any, linear).parametrizations["weight"]._forward_hooks


def test_a_layer_without_its_mask_is_the_layer_it_was() -> None:
    linear = masked()
    assert isinstance(linear, nn.Linear)
    detach({"l": linear})
    assert type(linear) is nn.Linear
    attach({"l": linear}, {"l.weight": ScoreMask(SCORES.clone(), 0.01)})
    assert linear(X).tolist() == [[-20.0, 3.0]]


@pytest.mark.usefixtures("always")
def test_evaluation_keeps_nothing_and_is_the_same() -> None:
    model = made("bert")
    srnet.attach(model, srnet.MaskTraining(0.5), steps=9)
    with_hooks = logits(model, "bert")
    with from_rows(NEVER):
        assert torch.equal(logits(model, "bert"), with_hooks)


class Doubled(nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return 2 * weight


@pytest.mark.parametrize("comes_first", [True, False])
def test_another_parametrisation_of_the_weight_counts_in_the_gradient(always: None, comes_first: bool) -> None:
    linear = nn.Linear(2, 2, bias=False)
    linear.weight.data.copy_(WEIGHT)
    if comes_first:
        parametrize.register_parametrization(linear, "weight", Doubled())
    attach({"l": linear}, {"l.weight": ScoreMask(SCORES.clone(), 0.01)})
    if not comes_first:
        parametrize.register_parametrization(linear, "weight", Doubled())
    x = input_that_learns()
    linear(x).sum().backward()  # 2 * (3, -2): column sums of the masked weight, doubled
    assert x.grad is not None
    assert x.grad.tolist() == [[6.0, -4.0]]
