"""The mask inside a model: a parametrisation of the weight, so that any architecture works unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from srnet.core.lazy import nn, parametrize, torch
from srnet.masks.mask import Mask


def weight_name(module_name: str) -> str:
    return f"{module_name}.weight"


def attach(layers: Mapping[str, nn.Module], masks: Mapping[str, nn.Module]) -> None:
    """Attach each layer's mask (by weight name) to its weight."""
    for name, layer in layers.items():
        # unsafe: skips a check that would run the mask on the weight once more; shapes are equal by construction
        parametrize.register_parametrization(layer, "weight", masks[weight_name(name)], unsafe=True)


def attached(layers: Mapping[str, nn.Module]) -> dict[str, nn.Module]:
    """Weight name -> the mask module on it."""
    found = {}
    for name, layer in layers.items():
        if parametrize.is_parametrized(layer, "weight"):
            found[weight_name(name)] = cast(Any, layer).parametrizations["weight"][0]
    return found


def raw_weights(layers: Mapping[str, nn.Module]) -> dict[str, torch.Tensor]:
    """Weight name -> the unmasked weight, with or without a mask on it."""
    result: dict[str, torch.Tensor] = {}
    for name, layer in layers.items():
        masked = parametrize.is_parametrized(layer, "weight")
        result[weight_name(name)] = (
            cast(Any, layer).parametrizations["weight"].original if masked else cast(torch.Tensor, layer.weight)
        )
    return result


def current_mask(layers: Mapping[str, nn.Module]) -> Mask:
    """The mask that the attached modules apply."""
    return Mask({name: cast(Any, module).binary() for name, module in attached(layers).items()})
