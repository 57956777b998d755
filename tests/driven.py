"""Methods and trainings driven by hand: a pruner's method without a trainer, and runs that are interrupted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from srnet.masks.mask import Mask
from srnet.masks.parametrization import attached, current_mask
from srnet.training.method import Method, Snapshot, split_snapshot
from srnet.training.trainer import Result, train

TOTAL = 100


def prepared(
    model: nn.Module, pruner: Any, *, fine_tuned: bool = False, eval_every: int = 10, total: int = TOTAL
) -> Any:
    """The method of a pruner, with its masks on the model."""
    method = pruner.method(fine_tuned=fine_tuned, eval_every=eval_every)
    method.prepare(model, total)
    return method


def drive(method: Method, model: nn.Module, loss: Callable[[int], torch.Tensor], rate: float = 1e-2) -> Mask:
    """The mask of the method after all its steps, the last one that it emitted if it emits any."""
    emitted: list[Snapshot] = []
    method.emit = lambda level, snapshot: emitted.append(snapshot)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=rate, weight_decay=0.0)
    for step in range(1, method.stop_at() + 1):
        optimizer.zero_grad()
        penalty = method.penalty(step - 1)
        (loss(step) if penalty is None else loss(step) + penalty).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        method.after_step(step)
    return mask_in((emitted or [method.snapshot()])[-1])


def masks(method: Method) -> dict[str, Any]:
    """The modules on the weights, by weight name."""
    return attached(method.layers)


def kept(method: Method) -> dict[str, int]:
    return {name: int(keep.sum()) for name, keep in current_mask(method.layers).items()}


def pruned(mask: Mask | Method) -> dict[str, int]:
    found = mask if isinstance(mask, Mask) else current_mask(mask.layers)
    return {name: int((~keep).sum()) for name, keep in found.items()}


@torch.no_grad()
def scatter(method: Method, seed: int = 0, scale: float = 1.0) -> None:
    """Give every score a random value, without ties."""
    generator = torch.Generator().manual_seed(seed)
    for mask in masks(method).values():
        if hasattr(mask, "scores"):
            mask.scores.copy_(scale * torch.randn(mask.scores.shape, generator=generator))


def trainable(model: nn.Module) -> set[str]:
    return {name for name, parameter in model.named_parameters() if parameter.requires_grad}


def mask_in(snapshot: Snapshot) -> Mask:
    mask = split_snapshot(snapshot)[1]
    assert mask is not None
    return mask


def same(one: Snapshot, other: Snapshot) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


class Interrupted(Exception):
    pass


class Attempts:
    """Runs in one folder. Each may be interrupted at a step; emitted snapshots are kept, as the engine keeps them.

    `scores` are the dev scores at steps 5, 10, ...; by default they rise, so that the result is the end of the run.
    """

    def __init__(
        self, make_run: Any, folder: Path, method: Callable[[], Method] = Method, scores: Any = None, **changes: Any
    ) -> None:
        self.make_run, self.folder, self.method, self.changes = make_run, folder, method, changes
        self.scores, self.steps = scores, list[int]()
        self.levels: dict[float, Snapshot] = {}

    def score(self, logits: Any) -> float:
        return float(self.steps[-1] if self.scores is None else self.scores[-(-self.steps[-1] // 5) - 1])

    def __call__(self, stop: int = 0, **changes: Any) -> Result:
        method = self.method()
        method.emit = self.levels.__setitem__

        def watch(step: int, total: int, figures: dict[str, float]) -> None:
            self.steps.append(step)
            if step == stop:
                raise Interrupted

        options = {"watch": watch, "score": self.score, **self.changes, **changes}
        return train(self.make_run(method, self.folder, **options))
