"""Which matrices of a model an imported mask may cover."""

from __future__ import annotations

from collections.abc import Mapping

from srnet.backbones import linear_layers
from srnet.lazy import nn
from srnet.masks.parametrization import raw_weights
from srnet.masks.targets import LAYERS

Shapes = Mapping[str, tuple[int, ...]]
"""Weight name -> shape."""


def stack_shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    """The matrices of the attention and feed-forward layers: no pooler, no head."""
    return _shapes(LAYERS.find(model))


def linear_shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    """Every matrix that can be masked."""
    return _shapes(linear_layers(model))


def _shapes(layers: Mapping[str, nn.Module]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(weight.shape) for name, weight in raw_weights(layers).items()}
