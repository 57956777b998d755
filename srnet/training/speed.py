"""Faster training where the hardware supports it: bf16 and `torch.compile`."""

from __future__ import annotations

from typing import Any

import torch

from srnet.device import on_cpu
from srnet.errors import UserError
from srnet.training.settings import TrainingSettings


def speed_arguments(settings: TrainingSettings) -> dict[str, Any]:
    """The arguments of transformers for a run's precision and compilation; none for a plain run."""
    arguments: dict[str, Any] = {}
    if settings.precision == "bf16":
        _check_bf16()
        # `use_cpu`: without it transformers reports that a machine without GPUs lacks bf16
        arguments |= {"bf16": True, "use_cpu": on_cpu()}
    if settings.compile:
        _check_compiler()
        # `tf32`: transformers would enable it with the compiler, and float32 would no longer be full precision
        arguments |= {"torch_compile": True, "tf32": False}
    return arguments


def _check_bf16() -> None:
    if not on_cpu() and not torch.cuda.is_bf16_supported(including_emulation=False):
        raise UserError(f"{torch.cuda.get_device_name()} cannot compute in bf16", "train with precision float32")


def _check_compiler() -> None:
    missing = _missing_tool()
    if missing is not None:
        raise UserError(f"compile needs {missing}, which is not installed", "install it, or train with compile off")


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
