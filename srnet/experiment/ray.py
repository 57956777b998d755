"""Computation by Ray on many machines, which share the store's folder.

Ray is joined at the address in RAY_ADDRESS, or started on this machine. What the workers write survives its end.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any, TypeVar

from srnet.core.device import CPU_SWITCH, check_workers, cpu_requested, requires_gpu
from srnet.core.errors import UserError
from srnet.core.network import disable_telemetry
from srnet.core.processes import environment
from srnet.core.progress import Watch
from srnet.experiment.compute import Context, Outcome, compute_once
from srnet.experiment.nodes.base import Node
from srnet.experiment.pool import picklable
from srnet.experiment.store import Store

CHECK_SECONDS = 2.0
"""Seconds between two checks that Ray is there: `ray.wait` alone would wait forever for a worker whose raylet died."""
END_SECONDS = 15.0
"""Seconds that Ray has to end: without its control service it may never return."""
MARK = "SRNET_RAY_STARTED_BY"
"""The variable in the environment of all processes of the Ray instance that was started here."""
T = TypeVar("T")


class RayExecutor:
    """Computes nodes as tasks of Ray, on the cluster that RAY_ADDRESS names or on this machine."""

    def __init__(self, workers: int | None, store: Store, report_to: tuple[str, ...]) -> None:
        self._ray = _import_ray()
        self._guard = None if self._ray.is_initialized() else _start(self._ray, os.environ.get("RAY_ADDRESS"))
        machines = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        share = _share_of(machines, workers, on_cpu=cpu_requested())
        self.size, self._threads = share.workers, max(1, share.cpus)
        self._root, self._report_to = store.root.resolve(), report_to
        # max_retries=0: our scheduler handles dead workers, and continues with other nodes meanwhile
        options = {"num_cpus": share.cpus, "num_gpus": share.gpus, "max_retries": 0}
        self._compute = self._ray.remote(**options)(_compute)
        self._running: dict[Any, Node] = {}

    def start(self, node: Node, *, wait: bool, watch: Watch, say: Callable[[str], None]) -> None:
        arguments = (node, wait, self._root, self._report_to, self._threads, cpu_requested())
        self._running[self._call(lambda: self._compute.remote(*arguments))] = node

    def outcomes(self) -> Iterable[Outcome]:
        ready: list[Any] = []
        while not ready:
            if not any(node["Alive"] for node in self._call(self._ray.nodes)):
                raise _gone()
            ready, _ = self._call(lambda: self._ray.wait(list(self._running), num_returns=1, timeout=CHECK_SECONDS))
        return [self._outcome(reference, self._running.pop(reference)) for reference in ready]

    def _outcome(self, reference: Any, node: Node) -> Outcome:
        try:
            outcome: Outcome = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as failure:  # it could not start: srnet is not installed there
            return Outcome(node, "failed", UserError(f"a Ray worker cannot compute {node.label}: {failure.cause}"))
        except self._ray.exceptions.RayError:
            return Outcome(node, "died")
        return outcome

    def _call(self, function: Callable[[], T]) -> T:
        try:
            return function()
        except (self._ray.exceptions.RayError, RuntimeError, ConnectionError):
            raise _gone() from None

    def close(self) -> None:
        end = threading.Thread(target=self._end, daemon=True)
        end.start()
        end.join(END_SECONDS)
        if self._guard is not None:
            self._guard.close()

    def _end(self) -> None:
        """Cancel the tasks that run, and stop Ray if it was started here."""
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        if self._guard is not None:
            self._ray.shutdown()


def _gone() -> UserError:
    return UserError("Ray is gone; all results are kept", "run the same command again to continue")


def _compute(node: Node, may_wait: bool, root: Path, report_to: tuple[str, ...], threads: int, on_cpu: bool) -> Outcome:
    """In a worker: the outcome of a node's computation."""
    import torch

    if on_cpu:
        os.environ[CPU_SWITCH] = "true"  # a worker of a cluster does not inherit the environment
    torch.set_num_threads(threads)
    return picklable(compute_once(node, Context(Store(root).open(), report_to), wait=may_wait))


# --- what each worker gets -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Share:
    """How many workers a cluster has, and what each of them gets."""

    workers: int
    cpus: int
    gpus: int


def _share_of(machines: Sequence[Mapping[str, float]], workers: int | None, *, on_cpu: bool) -> _Share:
    """A whole GPU for each worker, or without GPUs a core.

    `machines` are the resources of each. A worker that requests more cores than any machine has would never start.
    """
    offers = [(int(each.get("CPU", 0)), 0 if on_cpu else int(each.get("GPU", 0))) for each in machines]
    offers = [each for each in offers if each[1]] or offers
    offers = [each for each in offers if each[0]] or offers  # no worker that requests a core starts on the others
    cpus, gpus = zip(*offers, strict=True)
    least = 1 if any(cpus) else 0
    if not any(gpus):
        if requires_gpu():
            raise UserError("device cuda is not there: no machine of the cluster has a GPU", "choose --device cpu")
        size = workers or max(1, sum(cpus))
        return _Share(size, max(least, min(max(cpus), sum(cpus) // size)), 0)
    size = workers or sum(gpus)
    check_workers(size, sum(gpus))
    each_gets = min(cores // min(size, own) for cores, own in zip(cpus, gpus, strict=True))
    return _Share(size, max(least, each_gets), 1)


# --- Ray as a service ------------------------------------------------------------------------------------------------


def _import_ray() -> Any:
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
    except ImportError:
        raise UserError("engine 'ray' needs Ray", "pip install 'srnet[ray]', or choose --engine pool") from None
    return ray


def _start(ray: Any, address: str | None) -> ExitStack:
    """Start Ray or join a cluster. Closing what is returned ends every process of a Ray that was started."""
    _check_address(address)
    options = {"include_dashboard": False, "log_to_driver": False, "logging_level": logging.CRITICAL}
    with ExitStack() as stack:
        marked = stack.enter_context(_guarded())
        try:
            with marked:
                ray.init(address=address, **options)
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise UserError(f"Ray cannot be started: {reason}", "fix that, or choose --engine pool") from error
        return stack.pop_all()


def _check_address(address: str | None) -> None:
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


@contextmanager
def _guarded() -> Iterator[AbstractContextManager[None]]:
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
        yield environment({MARK: mark})
