"""Where the work is done: in this process, in a pool of processes, by Ray. One scheduler drives them all."""

from srnet.experiment.engines import hire
from srnet.experiment.engines.scheduler import Crew, Outcome, run

__all__ = ["Crew", "Outcome", "hire", "run"]
