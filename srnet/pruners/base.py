"""The protocol of a pruner, and the one place where pruners are registered.

A `Pruner` is a frozen description, part of an experiment's identity. A `Method` is what acts during one training run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import torch
from torch import nn

from srnet.errors import UserError, choose
from srnet.masks import LAYERS, Mask, Schedule, Targets, check_sparsity
from srnet.masks.parametrization import FixedMask, attach, current_mask, raw_weights, weight_name

Snapshot = dict[str, torch.Tensor]
"""What a run yields at one moment: weights by name, masks by name with the prefix `mask:`."""

MASK_PREFIX = "mask:"

Batches = Iterable[Mapping[str, torch.Tensor]]
"""What a model reads, beside `labels`."""

LATE = 0.7
"""The share of a run before which a checkpoint does not count where only late ones do."""


def snapshot_of(weights: dict[str, torch.Tensor], mask: Mask | None) -> Snapshot:
    masks = {} if mask is None else {MASK_PREFIX + name: tensor for name, tensor in mask.items()}
    return {**{name: t.detach().cpu().clone() for name, t in weights.items()}, **masks}


def split_snapshot(snapshot: Snapshot) -> tuple[dict[str, torch.Tensor], Mask | None]:
    masks = {n.removeprefix(MASK_PREFIX): t for n, t in snapshot.items() if n.startswith(MASK_PREFIX)}
    weights = {n: t for n, t in snapshot.items() if not n.startswith(MASK_PREFIX)}
    return weights, Mask(masks) if masks else None


def plain_state(model: nn.Module) -> dict[str, torch.Tensor]:
    """The model's unmasked tensors under their ordinary names, whether or not masks sit on them."""
    state = {}
    for name, tensor in model.state_dict().items():
        head, mark, tail = name.partition(".parametrizations.weight.")
        if not mark:
            state[name] = tensor
        elif tail == "original":
            state[weight_name(head)] = tensor
    return state


class Method:
    """Plain training of every weight, under a fixed mask if there is one. Pruners override what they do otherwise."""

    def __init__(self, mask: Mask | None = None) -> None:
        self._mask = mask
        self.model: nn.Module
        self.total_steps: int
        self.emit: Callable[[float, Snapshot], None] = lambda level, snapshot: None
        """Where methods that yield several sparsities in one run hand each of them out."""

    def prepare(self, model: nn.Module, total_steps: int) -> None:
        """Put masks on and decide what trains. Called once, before the optimiser is made."""
        self.model, self.total_steps = model, total_steps
        if self._mask is not None:
            names = [name.removesuffix(".weight") for name in self._mask]
            self.layers = {name: model.get_submodule(name) for name in names}
            weights = raw_weights(self.layers)
            attach(self.layers, {name: FixedMask(keep, weights[name]) for name, keep in self._mask.items()})

    def after_step(self, step: int) -> dict[str, float]:
        """Called after each optimiser step; what it returns is logged."""
        return {}

    def penalty(self, done: int) -> torch.Tensor | None:
        """What is added to the loss of the step that comes after `done` others, if anything."""
        return None

    def stop_at(self) -> int:
        """The step after which nothing more is needed."""
        return self.total_steps

    def may_select(self, step: int) -> bool:
        """Whether a checkpoint taken at `step` may be the result."""
        return True

    def snapshot(self) -> Snapshot:
        mask = None if self._mask is None else current_mask(self.layers)
        return snapshot_of(plain_state(self.model), mask)


class Moments(Method):
    """Plain training that hands out the model as it is at each of `steps`, and ends at the last of them."""

    def __init__(self, steps: tuple[int, ...]) -> None:
        super().__init__()
        self.steps = steps

    def prepare(self, model: nn.Module, total_steps: int) -> None:
        super().prepare(model, total_steps)
        if max(self.steps) > total_steps:
            raise UserError(f"a training of {total_steps} steps never comes to step {max(self.steps)}")

    def stop_at(self) -> int:
        return max(self.steps)

    def after_step(self, step: int) -> dict[str, float]:
        if step in self.steps:
            self.emit(step, self.snapshot())
        return {}

    def may_select(self, step: int) -> bool:
        return False


# --- descriptions --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pruner:
    """What to prune and how. Subclasses register themselves under `name`."""

    name: ClassVar[str]
    trains: ClassVar[bool] = True
    has_scores: ClassVar[bool] = False
    """Whether it learns a score for every weight, at a rate of its own."""
    sparsity: float = 0.5
    """Share of the weights to prune."""

    def __post_init__(self) -> None:
        check_sparsity(self.sparsity)

    @property
    def aim(self) -> str:
        """What it is to reach, in a few characters."""
        return f"{100 * self.sparsity:g} %"

    def method(self, *, fine_tuned: bool, eval_every: int) -> Method:
        """What acts during training; `fine_tuned` says whether the model had seen the task before."""
        raise TypeError(f"{self.name} does not train")

    @property
    def rows(self) -> int:
        """How many rows of the ID training data `mask` looks at."""
        return 0

    def mask(self, model: nn.Module, batches: Batches = ()) -> Mask:
        """The mask of a pruner that does not train; `batches` hold `rows` examples, with their labels."""
        raise TypeError(f"{self.name} finds its mask by training")

    def check_steps(self, total_steps: int) -> None:
        """Object to a run that is too short."""

    def shared_run(self) -> Pruner:
        """The description of the training run, the same for every sparsity that the run yields."""
        return self


@dataclass(frozen=True)
class Ramped(Pruner):
    """A pruner that begins with all weights, and while they train comes down to its sparsity on the cubic curve."""

    sparsity: float = 0.9
    begin: float = 0.1
    """Share of the run before pruning begins."""
    ramp: float = 0.8
    """Share of the run after which the final sparsity is held; only checkpoints after it count."""
    targets: Targets = LAYERS
    """Which matrices are masked."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.schedule()

    def schedule(self) -> Schedule:
        return Schedule(0.0, self.sparsity, self.ramp, self.begin)


PRUNERS: dict[str, type[Pruner]] = {}
P = TypeVar("P", bound=type[Pruner])


def register(pruner: P) -> P:
    PRUNERS[pruner.name] = pruner
    return pruner


def get_pruner(name: str) -> type[Pruner]:
    return PRUNERS[choose("pruner", name, PRUNERS)]
