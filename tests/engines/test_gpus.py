"""A worker has a GPU of its own, and there are no more workers than GPUs. No process is started."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from gpus import Simulated
from refusals import refused

from srnet.core.device import use_device
from srnet.experiment import engine as engine_module
from srnet.experiment.engine import Engine
from srnet.experiment.pool import Pool
from srnet.experiment.ray import _Share, _share_of
from srnet.experiment.store import Store
from srnet.training import hardware
from srnet.training.hardware import ALONE, connect

CORES = 8


@pytest.mark.parametrize(
    ("gpus", "environment", "workers", "own", "threads"),
    [
        (1, {}, None, ["0"], "8"),
        (4, {}, None, ["0", "1", "2", "3"], "2"),
        (0, {}, None, [None] * CORES, "1"),
        (2, {"ACCELERATE_USE_CPU": "1"}, None, [None] * CORES, "1"),
        (2, {"CUDA_VISIBLE_DEVICES": "-1"}, None, ["-1"] * CORES, "1"),
        (2, {}, 1, ["0"], "8"),
        (2, {"CUDA_VISIBLE_DEVICES": "2,5"}, None, ["2", "5"], "4"),
        (2, {"CUDA_VISIBLE_DEVICES": "GPU-8932f937,GPU-2f8a11"}, None, ["GPU-8932f937", "GPU-2f8a11"], "4"),
    ],
)
def test_the_gpu_and_the_threads_of_each_worker(
    gpus: int,
    environment: dict[str, str],
    workers: int | None,
    own: list[str | None],
    threads: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_module, "_cores", lambda: CORES)
    Simulated(monkeypatch, gpus)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    pool = Engine(Store(tmp_path), name="pool", workers=workers).executor(ALONE)
    assert isinstance(pool, Pool)
    started: list[tuple[str | None, str | None]] = []

    class Process:
        def __init__(self, **_: object) -> None: ...

        def start(self) -> None:
            started.append((os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("OMP_NUM_THREADS")))

    monkeypatch.setattr("multiprocessing.context.SpawnContext.Process", Process)
    before = dict(os.environ)
    for worker in pool._workers:
        worker._start()
        worker.connection.close()
    assert dict(os.environ) == before
    assert started == [(gpu, threads) for gpu in own]


def test_more_workers_than_gpus_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Simulated(monkeypatch, 2)
    engine = Engine(Store(tmp_path), name="pool", workers=3)
    with refused("3 workers, and 2 GPUs", "--workers 2", "--device cpu"):
        engine.executor(ALONE)
    with use_device("cuda:1"), refused("3 workers, and 1 GPU:", "--workers 1"):
        engine.executor(ALONE)
    with use_device("cpu"):
        assert engine.executor(ALONE).size == 3
    for machines in ([{"CPU": 16.0, "GPU": 2.0}], [{"CPU": 8.0, "GPU": 1.0}] * 2):
        with refused("3 workers, and 2 GPUs"):
            _share_of(machines, 3, on_cpu=False)


def test_a_cluster_without_gpus_is_refused_where_one_was_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    Simulated(monkeypatch, 0)
    with use_device("cuda", elsewhere=True), refused("no machine of the cluster has a GPU"):
        _share_of([{"CPU": 8.0}], None, on_cpu=False)


@pytest.mark.parametrize(("gpus", "switch", "backend"), [(2, "0", "nccl"), (2, "1", "gloo"), (0, "0", "gloo")])
def test_the_backend_of_torchrun(gpus: int, switch: str, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Simulated(monkeypatch, gpus)
    monkeypatch.setenv("ACCELERATE_USE_CPU", switch)
    joined: list[Any] = []
    launched = {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    for name, value in launched.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "set_device", joined.append)
    group = SimpleNamespace(is_available=lambda: True, is_initialized=lambda: False, destroy_process_group=lambda: None)
    group.init_process_group = lambda name, **_: joined.append(name)
    monkeypatch.setattr(hardware, "dist", group)
    monkeypatch.setattr(hardware.atexit, "register", lambda _: None)
    connect()
    assert joined == ([1, backend] if backend == "nccl" else [backend]), "the GPU is taken before the others are joined"


@pytest.mark.parametrize(
    ("machines", "workers", "share"),
    [
        ([{"CPU": 16.0, "GPU": 4.0}], None, (4, 4, 1)),
        ([{"CPU": 16.0, "GPU": 4.0}], 2, (2, 8, 1)),
        ([{"CPU": 8.0, "GPU": 1.0}] * 2, 2, (2, 8, 1)),
        ([{"CPU": 8.0, "GPU": 4.0}, {"CPU": 56.0}], None, (4, 2, 1)),  # only the first machine can compute
        ([{"CPU": 4.0}, {"CPU": 2.0}, {}], None, (6, 1, 0)),
        ([{"CPU": 2.0}, {"CPU": 4.0}], 1, (1, 4, 0)),
        ([{"CPU": 4.0}, {"CPU": 0.0}], 1, (1, 4, 0)),
        ([{"CPU": 8.0, "GPU": 2.0}, {"CPU": 0.0, "GPU": 2.0}], None, (2, 4, 1)),  # no worker fits on the second
        ([{"CPU": 0.0, "GPU": 2.0}, {"CPU": 8.0}], None, (2, 0, 1)),  # with a core, none would fit on the first
        ([{"CPU": 2.0, "GPU": 4.0}], None, (4, 1, 1)),
        ([{}], None, (1, 0, 0)),
    ],
)
def test_what_a_ray_worker_gets(
    machines: list[dict[str, float]], workers: int | None, share: tuple[int, int, int]
) -> None:
    assert _share_of(machines, workers, on_cpu=False) == _Share(*share)


def test_ray_workers_leave_gpus_that_are_turned_off() -> None:
    assert _share_of([{"CPU": 8.0, "GPU": 2.0}], None, on_cpu=True) == _Share(8, 1, 0)
