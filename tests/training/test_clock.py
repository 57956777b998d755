"""The trainer's own log says how much of a step is spent waiting for data."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch
from gpus import Simulated
from transformers import TrainerControl

from srnet.training.callback import Clock
from srnet.training.method import Method
from srnet.training.trainer import train


def end_step(clock: Clock, **control: bool) -> None:
    clock.on_step_end(None, None, TrainerControl(**control))


def test_the_share_is_that_of_data_in_steps_and_data(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    clock = Clock()
    assert clock.figures() == {}

    def slow(rows: list[int]) -> list[int]:
        nonlocal now
        now += 1.0
        return rows

    for _ in range(2):
        assert clock.timed(slow)([1, 2]) == [1, 2]
        clock.on_step_begin()
        now += 3.0
        end_step(clock, should_evaluate=True)
        now += 100.0  # an evaluation
        assert clock.figures() == {"time/data_percent": 25.0}


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Simulated:
    return Simulated(monkeypatch, 1)


def test_work_of_a_gpu_counts_when_it_is_done(gpu: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step returns at once, and the GPU needs three seconds for it."""
    now = queued = 0.0

    def wait() -> None:
        nonlocal now, queued
        now, queued, gpu.waits = now + queued, 0.0, gpu.waits + 1

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    monkeypatch.setattr(torch.cuda, "synchronize", wait)
    clock = Clock()

    def make() -> None:
        nonlocal now
        now += 0.5

    for step in range(1, 5):
        clock.timed(make)()
        clock.on_step_begin()
        queued += 3.0
        end_step(clock, should_log=step == 4)
    assert clock.figures() == {"time/data_percent": round(100 * 2.0 / 14.0, 3)}
    assert gpu.waits == 2, "at the ends, not at every step"


def test_a_training_waits_for_the_gpu_between_steps_only(
    make_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is timed: twice for each window of steps, of which every evaluation ends one, and once at the end."""
    waits: list[str] = []
    for place in ("srnet.training.callback", "srnet.training.trainer"):
        monkeypatch.setattr(f"{place}.synchronize", lambda place=place: waits.append(place))
    result = train(run := make_run(Method(), tmp_path))
    windows = len([entry for entry in result.log if "eval_score" in entry])
    assert 1 < windows < result.steps == run.settings.steps
    assert len(waits) == 2 * windows + 1


def test_a_training_logs_it(make_run: Any, tmp_path: Path) -> None:
    result = train(make_run(Method(), tmp_path))
    logged = [entry["time/data_percent"] for entry in result.log if "time/data_percent" in entry]
    assert logged
    assert result.data_percent is not None
    assert 0.0 < result.data_percent < 100.0
