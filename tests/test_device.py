"""The device is asked for in one place, which obeys the CPU switch and the list of visible GPUs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from gpus import Simulated

import srnet
from srnet.core.device import current_device, free_memory, on_cpu, synchronize, visible_gpus

PACKAGE = Path(srnet.__file__).parent


def test_nobody_else_asks() -> None:
    asks = re.compile(r"cuda\.(is_available|device_count)")
    asking = [path.name for path in PACKAGE.rglob("*.py") if asks.search(path.read_text(encoding="utf-8"))]
    assert asking == ["device.py"]


def test_a_gpu_is_used_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    Simulated(monkeypatch, 1)
    assert current_device() == torch.device("cuda")
    Simulated(monkeypatch, 0)
    assert current_device() == torch.device("cpu")


@pytest.mark.parametrize(("value", "off"), [("1", True), ("True", True), ("on", True), ("false", False), ("", False)])
def test_the_switch_turns_it_off(value: str, off: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Simulated(monkeypatch, 2)
    monkeypatch.setenv("ACCELERATE_USE_CPU", value)
    assert on_cpu() is off
    assert len(visible_gpus()) == (0 if off else 2)
    synchronize()
    assert gpu.waits == (0 if off else 1)


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        (None, ["0", "1", "2", "3"]),
        ("2,3", ["2", "3"]),
        ("3, 1", ["3", "1"]),
        ("GPU-8932f937,GPU-2f8a11", ["GPU-8932f937", "GPU-2f8a11"]),
        ("", []),
        ("-1", []),
        ("1,-1,2", ["1"]),
        ("0,1,2,3,4,5", ["0", "1", "2", "3"]),
    ],
)
def test_the_gpus_of_a_batch_job(listed: str | None, found: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    Simulated(monkeypatch, 4)
    if listed is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
    assert visible_gpus() == found


def test_every_mig_instance_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA shows a process only the first."""
    Simulated(monkeypatch, 1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1a,MIG-2b")
    assert visible_gpus() == ["MIG-1a", "MIG-2b"]


def test_free_memory_counts_what_torch_holds_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert free_memory() is None
    Simulated(monkeypatch, 1)
    for name, size in {"mem_get_info": (1000, 8000), "memory_reserved": 300, "memory_allocated": 100}.items():
        monkeypatch.setattr(torch.cuda, name, lambda device, size=size: size)
    assert free_memory() == 1000 + 300 - 100
