"""Which layers a model has, found by structure: the same for every architecture."""

from __future__ import annotations

from srnet.lazy import nn


def linear_layers(model: nn.Module) -> dict[str, nn.Module]:
    """Module name -> layer, in the model's order. A layer that a model uses many times (ALBERT) is listed once."""
    from transformers.pytorch_utils import Conv1D  # not at the top: it imports torch

    return {name: module for name, module in model.named_modules() if isinstance(module, (nn.Linear, Conv1D))}


def in_base(model: nn.Module, name: str) -> bool:
    """Whether `name` belongs to the pre-trained part, not to the head; a model without such a part is all base."""
    prefix = getattr(model, "base_model_prefix", "")
    return not hasattr(model, prefix) or name.startswith(f"{prefix}.")


def classifier_of(model: nn.Module) -> str | None:
    """The layer that gives the logits: the last one of the head. A dense layer before it is a pooler."""
    head = [name for name in linear_layers(model) if not in_base(model, name)]
    return head[-1] if head else None
