"""Resumable checkpoints in safe formats, written atomically."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from srnet.core.device import on_cpu
from srnet.core.errors import UserError
from srnet.core.files import new_folder, read_json, recover_folder, require_readable_in, write_bytes, write_json
from srnet.training.hardware import ALONE, Ranks
from srnet.training.pruning import Pruning

TRAINER_STATE = "trainer_state.json"
_TENSORS, _STATE = "tensors.safetensors", "state.json"


def _optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    state = optimizer.state_dict()["state"]
    return {f"{index}.{name}": value for index, slots in state.items() for name, value in slots.items()}


def random_state() -> dict[str, torch.Tensor]:
    """The state of this process's random number generators."""
    state = {"torch": torch.random.get_rng_state()}
    if not on_cpu():
        state["cuda"] = torch.cuda.random.get_rng_state()
    return state


def restore_random_state(state: Mapping[str, torch.Tensor]) -> None:
    """Restore what `random_state` returned; what it lacks stays as it is."""
    if "torch" in state:
        torch.random.set_rng_state(state["torch"])
    if not on_cpu() and "cuda" in state:
        torch.cuda.random.set_rng_state(state["cuda"])


def _random_names(rank: int) -> str:
    """The prefix of a rank's random state; rank 0 has no number, as in a run of one process."""
    return f"rng{rank or ''}/"


def _is_plain(value: Any) -> bool:
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True


class Checkpoint:
    """The content of a checkpoint, to be restored part by part."""

    def __init__(self, folder: Path) -> None:
        self._tensors = load_file(folder / _TENSORS)
        self._state = read_json(folder / _STATE)

    @staticmethod
    def write(
        folder: Path,
        pruning: Pruning,
        optimizer: torch.optim.Optimizer,
        scheduler: Any,
        trainer_state: str,
        best: dict[str, torch.Tensor],
        notes: dict[str, Any],
        loss: Mapping[str, torch.Tensor] | None = None,
        ranks: Ranks = ALONE,
    ) -> None:
        """Write a checkpoint, with the random states of all ranks.

        `best` is the result so far, `notes` are small values for JSON, `loss` is the state of the loss, if it has one.
        """
        tensors = {f"model/{name}": t for name, t in pruning.state_dict().items()}
        tensors |= {f"optimizer/{name}": t for name, t in _optimizer_tensors(optimizer).items()}
        tensors |= {f"best/{name}": t for name, t in best.items()}
        tensors |= {f"loss/{name}": t for name, t in (loss or {}).items()}
        for rank, random in enumerate(ranks.gather([random_state()])):
            tensors |= {_random_names(rank) + name: t for name, t in random.items()}
        state = {"notes": notes, "scheduler": {k: v for k, v in scheduler.state_dict().items() if _is_plain(v)}}

        def write() -> None:
            with new_folder(folder, replace=True) as staging:
                write_bytes(staging / _TENSORS, save({k: t.detach().cpu().contiguous() for k, t in tensors.items()}))
                write_json(staging / _STATE, state)
                write_bytes(staging / TRAINER_STATE, trainer_state.encode())

        ranks.on_main(write)

    @staticmethod
    def exists(folder: Path) -> bool:
        """Whether there is a complete checkpoint to resume from; an incomplete one is removed."""
        recover_folder(folder)
        try:
            require_readable_in(folder)
            if "model/identity" not in load_file(folder / _TENSORS):
                raise UserError(f"{folder} was written by another version of srnet")
            read_json(folder / _STATE)
            read_json(folder / TRAINER_STATE)
        except (OSError, SafetensorError, UserError):
            shutil.rmtree(folder, ignore_errors=True)
            return False
        return True

    def _under(self, prefix: str) -> dict[str, torch.Tensor]:
        return {n.removeprefix(prefix): t for n, t in self._tensors.items() if n.startswith(prefix)}

    @property
    def best(self) -> dict[str, torch.Tensor]:
        return self._under("best/")

    @property
    def loss(self) -> dict[str, torch.Tensor]:
        return self._under("loss/")

    @property
    def notes(self) -> dict[str, Any]:
        return dict(self._state["notes"])

    def restore_model(self, pruning: Pruning) -> None:
        pruning.load_state_dict(self._under("model/"))

    def restore_optimizer(self, optimizer: torch.optim.Optimizer, scheduler: Any) -> None:
        state = optimizer.state_dict()
        slots: dict[int, dict[str, torch.Tensor]] = {}
        for name, tensor in self._under("optimizer/").items():
            index, slot = name.split(".", 1)
            slots.setdefault(int(index), {})[slot] = tensor
        optimizer.load_state_dict({**state, "state": slots})
        scheduler.load_state_dict({**scheduler.state_dict(), **self._state["scheduler"]})
        for group, rate in zip(optimizer.param_groups, self._state["scheduler"]["_last_lr"], strict=True):
            group["lr"] = rate

    def restore_rng(self, rank: int = 0) -> None:
        """Restore the random state; a rank that the checkpoint does not have keeps its own."""
        restore_random_state(self._under(_random_names(rank)))
