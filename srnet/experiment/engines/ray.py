"""Computation by Ray on many machines, which share the store's folder."""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from srnet.errors import UserError
from srnet.experiment.compute_once import compute_once
from srnet.experiment.engines.pool import attempt
from srnet.experiment.engines.scheduler import Outcome
from srnet.experiment.nodes import Node
from srnet.experiment.store import Store
from srnet.progress import Watch

TIMEOUT = 300.0
"""Seconds that Ray has to start, and to say that it is still there: on a busy machine a minute was too short."""
END_TIMEOUT = 30.0
"""Seconds that it has to end."""
T = TypeVar("T")


class RayExecutor:
    """Joins the cluster that RAY_ADDRESS names, or starts Ray on this machine."""

    def __init__(self, workers: int | None, store: Store, report_to: tuple[str, ...]) -> None:
        self._ray = _ray()
        self._started_here = not self._ray.is_initialized()
        if self._started_here:
            _start(self._ray, os.environ.get("RAY_ADDRESS"))
        resources = self._ray.cluster_resources()
        cpus, gpus = int(resources.get("CPU", 1)), resources.get("GPU", 0.0)
        self.size = workers or int(gpus) or cpus
        largest = max(int(node["Resources"].get("CPU", 1)) for node in self._ray.nodes() if node["Alive"])
        self._threads = max(
            1, min(largest, cpus // self.size)
        )  # a task with more than the largest machine has would never start
        self._root, self._report_to = store.root.resolve(), report_to
        # max_retries=0: our scheduler handles dead workers, and continues with other nodes meanwhile
        options = {"num_cpus": self._threads, "num_gpus": min(1.0, gpus / self.size), "max_retries": 0}
        self._compute = self._ray.remote(**options)(_compute)
        self._running: dict[Any, Node] = {}

    def start(self, node: Node, *, wait: bool, watch: Watch, say: Callable[[str], None]) -> None:
        reference = self._call(lambda: self._compute.remote(node, wait, self._root, self._report_to, self._threads))
        self._running[reference] = node

    def outcomes(self) -> Iterable[Outcome]:
        ready, _ = self._call(lambda: self._ray.wait(list(self._running), num_returns=1))
        return [self._outcome(reference, self._running.pop(reference)) for reference in ready]

    def _outcome(self, reference: Any, node: Node) -> Outcome:
        try:
            status, error = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as failure:  # it could not start: srnet is not installed there
            return Outcome(node, "failed", UserError(f"a Ray worker cannot compute {node.label}: {failure.cause}"))
        except self._ray.exceptions.RayError:
            if not self._is_alive():  # then no other worker would start either
                raise _gone() from None
            return Outcome(node, "died")
        return Outcome(node, status, error)

    def _call(self, function: Callable[[], T]) -> T:
        try:
            return function()
        except (self._ray.exceptions.RayError, RuntimeError, ConnectionError):
            raise _gone() from None

    def _is_alive(self) -> bool:
        """Whether a trivial task can still be computed."""
        probe = self._ray.remote(num_cpus=0, max_retries=0)(_probe)
        try:
            return bool(self._ray.get(probe.remote(), timeout=TIMEOUT))
        except Exception:  # Ray raises various exceptions during shutdown
            return False

    def close(self) -> None:
        # a Ray that has stopped may never answer, and nobody should wait for it
        run_with_timeout(END_TIMEOUT, self._end)

    def _end(self) -> None:
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        if self._started_here:
            self._ray.shutdown()


def _gone() -> UserError:
    return UserError("Ray has stopped; all results are kept", "start it and run the same command again to continue")


def _start(ray: Any, address: str | None) -> None:
    _check_address(address)
    options = {"include_dashboard": False, "log_to_driver": False, "logging_level": logging.ERROR}
    failed = run_with_timeout(TIMEOUT, lambda: ray.init(address=address, **options))
    if failed is not None:
        reason = " ".join(str(failed).split()) or type(failed).__name__
        raise UserError(f"Ray cannot be started: {reason}", "fix that, or choose --engine pool") from failed


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


def run_with_timeout(seconds: float, function: Callable[[], object]) -> BaseException | None:
    """Call a function that may never return. Returns its exception, or TimeoutError if it still runs."""
    failed: list[BaseException] = [TimeoutError(f"no answer within {seconds:g} s")]

    def call() -> None:
        try:
            function()
            failed.clear()
        except BaseException as error:
            failed[0] = error

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    return failed[0] if failed else None


def _probe() -> bool:
    return True


def _ray() -> Any:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # silences a warning of Ray
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise UserError("engine 'ray' needs Ray", "pip install 'srnet[ray]', or choose --engine pool") from None
    return ray


def _compute(
    node: Node, may_wait: bool, root: Path, report_to: tuple[str, ...], threads: int
) -> tuple[str, BaseException | None]:
    import torch

    torch.set_num_threads(threads)
    return attempt(lambda: compute_once(node, Store(root).open(), report_to, wait=may_wait))
