"""Masked weights that are freed after a layer's forward pass and computed again in its backward pass.

A linear layer saves its weight for the backward pass. With masks that is a new tensor in every layer, and all of them
would be alive at once. The layer computes as before; only what it saves is replaced, by `saved_tensors_hooks`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.utils import parametrize

MANY_ROWS = 1024
"""Rows of a layer's input (tokens) from which its masked weight is freed.

Below, a second pass over the weight costs several percent of the step on the CPU, and gains nothing: one after the
other, masked weights make room for the gradients of their scores. From here on it costs below one percent, and the
masked weights would be added to the activations.
"""


def free_masked_weight(layer: nn.Module) -> None:
    """Let a layer whose weight has a mask free the masked weight where that lowers the peak of memory.

    It is a method of the class that `parametrize` made for this layer alone, and goes with it when the mask is removed.
    """
    kind = type(layer)
    if "forward" in vars(kind):
        return
    plain = kind.forward

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or not _lowers_peak(self, args):
            return plain(self, *args, **kwargs)
        with _freeing(self.parametrizations["weight"]):
            return plain(self, *args, **kwargs)

    kind.forward = forward


def _lowers_peak(layer: Any, args: tuple[Any, ...]) -> bool:
    if not torch.is_grad_enabled() or not parametrize.is_parametrized(layer, "weight") or parametrize._cache_enabled:
        return False
    stack = layer.parametrizations["weight"]
    if len(stack) > 1:  # another parametrisation, whose result is computed from that of the mask or before it
        return False
    sources = stack[0].sources()
    if sources is None or not _may_hook():
        return False
    inputs = args[0] if args else None
    if isinstance(inputs, torch.Tensor) and inputs.numel() >= MANY_ROWS * inputs.shape[-1]:
        return True
    # gradients of an earlier batch, to which this one's are added: there is no room for masked weights
    return any(each.is_leaf and each.grad is not None for each in (stack.original, *sources))


def _may_hook() -> bool:
    """Whether nobody else decides what is saved, as activation checkpointing does, and `torch.func` allows it."""
    autograd: Any = torch._C._autograd
    is_allowed: bool = autograd._saved_tensors_hooks_is_enabled()
    return is_allowed and autograd._top_saved_tensors_default_hooks(False) is None


@contextlib.contextmanager
def _freeing(stack: Any) -> Iterator[None]:
    """Replace the masked weight, in what is saved for the backward pass, by how to compute it again."""
    made: dict[int, torch.dtype] = {}
    sources = (stack.original, *stack[0].sources())
    versions = [each._version for each in sources]

    def note(module: Any, args: Any, weight: torch.Tensor) -> torch.Tensor:
        weight = weight.to(_autocast_dtype(weight))  # what autocast would do in the layer, with a copy nobody knows
        made[_storage(weight)] = weight.dtype
        return weight

    def pack(saved: torch.Tensor) -> Any:
        dtype = made.get(_storage(saved))
        if dtype is None:
            return saved, saved._version
        return dtype, saved.size(), saved.stride(), saved.storage_offset()

    def unpack(packed: Any) -> torch.Tensor:
        what, *place = packed
        if isinstance(what, torch.Tensor):
            _check_unchanged([what], place)  # torch leaves this to hooks where there are some
            return what
        _check_unchanged(sources, versions)
        with torch.no_grad():
            return torch.as_strided(stack[0](stack.original).to(what), *place)

    handle = stack.register_forward_hook(note)
    try:
        with saved_tensors_hooks(pack, unpack):
            yield
    finally:
        handle.remove()


def _check_unchanged(tensors: Iterable[torch.Tensor], versions: list[int]) -> None:
    if [each._version for each in tensors] != versions:
        raise RuntimeError(
            "the input, the weight, the scores or the threshold of a masked layer were modified by an inplace "
            "operation between its forward and backward passes: call backward() before the step of the optimiser"
        )


def _autocast_dtype(weight: torch.Tensor) -> torch.dtype:
    device = weight.device.type
    is_cast = weight.dtype == torch.float32 and torch.is_autocast_enabled(device)
    return torch.get_autocast_dtype(device) if is_cast else weight.dtype


def _storage(tensor: torch.Tensor) -> int:
    """A number that tensors with the same memory share, on every device."""
    return int(tensor.untyped_storage()._cdata)
