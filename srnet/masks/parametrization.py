"""The mask inside a model: a parametrisation of the weight, so that any architecture works unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from srnet.core.lazy import nn, no_grad, parametrize, torch
from srnet.masks.mask import Mask


def weight_name(module_name: str) -> str:
    return f"{module_name}.weight"


def attach(layers: Mapping[str, nn.Module], masks: Mapping[str, nn.Module]) -> None:
    """Attach each layer's mask (by weight name) to its weight."""
    from srnet.masks.freed import free_masked_weight  # not at the top: it imports torch

    for name, layer in layers.items():
        # unsafe: skips a check that would run the mask on the weight once more; shapes are equal by construction
        parametrize.register_parametrization(layer, "weight", masks[weight_name(name)], unsafe=True)
        free_masked_weight(layer)


def is_score(name: str) -> bool:
    """Whether a parameter is the score of a mask, and not one of the model's own that is named alike."""
    return name.endswith(".scores") and ".parametrizations.weight." in name


def is_masked(model: nn.Module) -> bool:
    """Whether some layer has a mask, or another parametrisation of its weight."""
    return any(parametrize.is_parametrized(layer, "weight") for layer in model.modules())


def detach(layers: Mapping[str, nn.Module]) -> None:
    """Remove the masks. Each weight is again the parameter that it was, unmasked."""
    for layer in layers.values():
        if parametrize.is_parametrized(layer, "weight"):
            parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
            for other in [name for name in layer._parameters if name != "weight"]:  # the weight is first again
                layer._parameters[other] = layer._parameters.pop(other)


def save_plain(layers: Mapping[str, nn.Module]) -> list[Any]:
    """Let `state_dict` have the masked weight under its ordinary name as well, and `load_state_dict` ignore it.

    A model that is saved with masks on it can then be loaded by `from_pretrained` with the same logits, and by the
    masked model to resume. Returns handles that undo it.
    """
    handles = []
    for layer in layers.values():
        if parametrize.is_parametrized(layer, "weight"):
            handles.append(layer.register_state_dict_post_hook(_add_plain))  # type: ignore[no-untyped-call]
            handles.append(layer.register_load_state_dict_pre_hook(_ignore_plain))  # type: ignore[no-untyped-call]
    return handles


@no_grad
def _add_plain(layer: Any, state: dict[str, Any], prefix: str, metadata: Any) -> None:
    mask = layer.parametrizations["weight"][0]
    was_training = mask.training
    mask.eval()  # gates without noise
    state[f"{prefix}weight"] = layer.weight.detach()
    mask.train(was_training)


def _ignore_plain(layer: Any, state: dict[str, Any], prefix: str, *others: Any) -> None:
    if f"{prefix}parametrizations.weight.original" in state:
        state.pop(f"{prefix}weight", None)


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
