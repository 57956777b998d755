"""Training methods: the actions of one run before, between and after its steps. Those of pruners subclass `Method`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from srnet.core.errors import UserError
from srnet.core.lazy import nn, torch
from srnet.masks.mask import Mask, share_pruned
from srnet.masks.parametrization import attach, attached, current_mask, raw_weights, weight_name
from srnet.masks.selection import count_each

Snapshot = dict[str, "torch.Tensor"]
"""The state of a run at one step: weights by name, masks by name with the prefix `mask:`."""

MASK_PREFIX = "mask:"

LATE = 0.7
"""The share of a run before which no checkpoint is selected, where only late ones are eligible."""


def split_snapshot(snapshot: Snapshot) -> tuple[dict[str, torch.Tensor], Mask | None]:
    masks = {n.removeprefix(MASK_PREFIX): t for n, t in snapshot.items() if n.startswith(MASK_PREFIX)}
    weights = {n: t for n, t in snapshot.items() if not n.startswith(MASK_PREFIX)}
    return weights, Mask(masks) if masks else None


class Method:
    """Plain training of every weight, under a fixed mask if there is one. Pruners override what differs."""

    def __init__(self, mask: Mask | None = None) -> None:
        self._mask = mask
        self.keeps_weights = False
        """Whether the result has the weights that the run started from, whatever was trained."""
        self.model: nn.Module
        self.total_steps: int
        self.layers: dict[str, nn.Module] = {}
        """The masked layers, by module name."""
        self.rounded: frozenset[str] = frozenset()
        """Names of frozen weights that were rounded to bf16 for the training."""
        self.emit: Callable[[float, Snapshot], None] = lambda level, snapshot: None
        """Receives each snapshot of a method that yields several models in one run."""

    def prepare(self, model: nn.Module, total_steps: int) -> None:
        """Attach masks and decide what trains. Called once, before the optimiser is made."""
        self.model, self.total_steps = model, total_steps
        if self._mask is not None:
            names = [name.removesuffix(".weight") for name in self._mask]
            self.attach_fixed({name: model.get_submodule(name) for name in names}, self._mask)

    def attach_fixed(self, layers: dict[str, nn.Module], mask: Mapping[str, torch.Tensor] | None = None) -> None:
        """Attach a mask that does not train to each of `layers`; by default one that keeps every weight."""
        from srnet.masks.modules import FixedMask  # not at the top: it imports torch

        self.layers, weights = layers, raw_weights(layers)
        mask = Mask.ones_like(weights) if mask is None else mask
        attach(layers, {name: FixedMask(keep, weights[name]) for name, keep in mask.items()})

    def set_fixed(self, mask: Mapping[str, torch.Tensor]) -> None:
        """Replace the values of the masks that do not train."""
        for name, module in attached(self.layers).items():
            cast(Any, module).keep.copy_(mask[name])

    def fixed(self) -> dict[str, torch.Tensor]:
        """What the masks that do not train keep, on their device."""
        return {name: cast(Any, module).binary() for name, module in attached(self.layers).items()}

    def fixed_sparsity(self) -> float:
        """The share of weights that masks that do not train prune, counted where they are."""
        modules = [cast(Any, module) for module in attached(self.layers).values()]
        total = sum(module.keep.numel() for module in modules)
        return share_pruned(int(count_each(module.binary() for module in modules).sum()), total)

    def current_mask(self) -> Mask:
        """The mask that the model has now."""
        return current_mask(self.layers)

    def progress(self, step: int) -> float:
        """The completed share of the run."""
        return step / self.total_steps

    def after_step(self, step: int) -> dict[str, float]:
        """Called after each optimiser step; the returned values are logged."""
        return {}

    def settle(self, step: int) -> None:
        """Meet the budget of `step` to the weight, where `after_step` estimates it or leaves it for some steps."""

    def penalty(self, done: int) -> torch.Tensor | None:
        """A term of the loss in the step after `done` steps, if there is one."""
        return None

    def stop_at(self) -> int:
        """The last step that is needed."""
        return self.total_steps

    def may_select(self, step: int) -> bool:
        """Whether a checkpoint taken at `step` may be the result."""
        return True

    def state(self) -> dict[str, torch.Tensor]:
        """The model's unmasked tensors under their ordinary names, with or without masks on them."""
        state: dict[str, torch.Tensor] = {}
        for name, tensor in self.model.state_dict().items():
            head, mark, tail = name.partition(".parametrizations.weight.")
            if not mark:
                state.setdefault(name, tensor)  # a masked weight that is saved beside the unmasked one comes second
            elif tail == "original":
                state[weight_name(head)] = tensor
        return state

    def result(self) -> tuple[dict[str, torch.Tensor], Mask | None]:
        """The model that was found: its tensors, unmasked, and the mask."""
        return self.state(), self.current_mask() if self.layers else None

    def snapshot(self) -> Snapshot:
        return self.snapshot_of(*self.result())

    @staticmethod
    def snapshot_of(weights: Mapping[str, torch.Tensor], mask: Mask | None) -> Snapshot:
        masks = {} if mask is None else {MASK_PREFIX + name: tensor for name, tensor in mask.items()}
        return {**{name: t.detach().cpu().clone() for name, t in weights.items()}, **masks}


class SnapshotsAtSteps(Method):
    """Plain training that emits the model at each of `steps`, and ends at the last of them."""

    def __init__(self, steps: tuple[int, ...]) -> None:
        super().__init__()
        self.steps = steps

    def prepare(self, model: nn.Module, total_steps: int) -> None:
        super().prepare(model, total_steps)
        if max(self.steps) > total_steps:
            raise UserError(f"a training of {total_steps} steps does not reach step {max(self.steps)}")

    def stop_at(self) -> int:
        return max(self.steps)

    def after_step(self, step: int) -> dict[str, float]:
        if step in self.steps:
            self.emit(step, self.snapshot())
        return {}

    def may_select(self, step: int) -> bool:
        return False
