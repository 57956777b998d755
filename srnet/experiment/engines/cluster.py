"""Ray as a service: joined or started, checked while nodes are computed, and stopped."""

from __future__ import annotations

import logging
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from queue import Empty, SimpleQueue
from subprocess import DEVNULL, PIPE
from typing import Any

from srnet.core.errors import UserError
from srnet.core.network import disable_telemetry

TIMEOUT = 300.0
"""Seconds that Ray has to start, and to compute a trivial task: on a busy machine a minute was too short."""
ANSWER_TIMEOUT = 5.0
"""Seconds to wait for one answer: Ray ends this process when its control service was away for 60 s."""
END_TIMEOUT = 15.0
"""Seconds that Ray has to end."""
MARK = "SRNET_RAY_STARTED_BY"
"""The variable in the environment of all processes of the Ray instance that was started here."""
PARENT_SECONDS = 1.0
"""Seconds between two checks of a worker that its raylet is alive."""


class Cluster:
    """The Ray that this process is connected to: the one that RAY_ADDRESS names, or one on this machine."""

    def __init__(self) -> None:
        self.ray = import_ray()
        self._end_thread: threading.Event | None = None
        if not self.ray.is_initialized():
            self._end_thread = start(self.ray, os.environ.get("RAY_ADDRESS"))
        self._is_client = self.ray.util.client.ray.is_connected()  # ray://, where the raylet is not this machine's
        if not self._is_client:
            context = self.ray.get_runtime_context()
            self._node, self._control_service = context.get_node_id(), context.gcs_address

    def is_gone(self) -> bool:
        """Whether the control service refuses connections, or the raylet of this machine is known to be dead."""
        if self._is_client:
            return not self.ray.util.client.ray.is_connected()
        if not answers(self._control_service):
            return True
        nodes: list[dict[str, Any]] = []
        slow = run_with_timeout(ANSWER_TIMEOUT, lambda: nodes.extend(self.ray.nodes())) is not None
        return not slow and not any(node["Alive"] for node in nodes if node["NodeID"] == self._node)

    def can_compute(self) -> bool:
        """Whether a trivial task can be computed. Only that is certain right after the death of a raylet."""
        deadline = time.monotonic() + TIMEOUT
        try:
            probe = self.ray.remote(num_cpus=0)(_probe).remote()
            while not self.ray.wait([probe], timeout=1.0)[0]:
                if time.monotonic() > deadline or self.is_gone():
                    return False
            return bool(self.ray.get(probe))
        except Exception:  # Ray raises various exceptions when it is gone
            return False

    def close(self, cancelled: list[Any]) -> None:
        """Cancel tasks, and stop Ray if it was started here. A Ray that is gone may never answer."""
        run_with_timeout(END_TIMEOUT, lambda: self._end(cancelled))
        if self._end_thread is not None:
            self._end_thread.set()

    def _end(self, cancelled: list[Any]) -> None:
        for reference in cancelled:
            self.ray.cancel(reference, force=True)
        if self._end_thread is not None:
            self.ray.shutdown()


def gone() -> UserError:
    return UserError("Ray is gone; all results are kept", "run the same command again to continue")


def import_ray() -> Any:
    disable_telemetry()
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # silences a warning of Ray
    if os.environ.get("RAY_ADDRESS", "") in ("", "local"):  # on Linux too: nobody else can connect to this Ray
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    # otherwise ray.init waits for the first workers. If one of them is killed, it never returns and holds the GIL
    os.environ.setdefault("RAY_prestart_worker_first_driver", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")  # the default, 15, hardly computes beside other programs
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "Raylet is terminated|has been marked dead")  # on stdout
    try:
        import ray
        import ray.util.client
    except ImportError:
        raise UserError("engine 'ray' needs Ray", "pip install 'srnet[ray]', or choose --engine pool") from None
    return ray


def start(ray: Any, address: str | None) -> threading.Event:
    """Start Ray or join a cluster. Set the returned event when Ray has ended.

    The thread that starts Ray must live as long as Ray: on Linux the kernel kills Ray's processes when it ends.
    """
    check_address(address)
    options = {"include_dashboard": False, "log_to_driver": False, "logging_level": logging.CRITICAL}
    failures: SimpleQueue[BaseException | None] = SimpleQueue()
    end = threading.Event()

    def own() -> None:
        try:
            with guarded() as marked:
                with marked:
                    ray.init(address=address, **options)
                failures.put(None)
                end.wait()
        except BaseException as error:
            failures.put(error)

    threading.Thread(target=own, daemon=True, name="srnet-ray").start()
    failed = _first(failures, TIMEOUT)
    if isinstance(failed, UserError):
        raise failed
    if failed is not None:
        reason = " ".join(str(failed).split()) or type(failed).__name__
        raise UserError(f"Ray cannot be started: {reason}", "fix that, or choose --engine pool") from failed
    return end


@contextmanager
def guarded() -> Iterator[AbstractContextManager[None]]:
    """Start a process that ends the processes of Ray after this block, also if this process is killed.

    Processes that are started inside the returned context manager have a mark, by which they are found.
    """
    mark = f"{os.getpid()}-{time.time_ns()}"
    command = [sys.executable, "-P", str(Path(__file__).with_name("ray_guard.py")), f"{MARK}={mark}"]
    # in a process group of its own, so that Ctrl-C reaches the command alone
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, process_group=0) as guard:
        assert guard.stdout is not None
        if not guard.stdout.readline():
            raise UserError("engine 'ray' needs psutil", "pip install 'srnet[ray]', or choose --engine pool")
        yield _marked(mark)


@contextmanager
def _marked(mark: str) -> Iterator[None]:
    os.environ[MARK] = mark
    try:
        yield
    finally:
        os.environ.pop(MARK, None)


def _first(failures: SimpleQueue[BaseException | None], seconds: float) -> BaseException | None:
    try:
        return failures.get(timeout=seconds)
    except Empty:
        return TimeoutError(f"no answer within {seconds:g} s")


def check_address(address: str | None) -> None:
    """Check that the address answers: Ray itself would wait without a limit."""
    place = re.fullmatch(r"(?:ray://)?\[?([^/\]]+)\]?:(\d{1,5})", address or "")
    if address in (None, "", "auto", "local"):
        return
    if place is None or int(place[2]) > 65_535:
        raise UserError(f"RAY_ADDRESS '{address}' is not an address", "write host:port, auto or local")
    try:
        socket.create_connection((place[1], int(place[2])), timeout=10.0).close()
    except OSError as error:
        raise UserError(f"no Ray at RAY_ADDRESS {address}: {error}", "start it there, or unset RAY_ADDRESS") from None


def answers(address: str) -> bool:
    """Whether something accepts connections at host:port. The system accepts them, however busy the process is."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_TIMEOUT).close()
    except OSError:
        return False
    return True


def run_with_timeout(seconds: float, function: Callable[[], object]) -> BaseException | None:
    """Call a function that may never return. Returns its exception, or TimeoutError if it still runs."""
    failures: SimpleQueue[BaseException | None] = SimpleQueue()

    def call() -> None:
        try:
            function()
            failures.put(None)
        except BaseException as error:
            failures.put(error)

    threading.Thread(target=call, daemon=True).start()
    return _first(failures, seconds)


def _probe() -> bool:
    return True


# --- in the worker -------------------------------------------------------------------------------------------------


@cache
def end_with_raylet() -> None:
    """End this worker when its raylet dies. Ray itself lets a running task finish, however long it takes."""
    threading.Thread(target=_watch_parent, args=(os.getppid(),), daemon=True).start()


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_SECONDS)
    os._exit(1)
