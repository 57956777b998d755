"""Progress of long runs: live bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
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


def helps() -> bool:
    """Whether this process was started together with others and is not the first: then it says nothing."""
    rank = os.environ.get("RANK", "0")
    return processes() > 1 and rank.isdecimal() and int(rank) > 0


def processes() -> int:
    """How many processes were started together, if a launcher said so."""
    said = os.environ.get("WORLD_SIZE", "1")
    return int(said) if said.isdecimal() and len(said) < 10 else 1


class Step:
    """One step under way; several may be at once."""

    def __init__(self, reporter: Reporter, title: str) -> None:
        self._reporter, self.title = reporter, title
        self._started = self._said = time.monotonic()
        self._bar: TaskID | None = None
        if reporter.progress is not None:
            self._bar = reporter.progress.add_task(title.replace("[", r"\["), total=1, figures="")

    def advance(self, done: int, total: int, figures: dict[str, float]) -> None:
        """Called as often as one likes."""
        shown = " ".join(f"{short} {figures[name]:{spec}}" for name, short, spec in SHOWN if name in figures)
        if self._reporter.progress is not None and self._bar is not None:
            self._reporter.progress.update(self._bar, completed=done, total=total, figures=shown)
        elif not self._reporter.quiet and time.monotonic() - self._said > PLAIN_SECONDS:
            self._said = time.monotonic()
            self._reporter.say(f"{self.title}  {done}/{total} {shown}")
            sys.stderr.flush()

    def finish(self) -> None:
        self._reporter.say(f"{self.title}  {time.monotonic() - self._started:.0f} s")
        self.drop()

    def drop(self) -> None:
        """Take the bar away without a word."""
        if self._reporter.progress is not None and self._bar is not None:
            self._reporter.progress.remove_task(self._bar)
        self._bar = None


class Reporter:
    """Says which steps run, how far they are, and what was skipped. `quiet` says nothing but warnings."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self.quiet = quiet or helps()
        self.live = self.console.is_terminal and not self.quiet
        self.progress: Progress | None = None

    @contextmanager
    def session(self) -> Iterator[None]:
        """While this lasts, bars may be drawn."""
        if not self.live:
            yield
            return
        counts = TextColumn("{task.completed:g}/{task.total:g} {task.fields[figures]}")
        columns = (TextColumn("{task.description}"), BarColumn(), counts, TimeElapsedColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self.console, transient=True) as self.progress:
            yield
        self.progress = None

    def begin(self, number: int, total: int, title: str) -> Step:
        return Step(self, f"[{number}/{total}] {title}")

    def say(self, text: str) -> None:
        if not self.quiet:
            self.console.print(text, markup=False)

    def warn(self, text: str) -> None:
        self.console.print(f"warning: {text}", markup=False)
