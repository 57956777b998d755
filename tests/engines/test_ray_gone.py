"""Ray that cannot be reached, does not start, or stops: one line, nothing lost, and the same command continues."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from srnet.errors import UserError
from srnet.experiment.engines import ray as engine
from srnet.experiment.engines.ray import _check_address, _start, run_with_timeout

pytest.importorskip("ray")


def test_an_address_that_nobody_answers_is_refused_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        port = taken.getsockname()[1]
        for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}"):
            with pytest.raises(UserError, match=f"no Ray at RAY_ADDRESS {address}.*unset RAY_ADDRESS"):
                _check_address(address)


@pytest.mark.parametrize("address", ["nonsense", "host", "host:99999999", "host:port", "http://x/y:1/"])
def test_what_is_no_address_is_said(address: str) -> None:
    with pytest.raises(UserError, match="is not an address; write host:port"):
        _check_address(address)


@pytest.mark.parametrize("address", [None, "", "auto", "local"])
def test_words_that_ray_knows_pass(address: str | None) -> None:
    _check_address(address)


def test_ray_that_does_not_start_is_one_line() -> None:
    class Broken:
        def init(self, **options: object) -> None:
            raise RuntimeError("no room\nfor sockets")

    with pytest.raises(UserError, match=r"Ray cannot be started: no room for sockets; .*--engine pool"):
        _start(Broken(), None)


def test_ray_that_never_answers_is_not_waited_for() -> None:
    assert isinstance(run_with_timeout(0.01, lambda: __import__("time").sleep(60)), TimeoutError)
    assert run_with_timeout(60.0, lambda: None) is None


KILLED = """
    import os, signal, sys, threading
    import psutil, ray
    from srnet.errors import UserError
    from srnet.experiment import Engine, FineTune, Pretrained, Store
    from srnet.experiment.engines import ray as executor
    from srnet.progress import Reporter
    from srnet.tasks.synthetic import SyntheticTask
    from srnet.training import TrainingSettings

    executor.TIMEOUT = 20.0
    task = SyntheticTask("inference", train_size=120, dev_size=40, ood_size=40)
    training = TrainingSettings(learning_rate=1e-2, steps=100_000, eval_every=5, batch_size=8)
    node = FineTune(Pretrained(sys.argv[1], task, 0), training=training)
    ray.init(address="local", num_cpus=1, object_store_memory=80_000_000, include_dashboard=False,
             log_to_driver=False, logging_level="ERROR")

    def kill():
        while not list((Store(sys.argv[2]).root / "work").glob("*/*")):
            threading.Event().wait(0.2)
        for process in psutil.Process().children(recursive=True):
            if "raylet" in process.name():
                process.send_signal(signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()
    try:
        Engine(Store(sys.argv[2]), Reporter(quiet=True), name="ray", workers=1).execute([node])
    except UserError as error:
        print("SAID", error, flush=True)
    os._exit(0)
"""


def test_ray_that_is_killed_ends_the_run_and_nothing_else(tiny_backbone: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(KILLED))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    environment |= {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    ran = subprocess.run(
        [sys.executable, str(script), tiny_backbone, str(tmp_path / "store")],
        env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    said = [line for line in ran.stdout.splitlines() if line.startswith("SAID")]
    assert said == [f"SAID {engine._gone()}"], ran.stdout[-2000:] + ran.stderr[-2000:]
    assert list((tmp_path / "store" / "work").glob("*/*")), "the checkpoints are kept"
