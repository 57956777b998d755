"""The hardware of a training: precision, memory and `torch.compile`, and the processes that share one run."""

from __future__ import annotations

import atexit
import contextlib
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, cast

import numpy as np

from srnet.core.device import current_device, free_memory, on_cpu, take_gpu
from srnet.core.errors import UserError
from srnet.core.lazy import dist, nn, no_grad, torch
from srnet.core.progress import world_size
from srnet.training.settings import Precision, TrainingSettings

T = TypeVar("T")
CHECKPOINTS = {"gradient_checkpointing_kwargs": {"use_reentrant": False}}
"""How transformers makes checkpoints of layers: reentrant ones fail in DDP where some parameters are not used."""
_TIMEOUT = timedelta(hours=2)
"""The longest wait for a slow rank. The launcher notices at once if a rank dies."""


def hardware_arguments(settings: TrainingSettings, world: int = 1) -> dict[str, Any]:
    """The arguments of transformers for a run's device, precision, compilation and processes."""
    # `use_cpu`: without it transformers would move the model to a GPU that is turned off, report that a machine
    # without GPUs lacks bf16, and ignore other ranks there
    arguments: dict[str, Any] = {"use_cpu": on_cpu()}
    check_precision(settings.precision)
    if settings.precision in _DTYPES:
        arguments[settings.precision] = True
    if settings.checkpointing:
        arguments |= {"gradient_checkpointing": True, **CHECKPOINTS}
    if settings.compile:
        missing = _missing_tool()
        if missing is not None:
            raise UserError(f"compile needs {missing}, which is not installed", "install it, or train with compile off")
        # `tf32`: transformers would enable it with the compiler, and float32 would no longer be full precision
        arguments |= {"torch_compile": True, "tf32": settings.precision == "tf32"}
    if world > 1:
        # `find_unused`: a parameter that no output depends on (an unused pooler) must not end the run. This also keeps
        # the gradients' buckets, and so the order of summation, when a run is resumed.
        # `broadcast_buffers`: they are masks and thresholds, as large as the model, which each rank computes itself
        arguments |= {"ddp_backend": _backend(), "ddp_find_unused_parameters": True, "ddp_broadcast_buffers": False}
    return arguments


def _missing_tool() -> str | None:
    """The compiler that `torch.compile` lacks, if any: triton on a GPU, a C++ compiler on the CPU."""
    if not on_cpu():
        from torch.utils._triton import has_triton

        return None if has_triton() else "triton"
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except InvalidCxxCompiler:
        return "a C++ compiler"
    return None


# --- precision and memory ------------------------------------------------------------------------------------------

_DTYPES = {"bf16": "bfloat16", "fp16": "float16"}
"""The types of torch in which layers compute, by precision; the names are those of transformers' arguments too."""


def check_for_cpu(precision: Precision) -> None:
    """Refuse a precision that needs a GPU where there is none. It asks no GPU for its properties."""
    if precision in ("fp16", "tf32") and on_cpu():
        raise UserError(f"precision {precision} needs a GPU, and models run on the CPU", "give bf16 or float32")


def check_precision(precision: Precision) -> None:
    """Refuse a precision that the device does not have."""
    check_for_cpu(precision)
    # a GPU that has bf16 has tf32, and fp16 is on every GPU
    if precision in ("bf16", "tf32") and not on_cpu() and not torch.cuda.is_bf16_supported(including_emulation=False):
        raise UserError(f"{torch.cuda.get_device_name()} cannot compute in {precision}", "give precision float32")


@contextlib.contextmanager
def computing_in(precision: Precision) -> Iterator[None]:
    """Compute the layers of a model in `precision`; their weights stay as they are."""
    check_precision(precision)
    if precision in _DTYPES:
        with torch.autocast(current_device().type, getattr(torch, _DTYPES[precision])):
            yield
    else:
        with _tf32() if precision == "tf32" else contextlib.nullcontext():
            yield


@contextlib.contextmanager
def _tf32() -> Iterator[None]:
    """The setting belongs to the process, so the next training must find it as it was."""
    matmul = torch.backends.cuda.matmul
    before, matmul.fp32_precision = matmul.fp32_precision, "tf32"
    try:
        yield
    finally:
        matmul.fp32_precision = before


def check_memory(model: nn.Module) -> None:
    """Refuse a model that the device has no room for: a training has its tensors, gradients and two moments there.

    Activations come on top, so that a training that passes may still run out of memory.
    """
    free = free_memory()
    if free is None:
        return
    there = [*model.parameters(), *model.buffers()]
    trained = sum(each.numel() * each.element_size() for each in model.parameters() if each.requires_grad)
    needed = sum(each.numel() * each.element_size() for each in there if each.device.type == "cpu") + 3 * trained
    if needed > free:
        raise UserError(
            f"a training needs at least {_size(needed)} for weights, gradients and optimiser, and the GPU has "
            f"{_size(free)} free",
            "take a smaller backbone or a larger GPU, or train less: update head or lora, or mask heads and neurons",
        )


