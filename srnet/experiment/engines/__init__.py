"""Executors: this process, a pool of processes, Ray. One scheduler for all of them."""

from srnet.experiment.engines import executors
from srnet.experiment.engines.scheduler import Executor, Outcome, run

__all__ = ["Executor", "Outcome", "executors", "run"]
