"""A shrunken model has the logits of the masked one, whatever the mask removes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import MODELS, VARIANTS, logits, random_units, tiny, unit_mask
from torch import nn

from srnet.masks.mask import Mask
from srnet.masks.shrink import cut_blocks, shrink
from srnet.masks.units import FAMILIES, blocks_of

every = pytest.mark.parametrize("variant", VARIANTS)
ATOL = 1e-5


def masked(model: Any, mask: Mask) -> Any:
    model.load_state_dict(mask.apply(model.state_dict()))
    return model


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@settings(max_examples=60)
@given(
    variant=st.sampled_from(sorted(VARIANTS)),
    share=st.sampled_from([0.0, 0.3, 0.7, 1.0]),
    unstructured=st.sampled_from([0.0, 0.5]),
    seed=st.integers(0, 10**6),
    uniform=st.booleans(),
    some_roles=st.booleans(),
)
def test_logits_stay(
    variant: str, share: float, unstructured: float, seed: int, uniform: bool, some_roles: bool
) -> None:
    """Random units, whole or in some of their matrices, and random zeros beside them."""
    model = tiny(variant, seed)
    mask = unit_mask(model, random_units(model, share, seed))
    generator = torch.Generator().manual_seed(seed)
    if some_roles:
        mask = Mask(
            {n: t if torch.rand((), generator=generator) < 0.5 else torch.ones_like(t) for n, t in mask.items()}
        )
    mask = Mask({n: t & (torch.rand(t.shape, generator=generator) >= unstructured) for n, t in mask.items()})
    masked(model, mask)
    before, size = logits(model), parameters(model)
    left = shrink(model, uniform=uniform)
    torch.testing.assert_close(logits(model), before, rtol=0, atol=ATOL)
    assert (parameters(model) < size) == bool(left)


@every
def test_all_units_that_a_mask_removes_go(variant: str) -> None:
    model = tiny(variant)
    units = random_units(model, 0.5, seed=1)
    masked(model, unit_mask(model, units))
    left = shrink(model)
    expected = {name: keep.nonzero().flatten().tolist() for name, keep in units.items() if not keep.all()}
    assert left == expected
    sizes = {block.name: block.size for block in blocks_of(model)}
    assert {name: len(units) for name, units in expected.items() if units} == {
        name: size for name, size in sizes.items() if name in expected
    }


@every
def test_nothing_to_remove(variant: str) -> None:
    model = tiny(variant)
    state = copy.deepcopy(model.state_dict())
    assert shrink(model) == {}
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())


@every
def test_the_shapes_can_be_made_again(variant: str) -> None:
    """From the list of units alone, as a loader does."""
    model = masked(tiny(variant), unit_mask(tiny(variant), random_units(tiny(variant), 0.6, seed=3)))
    left = shrink(model)
    again = tiny(variant, seed=9)
    cut_blocks(again, left)
    again.load_state_dict(model.state_dict())
    assert torch.equal(logits(again, length=7), logits(model, length=7))


# --- what flows on, by hand ----------------------------------------------------------------------------------------


def zero_rows(model: Any, *names: str, rows: slice) -> None:
    with torch.no_grad():
        for name in names:
            model.get_parameter(name)[rows] = 0


def test_the_constant_of_a_neuron_is_folded() -> None:
    """A neuron with a zero row gives relu(bias): 3 for a bias of 3, and nothing for one of -2."""
    model = tiny("bert, relu")
    layer = model.bert.encoder.layer[0]
    zero_rows(model, "bert.encoder.layer.0.intermediate.dense.weight", rows=slice(0, 2))
    with torch.no_grad():
        layer.intermediate.dense.bias[:2] = torch.tensor([3.0, -2.0])
    column, bias = layer.output.dense.weight[:, 0].detach().clone(), layer.output.dense.bias.detach().clone()
    before = logits(model)
    assert shrink(model) == {"bert.encoder.layer.0.intermediate": list(range(2, 12))}
    torch.testing.assert_close(layer.output.dense.bias.detach(), bias + 3 * column)
    torch.testing.assert_close(logits(model), before, rtol=0, atol=ATOL)


def test_the_value_bias_of_a_head_is_folded() -> None:
    """Attention sums to one, so a head without a value gives its value bias at every position."""
    model = tiny("bert")
    attention = model.bert.encoder.layer[1].attention
    zero_rows(model, "bert.encoder.layer.1.attention.self.value.weight", rows=slice(4, 8))
    with torch.no_grad():
        attention.self.value.bias[4:8] = torch.tensor([1.0, 0.0, 2.0, 0.0])
    columns, bias = attention.output.dense.weight.detach().clone(), attention.output.dense.bias.detach().clone()
    before = logits(model)
    assert shrink(model) == {"bert.encoder.layer.1.attention.self": [0, 2, 3]}
    torch.testing.assert_close(attention.output.dense.bias.detach(), bias + columns[:, 4] + 2 * columns[:, 6])
    torch.testing.assert_close(logits(model), before, rtol=0, atol=ATOL)


def test_a_silent_unit_leaves_nothing() -> None:
    """Its columns are zero: its biases do not matter."""
    model = tiny("bert")
    output = model.bert.encoder.layer[0].output.dense
    with torch.no_grad():
        output.weight[:, 5] = 0
    bias = output.bias.detach().clone()
    assert shrink(model) == {"bert.encoder.layer.0.intermediate": [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11]}
    assert torch.equal(output.bias.detach(), bias)


def test_a_constant_stays_where_no_bias_follows() -> None:
    model = tiny("llama with biases")
    mlp = model.model.layers[0].mlp
    names = [f"model.layers.0.mlp.{name}_proj.weight" for name in ("gate", "up")]
    zero_rows(model, *names, rows=slice(0, 1))
    mlp.down_proj.bias = None
    assert shrink(model) == {}
    with torch.no_grad():
        mlp.up_proj.bias[0] = 0.0  # act(bias) * 0
    assert shrink(model) == {"model.layers.0.mlp": list(range(1, 12))}


def test_a_gate_alone_is_no_constant() -> None:
    """`act(b) * up(x)` depends on x unless act(b) is zero, and `act(gate(x)) * b` unless b is."""
    model = tiny("llama with biases")
    zero_rows(model, "model.layers.0.mlp.gate_proj.weight", rows=slice(0, 2))
    zero_rows(model, "model.layers.0.mlp.up_proj.weight", rows=slice(2, 4))
    with torch.no_grad():
        model.model.layers[0].mlp.gate_proj.bias[1] = 0.0  # silu(0) = 0
        model.model.layers[0].mlp.up_proj.bias[3] = 0.0
    assert shrink(model) == {"model.layers.0.mlp": [0, 2, *range(4, 12)]}


def test_a_head_without_query_and_key_still_averages() -> None:
    model = tiny("bert")
    names = [f"bert.encoder.layer.0.attention.self.{name}.weight" for name in ("query", "key")]
    zero_rows(model, *names, rows=slice(0, 4))
    assert shrink(model) == {}


# --- equal widths --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", MODELS)
def test_equal_widths_are_in_the_configuration(variant: str) -> None:
    model = tiny(variant)
    blocks = blocks_of(model)
    keeps = dict(zip((block.name for block in blocks), (1, 5, 1, 7), strict=True))
    units = {block.name: torch.arange(block.size) < keeps[block.name] for block in blocks}
    masked(model, unit_mask(model, units))
    before = logits(model)
    left = shrink(model, uniform=True)
    fewer_heads = bool(FAMILIES[variant].heads)
    assert {block.size for block in blocks_of(model)} == {1 if fewer_heads else 4, 7}
    assert len(left) == (4 if fewer_heads else 2)
    again = type(model)(model.config).eval()  # the configuration says it all
    again.load_state_dict(model.state_dict())
    torch.testing.assert_close(logits(again), before, rtol=0, atol=ATOL)


@pytest.mark.parametrize(("name", "left"), [("llama", 4), ("eurobert", 4), ("mistral", 3), ("qwen2", 3), ("gemma", 3)])
def test_a_number_of_heads_that_some_configurations_refuse(name: str, left: int) -> None:
    """Sixteen hidden units are no multiple of three heads. Where they must be, four heads stay."""
    model = tiny(name)
    model.config.num_key_value_heads = 4
    model = type(model)(model.config).eval()
    attention = [block for block in blocks_of(model) if block.kind == "attention"]
    masked(model, unit_mask(model, {block.name: torch.arange(4) < 3 for block in attention}))
    before = logits(model)
    shrink(model, uniform=True)
    assert {block.size for block in blocks_of(model) if block.kind == "attention"} == {left}
    assert (model.config.num_attention_heads, model.config.num_key_value_heads) == (left, left)
    again = type(model)(type(model.config).from_dict(model.config.to_dict())).eval()
    again.load_state_dict(model.state_dict())
    torch.testing.assert_close(logits(again), before, rtol=0, atol=ATOL)
    masked(model, unit_mask(model, {block.name: torch.arange(left) < 2 for block in attention}))
    assert set(map(len, shrink(model, uniform=True).values())) == {2}
    assert model.config.num_attention_heads == 2