def out_of_memory(settings: TrainingSettings) -> UserError:
    """The error for a training step that the device has no room for, with what needs less."""
    rows = settings.batch_size // settings.accumulate
    more = next((each for each in range(2, rows + 1) if rows % each == 0), None)
    ways = [f"accumulate {settings.accumulate * more}"] if more else []
    ways += [] if settings.checkpointing else ["checkpointing"]
    ways += ["precision bf16"] if settings.precision in ("float32", "tf32") else []
    return UserError(
        f"the GPU's memory does not hold a training step with {rows:,} rows at a time",
        f"train with {' or '.join(ways)}" if ways else "take a smaller backbone, or a shorter max_length",
    )


def _size(count: float) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


# --- the processes of a run, started by `torchrun` or `accelerate launch` ------------------------------------------


def _backend() -> str:
    return "gloo" if on_cpu() else "nccl"


@dataclass(frozen=True)
class Ranks:
    """The position of this process in a run. All ranks must call each method except `is_main` and `share`."""

    rank: int = 0
    world: int = 1

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    def share(self, batch_size: int) -> int:
        """A rank's part of a batch, the same for all: the mean of their gradients must be that of the batch."""
        if batch_size % self.world:
            raise UserError(
                f"a batch of {batch_size} cannot be divided equally among {self.world} processes",
                f"choose a batch size that is a multiple of {self.world}, or start another number of processes",
            )
        return batch_size // self.world

    def gather(self, mine: list[T]) -> list[T]:
        """The items of all ranks, in the order of the ranks."""
        if self.world == 1:
            return mine
        parts: list[Any] = [None] * self.world
        dist.all_gather_object(parts, mine)
        return [each for part in parts for each in part]

    def on_main(self, act: Callable[[], T]) -> T:
        """The value of `act`, which only the main process calls. All ranks wait for it, and raise its error if any."""
        if self.world == 1:
            return act()
        outcome: list[Any] = [None, None]
        failure: Exception | None = None
        if self.is_main:
            try:
                outcome[0] = act()
            except Exception as error:
                failure = error
                outcome[1] = (isinstance(error, UserError), str(error) or repr(error))
        dist.broadcast_object_list(outcome, src=0)
        if failure is not None:
            raise failure
        if outcome[1] is not None:
            by_user, problem = outcome[1]
            raise UserError(problem) if by_user else RuntimeError(f"the main process failed: {problem}")
        return cast(T, outcome[0])

    def wait(self) -> None:
        """Wait until all ranks have called this."""
        self.gather([])

    @no_grad
    def align(self, tensors: Iterable[torch.Tensor]) -> None:
        """Give every rank the main process's values."""
        if self.world == 1:
            return
        for tensor in tensors:
            value = tensor.detach().clone()
            dist.broadcast(value, src=0)
            if not self.is_main:
                # not broadcast in place: only `copy_` raises the tensor's version, on which caches depend
                tensor.copy_(value)

    def seed_dropout(self, seed: int) -> None:
        """Seed dropout differently on each rank.

        The Trainer gives all ranks one seed, so that the first example of every rank would lose the same units. This is
        why a shared run equals a run of one process only for models without dropout; the main process keeps its seed.
        """
        if not self.is_main:
            torch.manual_seed(int(np.random.SeedSequence([seed, self.rank]).generate_state(1, np.uint64)[0]))


ALONE = Ranks()


def connect() -> Ranks:
    """The ranks of the processes that were launched with this one, joined once; `ALONE` without a launcher."""
    if dist.is_available() and not dist.is_initialized() and _launched():
        if not on_cpu():
            take_gpu(int(os.environ["LOCAL_RANK"]))
        try:
            dist.init_process_group(_backend(), timeout=_TIMEOUT)
        except (ValueError, RuntimeError) as error:  # no MASTER_ADDR, a RANK beyond WORLD_SIZE, no answer
            raise UserError(f"cannot join {world_size()} processes: {error}", "start them with torchrun") from error
        atexit.register(dist.destroy_process_group)
    if not dist.is_available() or not dist.is_initialized():
        return ALONE
    # accelerate still uses the old name of an option that torch has renamed
    warnings.filterwarnings("ignore", message="`broadcast_buffers` is deprecated", category=FutureWarning)
    return Ranks(dist.get_rank(), dist.get_world_size())


def _launched() -> bool:
    # WORLD_SIZE alone is not enough: batch systems set it too
    if world_size() <= 1 or not {"RANK", "LOCAL_RANK"} <= os.environ.keys():
        return False
    for name in ("RANK", "LOCAL_RANK"):
        if not os.environ[name].isdecimal():
            raise UserError(f"{name} is '{os.environ[name]}', not a whole number", "start it with torchrun")
    return True
