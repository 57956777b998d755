"""How workers share GPUs: one for each by default, and as many workers as were requested. No process is started."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from gpus import Simulated
from srnet.experiment.engines import ray as ray_engine

from srnet.experiment import engine as executors
from srnet.experiment.pool import Pool
from srnet.experiment.store import Store
from srnet.training.hardware import ALONE

CORES = 8


@pytest.fixture(autouse=True)
def _cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "cores", lambda: CORES)


def pool(
    workers: int | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[str | None], set[str | None]]:
    """The GPU of each worker's process, and their numbers of threads."""
    made = executors.make_executor("pool", workers, Store(folder), (), ALONE)
    assert isinstance(made, Pool)
    started: list[tuple[str | None, str | None]] = []

    class Process:
        def __init__(self, **_: object) -> None: ...

        def start(self) -> None:
            started.append((os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("OMP_NUM_THREADS")))

    monkeypatch.setattr("multiprocessing.context.SpawnContext.Process", Process)
    before = dict(os.environ)
    for worker in made._workers:
        worker._start()
        worker.connection.close()
    assert dict(os.environ) == before
    return [gpu for gpu, _ in started], {threads for _, threads in started}


def test_one_worker_per_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Simulated(monkeypatch, 1)
    assert pool(None, tmp_path, monkeypatch) == (["0"], {"8"})
    Simulated(monkeypatch, 4)
    assert pool(None, tmp_path, monkeypatch) == (["0", "1", "2", "3"], {"2"})


def test_without_gpus_one_worker_per_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Simulated(monkeypatch, 0)
    assert pool(None, tmp_path, monkeypatch) == ([None] * CORES, {"1"})
    Simulated(monkeypatch, 2)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "1")
    assert pool(None, tmp_path, monkeypatch) == ([None] * CORES, {"1"})
    Simulated(monkeypatch, 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert pool(None, tmp_path, monkeypatch) == (["-1"] * CORES, {"1"})


def test_requested_workers_take_the_gpus_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Simulated(monkeypatch, 2)
    assert pool(3, tmp_path, monkeypatch) == (["0", "1", "0"], {"2"})
    assert pool(1, tmp_path, monkeypatch) == (["0"], {"8"})


@pytest.mark.parametrize("listed", [["2", "5"], ["GPU-8932f937", "GPU-2f8a11"]])
def test_each_worker_gets_its_own_of_the_listed_gpus(
    listed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Simulated(monkeypatch, 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(listed))
    assert pool(None, tmp_path, monkeypatch)[0] == listed
    assert pool(3, tmp_path, monkeypatch)[0] == [*listed, listed[0]]


# --- Ray -----------------------------------------------------------------------------------------------------------

Machine = dict[str, float]


def ray_share(
    machines: list[Machine], workers: int | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[int, int, float]:
    """The number of workers, and the CPUs and GPUs that each asks Ray for."""
    asked: list[dict[str, Any]] = []

    def remote(**options: Any) -> Callable[[object], object]:
        asked.append(options)
        return lambda task: task

    total: Counter[str] = sum(map(Counter, machines), Counter())  # type: ignore[arg-type]
    nodes = [{"Alive": True, "Resources": each} for each in machines]
    ray = SimpleNamespace(remote=remote, cluster_resources=lambda: total, nodes=lambda: nodes)
    monkeypatch.setattr(ray_engine, "Cluster", lambda: SimpleNamespace(ray=ray))
    size = executors.make_executor("ray", workers, Store(folder), (), ALONE).size
    return size, asked[0]["num_cpus"], asked[0]["num_gpus"]


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
    machines: list[Machine],
    workers: int | None,
    share: tuple[int, int, float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert ray_share(machines, workers, tmp_path, monkeypatch) == pytest.approx(share)


def test_ray_workers_leave_gpus_that_are_turned_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCELERATE_USE_CPU", "1")
    assert ray_share([{"CPU": 8.0, "GPU": 2.0}], None, tmp_path, monkeypatch) == (8, 1, 0.0)
