"""How workers share GPUs: one for each by default, and as many workers as were requested. No process is started."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from gpus import Simulated

from srnet.experiment import engine as engine_module
from srnet.experiment.engine import Engine
from srnet.experiment.pool import Pool
from srnet.experiment.ray import _Share, _share_of
from srnet.experiment.store import Store
from srnet.training.hardware import ALONE

CORES = 8


@pytest.mark.parametrize(
    ("gpus", "environment", "workers", "own", "threads"),
    [
        (1, {}, None, ["0"], "8"),
        (4, {}, None, ["0", "1", "2", "3"], "2"),
        (0, {}, None, [None] * CORES, "1"),
        (2, {"ACCELERATE_USE_CPU": "1"}, None, [None] * CORES, "1"),
        (2, {"CUDA_VISIBLE_DEVICES": "-1"}, None, ["-1"] * CORES, "1"),
        (2, {}, 3, ["0", "1", "0"], "2"),  # in turn
        (2, {}, 1, ["0"], "8"),
        (2, {"CUDA_VISIBLE_DEVICES": "2,5"}, None, ["2", "5"], "4"),
        (
            2,
            {"CUDA_VISIBLE_DEVICES": "GPU-8932f937,GPU-2f8a11"},
            3,
            ["GPU-8932f937", "GPU-2f8a11", "GPU-8932f937"],
            "2",
        ),
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


@pytest.mark.parametrize(
    ("machines", "workers", "share"),
    [
        ([{"CPU": 16.0, "GPU": 4.0}], None, (4, 4, 1.0)),
        ([{"CPU": 16.0, "GPU": 4.0}], 2, (2, 8, 1.0)),
        ([{"CPU": 16.0, "GPU": 4.0}], 6, (6, 2, 0.5)),
        ([{"CPU": 16.0, "GPU": 4.0}], 9, (9, 1, 1 / 3)),
        ([{"CPU": 8.0, "GPU": 1.0}] * 2, 3, (3, 4, 0.5)),
        ([{"CPU": 8.0, "GPU": 4.0}, {"CPU": 56.0}], None, (4, 2, 1.0)),  # only the first machine can compute
        ([{"CPU": 4.0}, {"CPU": 2.0}, {}], None, (6, 1, 0.0)),
        ([{"CPU": 2.0}, {"CPU": 4.0}], 1, (1, 4, 0.0)),
        ([{"CPU": 4.0}, {"CPU": 0.0}], 1, (1, 4, 0.0)),
        ([{"CPU": 8.0, "GPU": 2.0}, {"CPU": 0.0, "GPU": 2.0}], None, (2, 4, 1.0)),  # no worker fits on the second
        ([{"CPU": 0.0, "GPU": 2.0}, {"CPU": 8.0}], None, (2, 0, 1.0)),  # with a core, none would fit on the first
        ([{"CPU": 2.0, "GPU": 4.0}], None, (4, 1, 1.0)),
        ([{}], None, (1, 0, 0.0)),
    ],
)
def test_what_a_ray_worker_gets(
    machines: list[dict[str, float]], workers: int | None, share: tuple[int, int, float]
) -> None:
    assert _share_of(machines, workers, on_cpu=False) == _Share(*share)


def test_ray_workers_leave_gpus_that_are_turned_off() -> None:
    assert _share_of([{"CPU": 8.0, "GPU": 2.0}], None, on_cpu=True) == _Share(8, 1, 0.0)
