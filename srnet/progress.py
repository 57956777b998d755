"""What a person sees while hours pass: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

PLAIN_SECONDS = 10.0
"""Without a terminal, how often a running step says where it is."""

SHOWN = (("loss", "loss", ".3f"), ("eval_score", "dev", ".1f"), ("mask/flips_per_step", "flips/step", ".0f"))
"""The figures of a training worth a glance: logged name, short name, format."""


class Reporter:
    """Says which step runs, how far it is, and what was skipped. `quiet` says nothing but warnings."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self.quiet = quiet
        self.live = self.console.is_terminal and not quiet
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._title, self._started, self._said = "", 0.0, 0.0

    @contextmanager
    def session(self) -> Iterator[None]:
        """While this lasts, bars may be drawn."""
        if not self.live:
            yield
            return
        counts = TextColumn("{task.completed:g}/{task.total:g} {task.fields[figures]}")
        columns = (TextColumn("{task.description}"), BarColumn(), counts, TimeElapsedColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self.console, transient=True) as self._progress:
            yield
        self._progress = None

    def say(self, text: str) -> None:
        if not self.quiet:
            self.console.print(text, markup=False)

    def warn(self, text: str) -> None:
        self.console.print(f"warning: {text}", markup=False)

    @contextmanager
    def step(self, number: int, total: int, title: str) -> Iterator[None]:
        self._title = f"[{number}/{total}] {title}"
        self._started = self._said = time.monotonic()
        if self._progress is not None:
            self._task = self._progress.add_task(self._title.replace("[", r"\["), total=1, figures="")
        try:
            yield
            self.say(f"{self._title}  {time.monotonic() - self._started:.0f} s")
        finally:
            if self._progress is not None and self._task is not None:
                self._progress.remove_task(self._task)
            self._task = None

    def advance(self, done: int, total: int, figures: dict[str, float]) -> None:
        """Called as often as one likes."""
        shown = " ".join(f"{short} {figures[name]:{spec}}" for name, short, spec in SHOWN if name in figures)
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, total=total, figures=shown)
        elif not self.quiet and time.monotonic() - self._said > PLAIN_SECONDS:
            self._said = time.monotonic()
            self.say(f"{self._title}  {done}/{total} {shown}")
            sys.stderr.flush()
