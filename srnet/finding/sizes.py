"""The bytes of a model: as a whole, and as what a receiver needs who has the full model."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from srnet.core.lazy import nn, torch
from srnet.experiment.nodes.models import ModelNode, Quantised
from srnet.experiment.nodes.training import FineTune
from srnet.experiment.store import Store
from srnet.masks.mask import Mask
from srnet.masks.parametrization import raw_weights
from srnet.masks.targets import Targets, in_base
from srnet.masks.units import inputs_dim
from srnet.models.rounding import rounded_layers
from srnet.training.updates import RANK

FLOAT = 4
"""Bytes of a number of 32 bits."""


class Size(NamedTuple):
    whole: int
    """Everything but the tokenizer: kept weights, and the bits of a mask."""
    beside: int
    """What differs from the full model: a mask, LoRA matrices, a head. 0 where it is made of the full model alone."""


def size_of(store: Store, node: ModelNode, full: ModelNode) -> Size:
    """The size of a model; numbers have 32 bits unless they are rounded to 8."""
    from srnet.experiment.compute import Context  # not at the top: it imports torch

    read = Context(store).subnetwork
    model, known = read(node), read(full)
    base = model.base()
    twins, mask = base.twins(), model.mask or Mask({})
    bits = len(mask.to_bytes()) if mask else 0
    kept = {name: _kept(each, mask.get(name)) for name, each in model.state(base).items() if name not in twins}
    there = {name: _kept(each, mask.get(name)) for name, each in known.state(base).items()}
    whole = {name: FLOAT * each.numel() for name, each in kept.items()}
    beside = {name: size for name, size in whole.items() if not torch.equal(kept[name], there[name])}
    if isinstance(node, Quantised):
        return Size(bits + sum((whole | _rounded_sizes(base.model, kept)).values()), 0)
    if isinstance(node, FineTune) and node.training.update == "lora":
        beside |= _low_rank_sizes(base.model, beside)
    return Size(bits + sum(whole.values()), bits + sum(beside.values()))


def _kept(tensor: torch.Tensor, keep: torch.Tensor | None) -> torch.Tensor:
    return tensor if keep is None else tensor[keep]


def _rounded_sizes(model: nn.Module, kept: Mapping[str, torch.Tensor]) -> dict[str, int]:
    """A byte for each weight and a scale for each output."""
    layers = {f"{name}.weight": layer for name, layer in rounded_layers(model).items()}
    outputs = {name: layer.weight.shape[1 - inputs_dim(layer)] for name, layer in layers.items()}
    return {name: kept[name].numel() + FLOAT * outputs[name] for name in layers.keys() & kept.keys()}


def _low_rank_sizes(model: nn.Module, changed: Collection[str]) -> dict[str, int]:
    """The two matrices of each weight that got a product added; the head, which masks may cover, trains as it is."""
    weights = raw_weights({name: layer for name, layer in Targets().find(model).items() if in_base(model, name)})
    return {name: FLOAT * RANK * sum(weights[name].shape) for name in weights.keys() & set(changed)}
