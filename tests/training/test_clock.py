"""The trainer's own log says how much of a step is spent waiting for data."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from srnet.training import train
from srnet.training.clock import Clock
from srnet.training.method import Method


def test_the_share_is_that_of_data_in_steps_and_data(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    clock = Clock()
    assert clock.figures() == {}

    def slow(rows: list[int]) -> list[int]:
        nonlocal now
        now += 1.0
        return rows

    assert clock.timed(slow)([1, 2]) == [1, 2]
    clock.on_step_begin()
    now += 3.0
    clock.on_step_end()
    now += 100.0  # an evaluation
    assert clock.figures() == {"time/data_percent": 25.0}


def test_a_training_logs_it(make_run: Any, tmp_path: Path) -> None:
    result = train(make_run(Method(), tmp_path))
    logged = [entry["time/data_percent"] for entry in result.log if "time/data_percent" in entry]
    assert logged
    assert result.data_percent is not None
    assert 0.0 < result.data_percent < 100.0
