"""The device on which models run. No other module queries GPUs."""

from __future__ import annotations

import os
import sys
from importlib import metadata
from itertools import takewhile

from srnet.core.lazy import torch

CPU_SWITCH = "ACCELERATE_USE_CPU"
"""The variable that turns GPUs off; `accelerate launch --cpu` sets it."""
VISIBLE = "CUDA_VISIBLE_DEVICES"
_YES = {"1", "true", "t", "yes", "y", "on"}  # as accelerate reads it
_NO_GPU = {"", "-1"}


def cpu_requested() -> bool:
    """Whether GPUs are turned off."""
    return os.environ.get(CPU_SWITCH, "").strip().lower() in _YES


def on_cpu() -> bool:
    """Whether models run on the CPU: there is no GPU, or it is turned off."""
    return cpu_requested() or not torch.cuda.is_available()


def current_device() -> torch.device:
    """Where models run: the GPU, unless there is none or it is turned off."""
    return torch.device("cpu" if on_cpu() else "cuda")


def device_type() -> str:
    """The type of the current device. A torch built without CUDA is known by its version, without importing it."""
    if "torch" not in sys.modules and metadata.version("torch").endswith("+cpu"):
        return "cpu"
    return current_device().type


def synchronize() -> None:
    """Wait until the GPU has computed everything: a clock that does not wait measures how work is queued."""
    if not on_cpu():
        torch.cuda.synchronize()


def free_memory() -> int | None:
    """The bytes that this process can still take on the GPU, with what torch holds unused; None on the CPU."""
    device = current_device()
    if device.type != "cuda":
        return None
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0]) + unused


def visible_gpus() -> list[str]:
    """The GPUs of this process as CUDA_VISIBLE_DEVICES names them: by number, or by UUID as some batch systems do.

    Counting them creates no CUDA context, which would take memory of a GPU.
    """
    if on_cpu():
        return []
    count, listed = torch.cuda.device_count(), os.environ.get(VISIBLE)
    if listed is None:
        return [str(number) for number in range(count)]
    # CUDA ignores what follows an invalid entry
    named = list(takewhile(lambda entry: entry not in _NO_GPU, map(str.strip, listed.split(","))))
    # a process sees only the first of several MIG instances, so their number is that of the entries
    return named if listed.startswith("MIG-") else named[:count]
