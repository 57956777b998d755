"""An executor by its name."""

from __future__ import annotations

import os

from srnet.device import visible_gpus
from srnet.errors import UserError, choose
from srnet.experiment.engines.scheduler import Executor
from srnet.experiment.store import Store
from srnet.training.distributed import Ranks

ENGINES = ("local", "pool", "ray")


def cores() -> int:
    """The cores that this process may use, fewer than the machine's in a container or a batch job."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check(name: str, workers: int | None) -> None:
    choose("engine", name, ENGINES)
    if workers is not None and workers < 1:
        raise UserError(f"the number of workers is {workers}", "give at least 1")
    if name == "local" and workers not in (None, 1):
        raise UserError("engine 'local' has one process", "choose --engine pool or ray for several workers")


def make_executor(name: str, workers: int | None, store: Store, report_to: tuple[str, ...], ranks: Ranks) -> Executor:
    if ranks.world > 1:
        if name != "local":
            raise UserError(f"engine '{name}' cannot run under torchrun", "use --engine local there")
        from srnet.experiment.engines.distributed import DistributedExecutor

        return DistributedExecutor(ranks, store, report_to)
    if name == "pool":
        from srnet.experiment.engines.pool import Pool

        gpus = visible_gpus()
        return Pool(workers or len(gpus) or cores(), cores(), gpus, store, report_to)
    if name == "ray":
        from srnet.experiment.engines.ray import RayExecutor

        return RayExecutor(workers, store, report_to)
    from srnet.experiment.engines.local import Local

    return Local(store, report_to)
