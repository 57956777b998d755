"""Where the work is done: in this process, in a pool of processes, by Ray. One scheduler drives them all."""

from srnet.experiment.engines import executors
from srnet.experiment.engines.scheduler import Executor, Outcome, run

__all__ = ["Executor", "Outcome", "executors", "run"]
