"""Ray: the same work on many machines, which share the store's folder."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from srnet.errors import UserError
from srnet.experiment.engines.pool import attempt
from srnet.experiment.engines.scheduler import Outcome
from srnet.experiment.nodes import Node
from srnet.experiment.store import Store
from srnet.experiment.work import ensure
from srnet.training.trainer import Watch


class RayExecutor:
    """Joins the cluster that RAY_ADDRESS names, or starts Ray on this machine."""

    def __init__(self, workers: int | None, store: Store, report_to: tuple[str, ...]) -> None:
        self._ray = _ray()
        self._ours = not self._ray.is_initialized()
        if self._ours:
            self._ray.init(
                address=os.environ.get("RAY_ADDRESS"),
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        resources = self._ray.cluster_resources()
        cpus, gpus = int(resources.get("CPU", 1)), resources.get("GPU", 0.0)
        self.size = workers or int(gpus) or cpus
        largest = max(int(node["Resources"].get("CPU", 1)) for node in self._ray.nodes() if node["Alive"])
        self._threads = max(1, min(largest, cpus // self.size))  # more than the largest machine has would never start
        self._root, self._report_to = store.root.resolve(), report_to
        # a death is the scheduler's affair (max_retries=0): it knows what can go on meanwhile
        options = {"num_cpus": self._threads, "num_gpus": min(1.0, gpus / self.size), "max_retries": 0}
        self._compute = self._ray.remote(**options)(_compute)
        self._running: dict[Any, Node] = {}

    def start(self, node: Node, *, wait: bool, watch: Watch, say: Callable[[str], None]) -> None:
        reference = self._compute.remote(node, wait, self._root, self._report_to, self._threads)
        self._running[reference] = node

    def outcomes(self) -> Iterable[Outcome]:
        ready, _ = self._ray.wait(list(self._running), num_returns=1)
        return [self._outcome(reference, self._running.pop(reference)) for reference in ready]

    def _outcome(self, reference: Any, node: Node) -> Outcome:
        try:
            status, error = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as failure:  # it could not even begin: srnet is not installed there
            return Outcome(node, "failed", UserError(f"a Ray worker cannot compute {node.label}: {failure.cause}"))
        except self._ray.exceptions.RayError:
            return Outcome(node, "died")
        return Outcome(node, status, error)

    def close(self) -> None:
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        if self._ours:
            self._ray.shutdown()


def _ray() -> Any:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # what Ray warns about otherwise
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
    return attempt(lambda: ensure(node, Store(root).open(), report_to, wait=may_wait))
