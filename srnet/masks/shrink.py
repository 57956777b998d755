"""Physical removal of pruned units: smaller matrices with the logits of the masked model.

A unit is removable if its output is multiplied by zeros only, or if its output is a constant, which is then added to
the bias that follows. A head whose value rows are zero outputs its value bias for every input, because attention sums
to one; a neuron whose input row is zero outputs `act(bias)`. Where no bias follows (Llama) only units with a constant
of zero are removable.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from srnet.masks.units import FAMILIES, Block, Family, Role, blocks_of

Units = dict[str, list[int]]
"""Block name -> the units that are left, for blocks without some of theirs."""


@torch.no_grad()
def shrink(model: nn.Module, *, uniform: bool = False) -> Units:
    """The units that are left after all removable ones were removed, in place.

    `uniform` leaves the same number of units in every layer, where the configuration has a field for that number, and
    sets the field. Layers that need fewer then keep some pruned ones.
    """
    idle = {block: _idle(model, block) for block in blocks_of(model)}
    removed = {block: units for block, (units, _) in idle.items()}
    if uniform:
        removed = _evenly(model, removed)
    left: Units = {}
    for block, units in removed.items():
        if units.any():
            _add_to_bias(model, block, idle[block][1][units].sum(0))
            left[block.name] = (~units).nonzero().flatten().tolist()
            _cut(model, block, left[block.name])
    if uniform:
        _configure(model)
    return left


def cut_blocks(model: nn.Module, left: Mapping[str, list[int]]) -> None:
    """Remove all other units of these blocks, so that the model has the shapes of a shrunken one."""
    blocks = {block.name: block for block in blocks_of(model)}
    for name, units in left.items():
        _cut(model, blocks[name], units)


# --- removable units -----------------------------------------------------------------------------------------------


def _idle(model: nn.Module, block: Block) -> tuple[torch.Tensor, torch.Tensor]:
    """Which units are removable (size,), and what each of them adds to the hidden states (size, hidden)."""
    columns = _by_unit(model, block, "output")
    value, constant = _constants(model, block)
    value = value.repeat(1, columns.shape[1] // value.shape[1])  # every query head of a group gets the same value
    adds = torch.where(constant[:, None], torch.einsum("uw,uwh->uh", value, columns), 0)
    silent = (columns == 0).flatten(1).all(1)
    adds[silent] = 0
    if model.get_submodule(block.output).bias is None:
        constant = constant & (adds == 0).all(1)
    return silent | constant, adds


def _constants(model: nn.Module, block: Block) -> tuple[torch.Tensor, torch.Tensor]:
    """The output of each unit (size, width) if it is the same for every input, and whether it is (size,)."""
    if block.kind == "attention":
        return _bias(model, block, "value"), _is_zero(model, block, "value")
    act: Any = model.get_submodule(block.activation)
    if not block.slices("gate"):
        return act(_bias(model, block, "input")), _is_zero(model, block, "input")
    gate, up = act(_bias(model, block, "gate")), _bias(model, block, "up")
    gated, raised = _is_zero(model, block, "gate"), _is_zero(model, block, "up")
    never = gated & (gate[:, 0] == 0) | raised & (up[:, 0] == 0)  # one factor of zero is enough
    return torch.where(never[:, None], 0, gate * up), gated & raised | never


def _by_unit(model: nn.Module, block: Block, role: Role) -> torch.Tensor:
    """The weights of a role by unit; float64, so that the constants are as exact as their sum."""
    (each,) = block.slices(role)
    return each.by_unit(model.get_parameter(each.name), block.size).double()


def _is_zero(model: nn.Module, block: Block, role: Role) -> torch.Tensor:
    return (_by_unit(model, block, role) == 0).flatten(1).all(1)


def _bias(model: nn.Module, block: Block, role: Role) -> torch.Tensor:
    """The biases of a role by unit (size, width); zero where there is none."""
    found = [each.by_unit(model.get_parameter(each.name), block.size) for each in block.biases if each.role == role]
    return found[0].double() if found else torch.zeros_like(_by_unit(model, block, role)[..., 0])


def _add_to_bias(model: nn.Module, block: Block, constant: torch.Tensor) -> None:
    bias = model.get_submodule(block.output).bias
    if bias is not None:
        bias.copy_(bias.double() + constant)  # type: ignore[operator]


# --- the same number in every layer --------------------------------------------------------------------------------


def _evenly(model: Any, removable: dict[Block, torch.Tensor]) -> dict[Block, torch.Tensor]:
    """Of the removable units, the same number in every layer."""
    result = {}
    for block, units in removable.items():
        least = max(int((~other).sum()) for each, other in removable.items() if each.kind == block.kind)
        result[block] = units & (units.cumsum(0) <= block.size - _possible(model, block, max(least, 1)))
    return result


def _possible(model: Any, block: Block, least: int) -> int:
    """The smallest number of units, at least `least`, that the configuration can express."""
    if block.kind == "feed-forward":
        return least
    if not family_of(model).heads:
        return block.size
    return next((number for number in range(least, block.size) if _allows(model, block, number)), block.size)


def _allows(model: Any, block: Block, heads: int) -> bool:
    """Whether the configuration accepts the number: Llama's hidden size is a multiple of it, Mistral's need not be."""
    config = copy.copy(model.config)
    _configure_heads(config, model.get_submodule(block.name), heads)
    try:
        config.validate_architecture()
    except ValueError:
        return False
    return True


def _configure(model: Any) -> None:
    """Write the number of units to the configuration."""
    family, config = family_of(model), model.config
    for block in blocks_of(model):
        if block.kind == "feed-forward":
            setattr(config, family.neurons, block.size)
        elif family.heads:
            _configure_heads(config, model.get_submodule(block.name), block.size)


def _configure_heads(config: Any, attention: Any, units: int) -> None:
    """Write a number of key/value heads to the configuration, each with its query heads."""
    config.head_dim = attention.head_dim  # would follow from the number of heads
    config.num_attention_heads, config.num_key_value_heads = units * attention.num_key_value_groups, units


def family_of(model: Any) -> Family:
    return FAMILIES[model.config.model_type]


# --- the cut -------------------------------------------------------------------------------------------------------


def _cut(model: Any, block: Block, units: list[int]) -> None:
    """Remove all other units of a block."""
    if not units:
        _bypass(model, block)
        return
    left = torch.tensor(units, device=model.get_parameter(block.weights[0].name).device)
    parts = (*block.weights, *block.biases)
    for name in dict.fromkeys(each.name for each in parts):
        slices = [each for each in parts if each.name == name]
        indices = torch.cat([each.indices(left) for each in slices]).sort().values
        _replace(model, name, model.get_parameter(name).index_select(slices[0].dim, indices))
    module = model.get_submodule(block.name)
    if block.kind == "attention":
        _count_heads(module, block, len(units))
        if model.config.model_type == "mpnet":
            module.register_buffer("heads_left", left, persistent=False)
            module.register_forward_pre_hook(_choose_position_bias)


def _replace(model: nn.Module, name: str, tensor: torch.Tensor) -> None:
    path, _, own = name.rpartition(".")
    module: Any = model.get_submodule(path)
    old = getattr(module, own)
    setattr(module, own, nn.Parameter(tensor.detach().clone(), requires_grad=old.requires_grad))
    if isinstance(module, nn.Linear):
        module.out_features, module.in_features = module.weight.shape
    elif isinstance(module, Conv1D):
        module.nx, module.nf = module.weight.shape


def _count_heads(module: Any, block: Block, left: int) -> None:
    """Set the sizes that attention modules store: each has some of these."""
    width = block.slices("value")[0].width
    sizes = dict.fromkeys(("num_attention_heads", "n_heads", "num_heads"), left)
    for name, size in (sizes | dict.fromkeys(("all_head_size", "split_size"), left * width)).items():
        if hasattr(module, name):
            setattr(module, name, size)


def _choose_position_bias(module: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments with the position biases of the remaining heads: MPNet computes those of all heads once."""
    hidden, mask, bias, *rest = args
    return hidden, mask, bias.index_select(1, module.heads_left), *rest


