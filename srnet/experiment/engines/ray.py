"""Computation by Ray on many machines, which share the store's folder."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from srnet.core.device import CPU_SWITCH, cpu_requested
from srnet.core.errors import UserError
from srnet.core.progress import Watch
from srnet.experiment.engines.cluster import Cluster, end_with_raylet, gone
from srnet.experiment.engines.local import compute_once
from srnet.experiment.engines.pool import attempt
from srnet.experiment.engines.scheduler import Outcome
from srnet.experiment.nodes.base import Node
from srnet.experiment.store import Store

CHECK_SECONDS = 2.0
"""Seconds between two checks that Ray is there: `ray.wait` alone would wait forever for a worker whose raylet died."""
T = TypeVar("T")


class RayExecutor:
    """Computes nodes as tasks of Ray, on the cluster that RAY_ADDRESS names or on this machine."""

    def __init__(self, workers: int | None, store: Store, report_to: tuple[str, ...]) -> None:
        self._cluster = Cluster()
        self._ray = self._cluster.ray
        machines = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        share = share_of(machines, workers, on_cpu=cpu_requested())
        self.size, self._threads = share.workers, max(1, share.cpus)
        self._root, self._report_to = store.root.resolve(), report_to
        # max_retries=0: our scheduler handles dead workers, and continues with other nodes meanwhile
        options = {"num_cpus": share.cpus, "num_gpus": share.gpu, "max_retries": 0}
        self._compute = self._ray.remote(**options)(_compute)
        self._running: dict[Any, Node] = {}

    def start(self, node: Node, *, wait: bool, watch: Watch, say: Callable[[str], None]) -> None:
        arguments = (node, wait, self._root, self._report_to, self._threads, cpu_requested())
        self._running[self._call(lambda: self._compute.remote(*arguments))] = node

    def outcomes(self) -> Iterable[Outcome]:
        while not (ready := self._ready()):
            if self._cluster.is_gone():
                raise gone()
        return [self._outcome(reference, self._running.pop(reference)) for reference in ready]

    def _ready(self) -> list[Any]:
        found, _ = self._call(lambda: self._ray.wait(list(self._running), num_returns=1, timeout=CHECK_SECONDS))
        return list(found)

    def _outcome(self, reference: Any, node: Node) -> Outcome:
        try:
            status, error = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as failure:  # it could not start: srnet is not installed there
            return Outcome(node, "failed", UserError(f"a Ray worker cannot compute {node.label}: {failure.cause}"))
        except self._ray.exceptions.RayError:
            if not self._cluster.can_compute():  # then no other worker would start either
                raise gone() from None
            return Outcome(node, "died")
        return Outcome(node, status, error)

    def _call(self, function: Callable[[], T]) -> T:
        try:
            return function()
        except (self._ray.exceptions.RayError, RuntimeError, ConnectionError):
            raise gone() from None

    def close(self) -> None:
        self._cluster.close(list(self._running))


@dataclass(frozen=True)
class Share:
    """How many workers a cluster has, and what each of them gets."""

    workers: int
    cpus: int
    gpu: float


def share_of(machines: Sequence[Mapping[str, float]], workers: int | None, *, on_cpu: bool) -> Share:
    """A GPU for each worker, or without GPUs a core. A GPU is shared only if more workers are requested than there are.

    `machines` are the resources of each. A worker that asks for more cores than any machine has would never start.
    """
    offers = [(int(each.get("CPU", 0)), 0 if on_cpu else int(each.get("GPU", 0))) for each in machines]
    offers = [each for each in offers if each[1]] or offers
    offers = [each for each in offers if each[0]] or offers  # no worker that asks for a core starts on the others
    cpus, gpus = zip(*offers, strict=True)
    least = 1 if any(cpus) else 0
    if not any(gpus):
        size = workers or max(1, sum(cpus))
        return Share(size, max(least, min(max(cpus), sum(cpus) // size)), 0.0)
    size = workers or sum(gpus)
    per_gpu = math.ceil(size / sum(gpus))
    each_gets = min(cores // min(size, own * per_gpu) for cores, own in zip(cpus, gpus, strict=True))
    return Share(size, max(least, each_gets), 1.0 / per_gpu)


def _compute(
    node: Node, may_wait: bool, root: Path, report_to: tuple[str, ...], threads: int, on_cpu: bool
) -> tuple[str, BaseException | None]:
    import torch

    if on_cpu:
        os.environ[CPU_SWITCH] = "true"  # a worker of a cluster does not inherit the environment
    end_with_raylet()
    torch.set_num_threads(threads)
    return attempt(lambda: compute_once(node, Store(root).open(), report_to, wait=may_wait))
