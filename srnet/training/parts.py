"""A batch in parts: the gradients of a large batch in the memory of a small one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from srnet.masks.modules import GateMask
from srnet.training.checkpoint import random_state, restore_random_state

Batch = dict[str, torch.Tensor]


def split_batch(batch: Mapping[str, torch.Tensor], parts: int) -> list[Batch]:
    """Parts of as many rows each, as long as the longest row of the batch.

    Of pairs of sentences a row is a sequence. What does not have one entry a row is about the whole batch.
    """
    rows = len(batch["attention_mask"])
    cut = {name: each.tensor_split(parts) for name, each in batch.items() if len(each) == rows}
    return [
        {name: cut[name][number] if name in cut else each for name, each in batch.items()} for number in range(parts)
    ]


def random_masks(model: nn.Module) -> list[nn.Module]:
    """The masks that are drawn anew in each forward pass of a training."""
    return [each for each in model.modules() if isinstance(each, GateMask)]


class SharedNoise:
    """The same noise of the masks in all parts of a batch, as all rows of a whole one have it.

    The first part draws it. The others start from the random state that the first part had at the same mask.
    """

    def __init__(self, masks: Iterable[nn.Module]) -> None:
        for mask in masks:
            mask.register_forward_pre_hook(self._before)
            mask.register_forward_hook(self._after)
        self._states: dict[nn.Module, list[Batch]] = {}
        self._uses = Counter[nn.Module]()
        self._own: Batch | None = None

    def begin_batch(self) -> None:
        self._states.clear()
        self.begin_part()

    def begin_part(self) -> None:
        self._uses.clear()

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _before(self, mask: nn.Module, args: Any) -> None:
        if not mask.training:
            return
        states, now = self._states.setdefault(mask, []), random_state()
        place = self._next_use(mask)
        if place == len(states):
            states.append(now)
        else:
            self._own = now
            restore_random_state(states[place])

    def _next_use(self, mask: nn.Module) -> int:
        """The number of this use of the mask in the forward pass; a layer that is shared has several.

        Checkpointing repeats them in the backward pass, the last one first.
        """
        repeats = torch._C._current_graph_task_id() != -1
        self._uses[mask] += -1 if repeats else 1
        return self._uses[mask] - (0 if repeats else 1)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _after(self, mask: nn.Module, args: Any, output: Any) -> None:
        if self._own is not None:
            restore_random_state(self._own)
            self._own = None
