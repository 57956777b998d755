"""Weights of 8 bits: what rounding the matrices of a dense model costs, as the baseline of a sparse one."""

from __future__ import annotations

from typing import Any

from srnet.core.lazy import nn, torch
from srnet.masks.targets import linear_layers
from srnet.masks.units import inputs_dim

LEVELS = 127
"""The largest whole number of a weight. It is symmetric: from -127 to 127, and zero stays zero."""


def rounded_layers(model: nn.Module) -> dict[str, Any]:
    """The linear layers whose weights are rounded: all, unless the embeddings share them."""
    others = {
        id(each) for module in model.modules() if isinstance(module, nn.Embedding) for each in module.parameters()
    }
    return {name: layer for name, layer in linear_layers(model).items() if id(layer.weight) not in others}


def round_weights(model: nn.Module) -> None:
    """Round the weights of every linear layer to 8 bits with one scale for each output, in place.

    Weights, not activations: the model computes in float32 with rounded weights.
    """
    with torch.no_grad():
        for layer in rounded_layers(model).values():
            layer.weight.copy_(_rounded(layer.weight, inputs_dim(layer)))


def _rounded(weight: torch.Tensor, inputs: int) -> torch.Tensor:
    """The nearest multiples of each output's scale, which is its largest weight divided by `LEVELS`."""
    scale = weight.abs().amax(inputs, keepdim=True) / LEVELS
    return torch.where(scale > 0, (weight / scale).round() * scale, weight)
