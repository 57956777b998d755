"""Frozen weights that are kept in bf16 while masks train: rounded once, before the training, and half as large.

Layers compute as before: a masked weight is made in float32 from the rounded one, and embeddings are converted row by
row. The model that was found has the rounded weights, in float32 again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import nn
from torch.nn.utils import parametrize

from srnet.masks.parametrization import weight_name


class _AsFloat32:
    """What follows embeddings that are kept in bf16. It holds their parameter, without values."""

    def __init__(self, weight: nn.Parameter) -> None:
        self.weight = weight

    def __call__(self, module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
        return output.float()


def round_frozen(model: nn.Module, layers: Mapping[str, nn.Module]) -> frozenset[str]:
    """Keep the frozen weights under masks and the input embeddings in bf16; returns the names of what was rounded.

    Weights that train, that are not in float32 or that other modules share stay as they are.
    """
    uses = Counter(id(each) for module in model.modules() for each in module._parameters.values())
    found = []
    for name, layer in layers.items():
        if parametrize.is_parametrized(layer, "weight"):
            stack = cast(Any, layer).parametrizations["weight"]
            if _may_round(stack.original, uses):
                stack[0].computes_in, stack.original.data = stack.original.dtype, stack.original.data.bfloat16()
                found.append(weight_name(name))
    name, embeddings = _input_embeddings(model)
    if embeddings is not None and _may_round(embeddings.weight, uses):
        # a buffer: of the parameters of a model, transformers takes the first one's type for that of all
        weight = cast(nn.Parameter, embeddings._parameters.pop("weight"))
        embeddings.register_buffer("weight", weight.data.bfloat16())
        embeddings.register_forward_hook(_AsFloat32(weight))
        weight.data = weight.data.new_empty(0)
        found.append(weight_name(name))
    return frozenset(found)


def _may_round(weight: torch.Tensor, uses: Counter[int]) -> bool:
    return weight.dtype == torch.float32 and not weight.requires_grad and uses[id(weight)] == 1


def _input_embeddings(model: nn.Module) -> tuple[str, nn.Embedding | None]:
    """The embeddings of the tokens, where the model names them as those of transformers do."""
    try:
        found = cast(Any, model).get_input_embeddings()
    except (AttributeError, NotImplementedError):
        return "", None
    name = next((name for name, module in model.named_modules() if module is found), "")
    is_plain = isinstance(found, nn.Embedding) and isinstance(found._parameters.get("weight"), nn.Parameter)
    return name, found if name and is_plain else None


def widen_frozen(model: nn.Module) -> None:
    """Keep everything in float32 again, with the rounded values. Masks may still be attached."""
    for module in model.modules():
        if parametrize.is_parametrized(module, "weight"):
            stack = cast(Any, module).parametrizations["weight"]
            if getattr(stack[0], "computes_in", None) is not None:
                stack.original.data, stack[0].computes_in = stack.original.data.to(stack[0].computes_in), None
        for key, hook in list(module._forward_hooks.items()):
            if isinstance(hook, _AsFloat32):
                del module._forward_hooks[key]
                hook.weight.data = cast(torch.Tensor, module._buffers.pop("weight")).float()
                module.register_parameter("weight", hook.weight)
