"""Tiny models and tasks that the tests make themselves, and a shell for commands."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from commands import Shell
from hypothesis import HealthCheck, settings
from processes import ForkServer, started_fork_server, write_tiny_backbone

from srnet.core.progress import Reporter
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.models import Pretrained
from srnet.experiment.store import Store
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.settings import TrainingSettings

if TYPE_CHECKING:
    from architectures import Runs

# tests must not fail because the machine is slow
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

# torch is imported with the tests, not here: the process that distributes them needs no torch
FIRST = (
    ("tests/engines/test_pool.py", "tests/engines/test_reproduce_faults.py", "tests/engines/test_torchrun.py",
     "tests/test_guide.py", "tests/test_kills.py", "tests/test_task_from.py", "tests/page/test_page_command.py",
     "tests/test_measured_speed.py"),
    ("tests/engines/test_ray", "tests/training/test_ddp.py", "tests/fuzz/"),
    ("tests/test_fresh_processes.py",),
)  # fmt: skip
"""The long tests that each worker begins with. They wait for processes, mostly those of the fork server."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests first, so that what is left at the end is short: workers begin with equal parts of the list."""
    share = len(items) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    others = [item for item in items if not item.nodeid.startswith(sum(FIRST, ()))]
    ordered: list[pytest.Item] = []
    for names in FIRST:
        part = [item for item in items if item.nodeid.startswith(names)]
        ordered += part + others[: share - len(part)]
        del others[: share - len(part)]
    items[:] = ordered + others


def pytest_collection_finish() -> None:
    """Every Trainer collects garbage: it need not look through all tests and all that they import each time."""
    import torch

    import srnet.training.trainer  # noqa: F401

    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """Runs commands in processes that need not import anything."""
    with started_fork_server() as server:
        yield server


@pytest.fixture(scope="session")
def tiny_backbone(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A BERT of two layers, width 32, that has seen a few steps of pre-training."""
    return str(write_tiny_backbone(tmp_path_factory.mktemp("backbone") / "tiny"))


@pytest.fixture
def tiny_task() -> SyntheticTask:
    return SyntheticTask("inference", train_size=200, dev_size=60, ood_size=60)


@pytest.fixture
def tiny_training() -> TrainingSettings:
    return TrainingSettings(learning_rate=1e-3, steps=20, eval_every=5, batch_size=8)


@pytest.fixture
def raw(tiny_backbone: str, tiny_task: SyntheticTask) -> Pretrained:
    return Pretrained(tiny_backbone, tiny_task, seed=0)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(Store(tmp_path / "store"), Reporter(quiet=True))


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first test that needs a fine-tuned model leaves its store for the others."""
    return tmp_path_factory.mktemp("trained") / "store"


@pytest.fixture
def shell(
    tmp_path: Path,
    tiny_backbone: str,
    trained: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Shell:
    return Shell(tmp_path, tiny_backbone, trained, monkeypatch, capsys)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Every architecture, each made when it is first asked for."""
    from architectures import Runs

    return Runs(tmp_path_factory.mktemp("architectures"))