class _OnlyBias(nn.Module):
    """The last layer of a block without units: its bias."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.bias = layer.bias

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        zeros = torch.zeros_like(hidden_states)
        return zeros if self.bias is None else zeros + self.bias


class _NoUnits(nn.Module):
    """A block without units: the bias of its last layer, if the block contains that layer."""

    def __init__(self, last: str, layer: _OnlyBias | None, attends: bool, number: int) -> None:
        super().__init__()
        self.last, self.attends, self.number = last, attends, number
        if layer is not None:
            self.add_module(last, layer)

    def forward(self, hidden_states: torch.Tensor, *args: Any, past_key_values: Any = None, **kwargs: Any) -> Any:
        if self.attends and past_key_values is not None:  # in generation, tokens are counted in the first layer's cache
            counted = hidden_states.new_zeros(len(hidden_states), 1, hidden_states.shape[1], 1)
            past_key_values.update(counted, counted, self.number)
        if self.last:
            hidden_states = self.get_submodule(self.last)(hidden_states)
        return (hidden_states, None) if self.attends else hidden_states  # there are no attention weights


def _bypass(model: nn.Module, block: Block) -> None:
    """Replace a whole block by a constant; residual and norm around it stay."""
    last = _OnlyBias(model.get_submodule(block.output))
    inside = block.output.startswith(f"{block.name}.")
    if not inside:
        model.set_submodule(block.output, last)
    name = block.output.removeprefix(f"{block.name}.") if inside else ""
    attends = block.kind == "attention"
    model.set_submodule(block.name, _NoUnits(name, last if inside else None, attends, block.layer))
