"""Ray that cannot be reached, does not start, or stops: one line, nothing lost, and the same command continues."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from processes import Command, ForkServer, Observed, small_recipe
from processes import gone as ended
from refusals import refused

from srnet.experiment.ray import _check_address, _guarded, _start
from srnet.experiment.store import Store

pytest.importorskip("ray")
TUNE = "fine-tune (ce), 20 steps, seed 0"


def test_an_address_that_does_not_answer_is_refused_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        port = taken.getsockname()[1]
        for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}"):
            with refused(address, "RAY_ADDRESS"):
                _check_address(address)


@pytest.mark.parametrize("address", ["nonsense", "host", "host:99999999", "host:port", "http://x/y:1/"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with refused(address, "host:port"):
        _check_address(address)


@pytest.mark.parametrize("address", [None, "", "auto", "local"])
def test_words_that_ray_knows_pass(address: str | None) -> None:
    _check_address(address)


def test_ray_that_does_not_start_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def init(self, **options: object) -> None:
            raise RuntimeError("no room\nfor sockets")

    with refused("no room for sockets", "--engine pool"):
        _start(Broken(), None)
    monkeypatch.setattr("sys.executable", "/bin/true")
    with refused("psutil", "--engine pool"), _guarded():
        pytest.fail("the guard is not ready")


def test_what_ray_started_ends_with_the_process_that_is_killed() -> None:
    wait = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
    reading, writing = os.pipe()
    if (killed := os.fork()) == 0:
        try:
            with _guarded() as marked:
                other = subprocess.Popen(wait)
                with marked:
                    found = subprocess.Popen(wait)
                os.write(writing, f"{found.pid} {other.pid}".encode())
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)  # it must not go on as a second pytest
    assert os.waitpid(killed, 0)[1] == signal.SIGKILL
    of_ray, other = (psutil.Process(int(pid)) for pid in os.read(reading, 40).split())
    try:
        assert ended([of_ray], seconds=30.0)
        assert not ended([other], seconds=0.0), "only what is started with the mark"
    finally:
        other.kill()


def test_ray_that_is_killed_ends_the_run_and_the_same_command_continues(
    fork_server: ForkServer, observed: Observed, tiny_backbone: str, tmp_path: Path
) -> None:
    (tmp_path / "gone.yaml").write_text(small_recipe("gone", tiny_backbone, rate=1e-3))
    store = Store(tmp_path / "store")

    def run(engine: str) -> Command:
        words = ("run", "gone.yaml", "--store", "store", "--out", "out", "--engine", engine, "--workers", 1)
        return fork_server.start(tmp_path, *words, observed=observed)

    observed.order("hold", TUNE, step=7)  # so that the worker neither ends nor fails by itself
    command = run("ray")
    worker = psutil.Process(observed.held(TUNE, command))
    started = psutil.Process(command.pid).children(recursive=True)
    assert worker in started
    next(process for process in started if process.name() == "raylet").kill()
    assert command.code == 2, command.said
    [line] = [line for line in command.lines if not line.startswith("warning: ")]
    assert line.startswith("srnet: Ray is gone")
    assert command.printed == ""
    assert ended(started, seconds=30.0), "Ray's agents alone would live for 60 s"
    stored = store.keys()
    assert stored != []

    # by one process, because starting Ray takes long
    observed.forget()
    command = run("local")
    assert command.code == 0, command.said
    assert command.lines == []
    assert observed.steps(TUNE) == [list(range(6, 21))], "it continued behind its checkpoint"
    assert not set(stored) & set(observed.begun())
    assert store.verify() == {}
