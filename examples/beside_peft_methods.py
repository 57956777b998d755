"""The methods of `beside_peft.py`: what each of them attaches, trains, saves, deploys and loads again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from safetensors.torch import load_file, save_file
from torch import nn

import srnet

LAYERS = srnet.Targets(exclude="outside-stack")
"""The matrices of attention and feed-forward layers: LoRA adapts and masks prune the same ones."""


class Full:
    """Every weight trains. The other methods override what differs."""

    about: ClassVar[str] = "full fine-tuning"
    rates: ClassVar[tuple[float, ...]] = (5e-5, 1.5e-4, 5e-4, 1.5e-3)

    def __init__(self, model: Any, head: list[str], steps: int) -> None:
        """`head`: the modules that the checkpoint has no weights for."""
        self.model, self.head, self.steps = model, head, steps
        self.prepare()

    def prepare(self) -> None:
        """Attach what the method adds, and freeze what does not train."""

    def trained(self) -> list[nn.Parameter]:
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    def groups(self, rate: float) -> Any:
        """What the optimiser gets."""
        return self.trained()

    def penalty(self) -> Any:
        """A term of the loss."""
        return 0.0

    def step(self) -> None:
        """Called after each step of the optimiser."""

    @property
    def sparsity(self) -> float:
        """The share of the layers' weights that is pruned, as counted."""
        return 0.0

    def save(self, folder: Path) -> None:
        """Write what the task needs beside the backbone."""
        self.model.save_pretrained(folder)

    def deployed(self) -> nn.Module:
        """The model that predicts: merged, baked or shrunk."""
        return self.model

    @classmethod
    def load(cls, model: Any, folder: Path) -> nn.Module:
        """The deployed model again, from the backbone and the folder."""
        model.load_state_dict(load_file(folder / "model.safetensors"))
        return model


class Head(Full):
    about = "head only"
    rates = (1e-3, 3e-3, 1e-2, 3e-2)

    def prepare(self) -> None:
        self.model.requires_grad_(False)
        for name in self.head:
            self.model.get_submodule(name).requires_grad_(True)

    def save(self, folder: Path) -> None:
        trained = {name: p.detach() for name, p in self.model.named_parameters() if p.requires_grad}
        save_file(trained, folder / "head.safetensors")

    @classmethod
    def load(cls, model: Any, folder: Path) -> nn.Module:
        model.load_state_dict(load_file(folder / "head.safetensors"), strict=False)
        return model


class LoRA(Full):
    about = "LoRA, rank 8"
    rates = (3e-4, 1e-3, 3e-3, 1e-2)
    rank: ClassVar[int] = 8

    def prepare(self) -> None:
        from peft import LoraConfig, get_peft_model

        modules = {"target_modules": list(LAYERS.find(self.model)), "modules_to_save": self.head}
        self.model = get_peft_model(self.model, LoraConfig(r=self.rank, lora_alpha=2 * self.rank, **modules))

    def deployed(self) -> nn.Module:
        return self.model.merge_and_unload()

    @classmethod
    def load(cls, model: Any, folder: Path) -> nn.Module:
        from peft import PeftModel

        return PeftModel.from_pretrained(model, folder).merge_and_unload()


class SmallLoRA(LoRA):
    about = "LoRA, rank 2"
    rank = 2


class Masks(Full):
    about = "masks, 50 % of weights"
    pruner: ClassVar[Any] = srnet.MaskTraining(0.5, targets=LAYERS)

    def prepare(self) -> None:
        self.pruning = srnet.attach(self.model, self.pruner, steps=self.steps, train=tuple(self.head))

    def groups(self, rate: float) -> Any:
        return self.pruning.parameters(lr=rate, score_lr=rate)

    def penalty(self) -> Any:
        return self.pruning.penalty()

    def step(self) -> None:
        self.pruning.step()

    @property
    def sparsity(self) -> float:
        return self.pruning.sparsity

    def save(self, folder: Path) -> None:
        self.pruning.save(folder)

    def deployed(self) -> nn.Module:
        return self.pruning.bake()

    @classmethod
    def load(cls, model: Any, folder: Path) -> nn.Module:
        srnet.load_mask(model, folder)
        return model


class Units(Masks):
    about = "masks, 50 % in heads and neurons, shrunk"
    pruner = srnet.MaskTraining(0.5, targets=LAYERS, granularity=("head", "neuron"))

    def deployed(self) -> nn.Module:
        return _shrunk(super().deployed())

    @classmethod
    def load(cls, model: Any, folder: Path) -> nn.Module:
        return _shrunk(super().load(model, folder))


def _shrunk(model: nn.Module) -> nn.Module:
    from srnet.masks.shrink import shrink

    shrink(model)
    return model


METHODS: dict[str, type[Full]] = {
    "full": Full, "head": Head, "lora-8": LoRA, "lora-2": SmallLoRA, "mask": Masks, "units": Units,
}  # fmt: skip
