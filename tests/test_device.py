"""The device is asked for in one place, which obeys the CPU switch and the list of visible GPUs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from gpus import NAME, Simulated
from refusals import command_refused, refused

import srnet
from srnet.cli.program import Run
from srnet.core.device import (
    current_device,
    device_name,
    free_memory,
    on_cpu,
    requires_gpu,
    synchronize,
    take_gpu,
    use_device,
    visible_gpus,
)

PACKAGE = Path(srnet.__file__).parent


def test_nobody_else_asks() -> None:
    asks = re.compile(r"cuda\.(is_available|device_count|set_device)|CUDA_VISIBLE_DEVICES\"")
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


# --- choosing one --------------------------------------------------------------------------------------------------


@pytest.fixture
def restored() -> Iterator[None]:
    """The choice is undone after the test."""
    with use_device("auto"):
        yield


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize(
    ("device", "found", "gpus"),
    [
        ("auto", "cuda", ["0", "1", "2", "3"]),
        ("cuda", "cuda", ["0", "1", "2", "3"]),
        ("cpu", "cpu", []),
        ("cuda:0", "cuda", ["0"]),
        ("cuda:3", "cuda", ["3"]),
    ],
)
def test_a_device_by_its_name(device: str, found: str, gpus: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    Simulated(monkeypatch, 4)
    use_device(device)
    assert current_device().type == found
    assert visible_gpus() == gpus
    assert device_name() == (NAME if gpus else "cpu")
    assert requires_gpu() is device.startswith("cuda")


@pytest.mark.usefixtures("restored")
def test_numbers_are_those_of_the_visible_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    Simulated(monkeypatch, 4)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-2f8a11")
    use_device("cuda:1")
    assert visible_gpus() == ["GPU-2f8a11"]


@pytest.mark.usefixtures("restored")
def test_the_last_choice_counts_and_starts_from_the_users_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    Simulated(monkeypatch, 4)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "1")
    use_device("cuda:2")
    assert visible_gpus() == ["2"]
    use_device("cuda")
    assert visible_gpus() == ["0", "1", "2", "3"]
    use_device("auto")
    assert on_cpu()


@pytest.mark.usefixtures("restored")
def test_a_block_ends_with_the_device_from_before(monkeypatch: pytest.MonkeyPatch) -> None:
    Simulated(monkeypatch, 2)
    use_device("cuda:1")
    with use_device("cpu"):
        assert on_cpu()
        with use_device("cuda:0"):
            assert visible_gpus() == ["0"]
        assert on_cpu()
    assert visible_gpus() == ["1"]
    assert requires_gpu()


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize(
    ("device", "gpus", "words"),
    [
        ("gpu", 1, ("'gpu' is not a device", "auto, cpu, cuda or cuda:NUMBER")),
        ("cuda:", 1, ("not a device",)),
        ("cuda:-1", 1, ("not a device",)),
        ("cuda:1.5", 9, ("not a device",)),
        ("", 1, ("not a device",)),
        ("CPU", 1, ("not a device",)),
        ("cuda:7", 1, ("device cuda:7 is not there", "cuda:0, cpu")),
        ("cuda:2", 2, ("device cuda:2 is not there", "cuda:0, cuda:1, cpu")),
        ("cuda", 0, ("device cuda is not there", "choose one of: cpu")),
        ("cuda:99999", 1, ("not a device",)),
        ("mps", 1, ("device mps is not supported", "random state", "choose cpu")),
    ],
)
def test_a_device_that_is_not_there(
    device: str, gpus: int, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    Simulated(monkeypatch, gpus)
    before = dict(os.environ)
    with refused(*words):
        Run(device=device).start()
    assert dict(os.environ) == before
    assert not requires_gpu()


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize(
    "words",
    [
        ("finetune",), ("prune",), ("evaluate", "KEY"), ("bias",), ("find", "inference"), ("audit", "A"),
        ("page", "A", "B"), ("demo",), ("run", "r.yaml"), ("reproduce", "fig2"), ("speed", "srnet-tiny"),
        ("claims", "--until-answered"),
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_every_command_that_runs_a_model(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Simulated(monkeypatch, 1)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SRNET_STORE", str(tmp_path / "store"))
    for device, named in {"cuda:7": "device cuda:7 is not there; choose one of: cuda:0, cpu", "gpu": "'gpu'"}.items():
        assert named in command_refused(monkeypatch, capsys, *words, "--device", device)
    assert not [*tmp_path.iterdir()], "before anything is written"


@pytest.mark.usefixtures("restored")
def test_the_reason_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    Simulated(monkeypatch, 4)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    with refused("CUDA_VISIBLE_DEVICES is '-1'"):
        use_device("cuda")
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", None)
    with refused("built without CUDA"):
        use_device("cuda")


@pytest.mark.usefixtures("restored")
def test_cuda_that_is_in_use_keeps_its_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise cuda:1 would be the first GPU, without a word."""
    Simulated(monkeypatch, 2).use()
    with refused("CUDA is in use", "cuda:1", "CUDA_VISIBLE_DEVICES"):
        use_device("cuda:1")
    assert visible_gpus() == ["0", "1"]


@pytest.mark.usefixtures("restored")
def test_a_single_gpu_is_no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    Simulated(monkeypatch, 1).use()
    use_device("cuda:0")
    assert visible_gpus() == ["0"]


@pytest.mark.usefixtures("restored")
def test_others_assign_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    Simulated(monkeypatch, 0)
    use_device("cuda", elsewhere=True)  # those of a cluster
    assert requires_gpu()
    with refused("Ray gives each worker its own"):
        use_device("cuda:1", elsewhere=True)
    Simulated(monkeypatch, 2)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with refused("torchrun gives each process its own"):
        use_device("cuda:1")


def test_a_process_of_torchrun_takes_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    Simulated(monkeypatch, 2)
    taken: list[int] = []
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    take_gpu(1)
    assert taken == [1]
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    with refused("3 processes", "2 GPUs", "--device cpu"):
        take_gpu(1)
    monkeypatch.delenv("LOCAL_WORLD_SIZE")
    with refused("3 processes", "2 GPUs"):
        take_gpu(2)
    assert taken == [1]
