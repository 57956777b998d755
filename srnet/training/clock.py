"""The time that a training spends on its steps and on waiting for data."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback, TrainerControl

from srnet.core.device import synchronize


class Clock(TrainerCallback):  # type: ignore[misc]
    """Counts the seconds in which steps are taken, and of these the ones in which a batch was made.

    A window of time begins with a batch or a step, and ends with a step after which the Trainer logs, evaluates or
    saves, which does not count. A GPU is waited for at both ends, where it has nothing to do, and not at every step.
    """

    def __init__(self) -> None:
        self.data = self.total = 0.0
        self._began: float | None = None

    @property
    def data_percent(self) -> float | None:
        return round(100.0 * self.data / self.total, 3) if self.total else None

    def figures(self) -> dict[str, float]:
        return {} if self.data_percent is None else {"time/data_percent": self.data_percent}

    def timed(self, make: Callable[..., Any]) -> Callable[..., Any]:
        """`make`, whose calls count as time for data."""

        def made(*args: Any) -> Any:
            self._begin()
            began = time.perf_counter()
            result = make(*args)
            self.data += time.perf_counter() - began
            return result

        return made

    def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
        self._begin()

    def on_step_end(self, args: Any, state: Any, control: TrainerControl, **kwargs: Any) -> None:
        stops = control.should_log, control.should_evaluate, control.should_save, control.should_training_stop
        if any(stops) and self._began is not None:
            synchronize()
            self.total += time.perf_counter() - self._began
            self._began = None

    def _begin(self) -> None:
        if self._began is None:
            synchronize()
            self._began = time.perf_counter()
