"""The device on which models run. No other module queries GPUs.

It is chosen by two variables that torch and accelerate read as well: `CUDA_VISIBLE_DEVICES` names the GPUs that a
process may use, and `ACCELERATE_USE_CPU` turns them off. `use_device` sets them, and child processes inherit them.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from importlib import metadata
from itertools import takewhile
from typing import Any

from srnet.core.errors import UserError
from srnet.core.lazy import torch
from srnet.core.progress import world_size

CPU_SWITCH = "ACCELERATE_USE_CPU"
"""The variable that turns GPUs off; `accelerate launch --cpu` sets it."""
VISIBLE = "CUDA_VISIBLE_DEVICES"
DEVICES = "auto, cpu, cuda or cuda:NUMBER"
_YES = {"1", "true", "t", "yes", "y", "on"}  # as accelerate reads it
_NO_GPU = {"", "-1"}
_NAME = re.compile("auto|cpu|mps|cuda(:[0-9]{1,4})?")
_NO_MPS = (
    "device mps is not supported: a resumed training needs the random state of its device, which is kept for the CPU "
    "and for CUDA, and no run on mps has been tested"
)
_requested = "auto"
_own: dict[str, str | None] = {}
"""The two variables as the user has set them."""


# --- choosing ------------------------------------------------------------------------------------------------------


def use_device(device: str = "auto", *, elsewhere: bool = False) -> AbstractContextManager[Any]:
    """Let models run on `device` from now on; in a `with` statement, until the end of the block.

    `auto` is the GPU unless there is none or `ACCELERATE_USE_CPU` turns it off, `cpu` the CPU, `cuda` a GPU, and
    `cuda:1` the second of those that `CUDA_VISIBLE_DEVICES` lists, or of all. Processes that are started from now on
    inherit it. With `elsewhere` models run on other machines, and a GPU need not be here.
    """
    global _requested
    check_device(device)
    before, variables = _requested, {name: os.environ.get(name) for name in (CPU_SWITCH, VISIBLE)}

    def undo() -> None:
        global _requested
        _requested = before
        _set(variables)

    block = ExitStack()
    block.callback(undo)
    if before == "auto":
        _own.update(variables)
    try:
        _set(_own)
        _set(_variables(device, elsewhere=elsewhere))
    except UserError:
        undo()
        raise
    _requested = device
    return block


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


def check_device(device: str) -> None:
    """An error unless it is the name of a device that srnet can use."""
    if _NAME.fullmatch(device) is None:
        raise UserError(f"'{device}' is not a device", f"choose {DEVICES}")
    if device == "mps":
        raise UserError(_NO_MPS, "choose cpu")


def _variables(device: str, *, elsewhere: bool) -> dict[str, str | None]:
    """The variables that choose a device, and their values. The request is more specific than the environment."""
    if device in ("auto", "cpu"):
        return {} if device == "auto" else {CPU_SWITCH: "1"}
    number = None if ":" not in device else int(device.partition(":")[2])
    if number is not None and world_size() > 1:
        raise UserError(f"device {device} is one GPU, and torchrun gives each process its own", "choose cuda")
    if number is not None and elsewhere:
        raise UserError(f"device {device} is one GPU, and Ray gives each worker its own", "choose cuda")
    gpus = [] if elsewhere else _gpus_with(device, number or 0)
    if number is None or len(gpus) == 1:
        return {CPU_SWITCH: None}
    _set({VISIBLE: gpus[number]})
    if _counted_by_cuda() != 1:  # it reads the variable once, when it is first asked
        raise UserError(f"CUDA is in use, so this process cannot change to {device}", f"set {VISIBLE} before its start")
    return {CPU_SWITCH: None, VISIBLE: gpus[number]}


def _gpus_with(device: str, number: int) -> list[str]:
    """All GPUs, if the one with this number is among them."""
    gpus = _listed_gpus()
    if number >= len(gpus):
        there = ", ".join([*(f"cuda:{place}" for place in range(len(gpus))), "cpu"])
        raise UserError(f"device {device} is not there{'' if gpus else _why_no_gpu()}", f"choose one of: {there}")
    return gpus


def named_device(device: str) -> torch.device:
    """The device of this name, for a model that stays on it; `auto` is that of `use_device`."""
    check_device(device)
    if device == "auto":
        return current_device()
    found = torch.device(device)
    if found.type == "cuda":
        _gpus_with(device, found.index or 0)
    return found


def _why_no_gpu() -> str:
    if not _built_with_cuda():
        return f" (torch {metadata.version('torch')} was built without CUDA)"
    return f" ({VISIBLE} is '{os.environ[VISIBLE]}')" if VISIBLE in os.environ else ""


def requires_gpu() -> bool:
    """Whether a GPU was requested by name, so that the CPU must not take its place."""
    return _requested.startswith("cuda")


# --- asking --------------------------------------------------------------------------------------------------------


def cpu_requested() -> bool:
    """Whether GPUs are turned off."""
    return os.environ.get(CPU_SWITCH, "").strip().lower() in _YES


def on_cpu() -> bool:
    """Whether models run on the CPU: there is no GPU, or it is turned off."""
    return cpu_requested() or not torch.cuda.is_available()


def current_device() -> torch.device:
    """Where models run: the GPU, unless there is none or it is turned off."""
    return torch.device("cpu" if on_cpu() else "cuda")


def device_name() -> str:
    """`cpu`, or the model of the GPU: times on one are not those on another.

    A torch built without CUDA is known by its version, without importing it.
    """
    if "torch" not in sys.modules and metadata.version("torch").endswith("+cpu"):
        return "cpu"
    return "cpu" if on_cpu() else str(torch.cuda.get_device_name())


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


def gpu_peak() -> int:
    """Bytes of the GPU that tensors of this process have taken at the same time."""
    return int(torch.cuda.max_memory_allocated())


def visible_gpus() -> list[str]:
    """The GPUs of this process as CUDA_VISIBLE_DEVICES names them: by number, or by UUID as some batch systems do.

    Counting them creates no CUDA context, which would take memory of a GPU.
    """
    return [] if on_cpu() else _listed_gpus()


def _listed_gpus() -> list[str]:
    """Whether or not they are turned off. Unlike `is_available`, this does not make CUDA read the variable."""
    count, listed = torch.cuda.device_count(), os.environ.get(VISIBLE)
    if listed is None:
        return [str(number) for number in range(count)]
    # CUDA ignores what follows an invalid entry
    named = list(takewhile(lambda entry: entry not in _NO_GPU, map(str.strip, listed.split(","))))
    # a process sees only the first of several MIG instances, so their number is that of the entries
    return named if listed.startswith("MIG-") else named[:count]


def _built_with_cuda() -> bool:
    return torch.version.cuda is not None or torch.version.hip is not None


def _counted_by_cuda() -> int:
    """The GPUs that CUDA itself has found; torch reads the variable again each time."""
    return int(torch._C._cuda_getDeviceCount())


def take_gpu(rank: int) -> None:
    """Use the GPU of one of the processes that were started together on this machine."""
    there, here = len(visible_gpus()), os.environ.get("LOCAL_WORLD_SIZE", "")
    processes = int(here) if here.isdecimal() else rank + 1
    if processes > there:
        raise UserError(
            f"{processes} processes were started on this machine, which has {there} GPUs",
            f"start at most {there}, or use the CPU: --device cpu",
        )
    torch.cuda.set_device(rank)


def check_workers(workers: int, gpus: int) -> None:
    """One worker a GPU: two trainings on one GPU are slower than one after the other, and may not fit."""
    if workers > gpus:
        raise UserError(
            f"{workers} workers, and {gpus} GPU{'s' * (gpus != 1)}: each needs its own",
            f"choose at most --workers {gpus}, or use the CPU: --device cpu",
        )
