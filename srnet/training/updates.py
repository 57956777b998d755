"""Fine-tuning that updates less than every weight: the head alone, or low-rank matrices (Hu et al. 2022)."""

from __future__ import annotations

from typing import Any

from srnet.core.errors import UserError
from srnet.core.lazy import nn, torch
from srnet.masks.mask import Mask
from srnet.masks.targets import Targets
from srnet.masks.units import inputs_dim
from srnet.training.method import Method
from srnet.training.settings import Update

RANK = 8
"""The rank of the matrices of LoRA, as in its authors' comparisons."""


def update_method(update: Update, mask: Mask | None, seed: int = 0) -> Method:
    """What acts during a fine-tuning that updates the weights that `update` names; `seed` is that of new matrices."""
    if update == "all":
        return Method(mask)
    if mask is not None:
        raise UserError(f"a subnetwork trains all its weights, not '{update}'", "leave update out")
    return _HeadOnly() if update == "head" else _LowRank(seed)


class _HeadOnly(Method):
    """The encoder is frozen: what a linear classifier makes of its features."""

    def prepare(self, model: nn.Module, total_steps: int) -> None:
        super().prepare(model, total_steps)
        _freeze_encoder(model)


class _LowRank(Method):
    """LoRA: each linear layer that pruning would mask gets a product of two small matrices, and the head trains."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed

    def prepare(self, model: nn.Module, total_steps: int) -> None:
        super().prepare(model, total_steps)
        peft = _peft()
        _freeze_encoder(model)
        head = {name for name, each in model.named_parameters() if each.requires_grad}
        layers = [name for name in Targets().find(model) if f"{name}.weight" not in head]
        transposed = all(inputs_dim(model.get_submodule(name)) == 0 for name in layers)
        # alpha twice the rank is usual; without dropout, as the model has its own
        config = peft.LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules=layers, fan_in_fan_out=transposed)
        with torch.random.fork_rng(devices=[]):  # a run that starts again has the same matrices
            torch.manual_seed(self.seed)
            peft.inject_adapter_in_model(config, model)
        for name, each in model.named_parameters():
            each.requires_grad = name in head or ".lora_" in name

    def state(self) -> dict[str, torch.Tensor]:
        """With the products added to the weights, under their ordinary names."""
        from peft.tuners.lora import LoraLayer

        state = {name: each for name, each in super().state().items() if ".lora_" not in name}
        for name, layer in self.model.named_modules():
            if isinstance(layer, LoraLayer):
                delta = layer.get_delta_weight("default")  # type: ignore[attr-defined]
                state[f"{name}.base_layer.weight"] = (layer.base_layer.weight + delta).detach()
        return {name.replace(".base_layer.", "."): each for name, each in state.items()}


def _freeze_encoder(model: nn.Module) -> None:
    """What trains is outside the base model, or was randomly initialised, as a missing pooler is."""
    # `srnet.models.backbones` keeps these names on the model
    new: frozenset[str] = getattr(model, "newly_initialised", frozenset())
    prefix = getattr(model, "base_model_prefix", "")
    for name, parameter in model.named_parameters():
        parameter.requires_grad = name in new or not (prefix and name.startswith(f"{prefix}."))


def _peft() -> Any:
    try:
        import peft
    except ImportError:
        raise UserError("LoRA needs peft, which is not installed", "pip install peft") from None
    return peft
