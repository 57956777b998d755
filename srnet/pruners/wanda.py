"""Wanda (Sun et al. 2023): weights are ranked by their magnitude times the norm of their input."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from srnet.config.values import Count
from srnet.core.errors import UserError, reason
from srnet.core.lazy import nn, no_grad, torch
from srnet.masks.budget import Sparsity, meet_budget
from srnet.masks.granularity import WEIGHT
from srnet.masks.mask import Mask
from srnet.masks.parametrization import raw_weights, weight_name
from srnet.masks.targets import decodes
from srnet.masks.units import inputs_dim
from srnet.pruners.base import Batches, OfUnits, register


@register
@dataclass(frozen=True)
class Wanda(OfUnits):
    """Wanda: in every output row the weights with the lowest |W_ij| ||x_j|| are pruned, nothing is trained."""

    name: ClassVar[str] = "wanda"
    trains: ClassVar[bool] = False
    sparsity: Sparsity = 0.5
    calibration: Count = 128
    """Examples of the ID training data, drawn by the model's seed, on which inputs are measured."""

    @property
    def rows(self) -> int:
        return self.calibration

    def mask(self, model: nn.Module, batches: Batches = ()) -> Mask:
        layers = self.targets.find(model)
        norms = _input_norms(model, layers, batches)
        ranks, scores = {}, {}
        for name, weight in raw_weights(layers).items():
            transposed = inputs_dim(layers[name.removesuffix(".weight")]) == 0
            scores[name] = weight.detach().abs() * (norms[name][:, None] if transposed else norms[name])
            ranks[name] = _ranks(scores[name], dim=0 if transposed else 1)
        if self.granularity != WEIGHT:
            groups = self.groups(model)
            return groups.expand(groups.keep(groups.pool(scores), self.share, "local"))
        # A matrix loses the lowest ranks of all its rows. Within the last, incomplete rank the score decides, so that
        # the sparsity is met to the weight.
        return meet_budget(ranks, self.sparsity, "local", scores)


def _on(device: Any, batch: Any, with_labels: bool) -> Any:
    """Inputs of a model on its device: keyword arguments, or a tuple of arguments.

    Only an encoder-decoder reads its labels, as the decoder's input.
    """
    if isinstance(batch, Mapping):
        return {name: each.to(device) for name, each in batch.items() if with_labels or name != "labels"}
    return tuple(each.to(device) for each in (batch if isinstance(batch, list | tuple) else (batch,)))


def _ranks(scores: torch.Tensor, dim: int) -> torch.Tensor:
    """The rank of each score along `dim`; 0 is the lowest."""
    order = scores.argsort(dim=dim, stable=True)
    return order.argsort(dim=dim)


@no_grad
def _input_norms(model: nn.Module, layers: dict[str, nn.Module], batches: Batches) -> dict[str, torch.Tensor]:
    """Weight name -> the L2 norm of each input of the layer, over all tokens but padding."""
    squares: dict[str, torch.Tensor] = {}
    batch: Any = ()

    def add(name: str, layer: nn.Module, inputs: tuple[torch.Tensor, ...], output: Any) -> None:
        values, attended = inputs[0], batch.get("attention_mask") if isinstance(batch, dict) else None
        if attended is not None and values.shape[:-1] == attended.shape:
            values = values[attended.bool()]
        squares[name] = squares.get(name, 0.0) + values.reshape(-1, values.shape[-1]).float().square().sum(0)

    device = next(model.parameters()).device
    with ExitStack() as hooks:
        hooks.callback(model.train, model.training)
        for name, layer in layers.items():
            hook: Callable[..., None] = partial(add, weight_name(name))
            hooks.callback(layer.register_forward_hook(hook).remove)
        model.eval()
        for each in batches:
            try:
                batch = _on(device, each, decodes(model))
                model(**batch) if isinstance(batch, dict) else model(*batch)
            except Exception as error:  # the model may be anybody's
                fix = "give inputs alone: mappings of keyword arguments, tuples of arguments, or tensors"
                raise UserError(f"the model cannot be run on a batch ({reason(error)})", fix) from error
    if batch == ():
        raise UserError("wanda measures the inputs of layers, and there are no batches", "give batches of inputs")
    if len(squares) < len(layers):
        unseen = next(name for name in layers if weight_name(name) not in squares)
        raise UserError(f"wanda found no input of {unseen}", "exclude layers that the model does not use")
    return {name: total.sqrt() for name, total in squares.items()}
