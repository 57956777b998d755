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
from srnet.experiment.engines.cluster import check_address, gone, guarded, run_with_timeout, start

from srnet.core.errors import UserError
from srnet.experiment.store import Store

pytest.importorskip("ray")


def test_an_address_that_nobody_answers_is_refused_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        port = taken.getsockname()[1]
        for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}"):
            with pytest.raises(UserError, match=f"no Ray at RAY_ADDRESS {address}.*unset RAY_ADDRESS"):
                check_address(address)


@pytest.mark.parametrize("address", ["nonsense", "host", "host:99999999", "host:port", "http://x/y:1/"])
def test_what_is_no_address_is_said(address: str) -> None:
    with pytest.raises(UserError, match="is not an address; write host:port"):
        check_address(address)


@pytest.mark.parametrize("address", [None, "", "auto", "local"])
def test_words_that_ray_knows_pass(address: str | None) -> None:
    check_address(address)


def test_ray_that_does_not_start_is_one_line() -> None:
    class Broken:
        def init(self, **options: object) -> None:
            raise RuntimeError("no room\nfor sockets")

    with pytest.raises(UserError, match=r"Ray cannot be started: no room for sockets; .*--engine pool"):
        start(Broken(), None)


def test_ray_that_never_answers_is_not_waited_for() -> None:
    assert isinstance(run_with_timeout(0.01, lambda: __import__("time").sleep(60)), TimeoutError)
    assert run_with_timeout(60.0, lambda: None) is None


def test_a_guard_that_does_not_start_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/true")
    with pytest.raises(UserError, match="engine 'ray' needs psutil"), guarded():
        pytest.fail("it is not ready")


def test_what_ray_started_ends_with_the_process_that_is_killed() -> None:
    wait = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
    reading, writing = os.pipe()
    if (killed := os.fork()) == 0:
        try:
            with guarded() as marked:
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


TUNE = "fine-tune (ce), 20 steps, seed 0"


def test_ray_that_is_killed_ends_the_run_and_the_same_command_continues(
    fork_server: ForkServer, observed: Observed, tiny_backbone: str, tmp_path: Path
) -> None:
    (tmp_path / "gone.yaml").write_text(small_recipe("gone", tiny_backbone, rate=1e-3))
    store = Store(tmp_path / "store")
    _kill_ray("raylet", _start(fork_server, tmp_path, observed, hold=7), observed)
    stored = store.keys()
    assert stored != []
    assert observed.steps(TUNE) == [list(range(1, 8))]

    _kill_ray("gcs_server", _start(fork_server, tmp_path, observed, hold=12), observed)
    assert store.keys() == stored
    assert store.verify() == {}
    assert observed.steps(TUNE) == [list(range(6, 13))], "it continued behind its checkpoint"

    # by one process: that the same command continues was seen above, and starting Ray takes long
    command = _start(fork_server, tmp_path, observed, engine="local")
    assert command.code == 0, command.said
    assert command.lines == []
    assert observed.steps(TUNE) == [list(range(11, 21))]
    assert not set(stored) & set(observed.begun())
    assert store.verify() == {}


def _kill_ray(victim: str, command: Command, observed: Observed) -> None:
    """Kill a process of Ray while its worker holds, which neither ends nor fails by itself."""
    worker = psutil.Process(observed.held(TUNE, command))
    started = psutil.Process(command.pid).children(recursive=True)
    assert worker in started
    [killed] = [process for process in started if process.name() == victim]
    killed.send_signal(signal.SIGKILL)
    assert command.code == 2, command.said
    assert command.lines == [f"srnet: {gone()}"], "Ray is blamed, and no node is tried again"
    assert command.printed == ""
    assert ended(started, seconds=30.0), "Ray's agents alone would live for 60 s"


def _start(
    fork_server: ForkServer, folder: Path, observed: Observed, hold: int | None = None, engine: str = "ray"
) -> Command:
    observed.forget()
    if hold:
        observed.order("hold", TUNE, step=hold)
    words = ("run", "gone.yaml", "--store", "store", "--out", "out", "--engine", engine, "--workers", 1)
    return fork_server.start(folder, *words, observed=observed)
