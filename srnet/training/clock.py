"""The time that a training spends on its steps and on waiting for data."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback


class Clock(TrainerCallback):  # type: ignore[misc]
    """Counts the seconds of the optimisation steps and those in which a batch was made; evaluations do not count."""

    def __init__(self) -> None:
        self.data = self.steps = 0.0
        self._began: float | None = None

    @property
    def data_percent(self) -> float | None:
        total = self.data + self.steps
        return round(100.0 * self.data / total, 3) if total else None

    def figures(self) -> dict[str, float]:
        return {} if self.data_percent is None else {"time/data_percent": self.data_percent}

    def timed(self, make: Callable[..., Any]) -> Callable[..., Any]:
        """`make`, whose calls count as time for data."""

        def made(*args: Any) -> Any:
            began = time.perf_counter()
            result = make(*args)
            self.data += time.perf_counter() - began
            return result

        return made

    def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
        self._began = time.perf_counter()

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        if self._began is not None:
            self.steps += time.perf_counter() - self._began
            self._began = None
