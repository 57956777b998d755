"""Tiny models and tasks that the tests make themselves."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import ForkServer, started_fork_server, write_tiny_backbone

from srnet.experiment import Engine, Pretrained, Store
from srnet.progress import Reporter
from srnet.tasks.synthetic import SyntheticTask
from srnet.training import TrainingSettings

# torch is imported with the tests, not here: the process that distributes them needs no torch
FORKED = (
    "tests/engines/", "tests/test_guide.py", "tests/test_kills.py", "tests/page/test_page_command.py",
    "tests/test_measured_speed.py",
)  # fmt: skip
"""They use the fork server."""
LONG = ("tests/fuzz/", "tests/training/test_ddp.py", "tests/training/test_speed.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests first, so that what is left at the end is short.

    Each worker begins with an equal part of the list: the first with those that use the fork server, which then starts
    once, the second with the others.
    """
    forked, long = ([item for item in items if item.nodeid.startswith(names)] for names in (FORKED, LONG))
    others = [item for item in items if not item.nodeid.startswith(FORKED + LONG)]
    second = len(items) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) - len(forked)
    items[:] = [*forked, *others[:second], *long, *others[second:]]


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
