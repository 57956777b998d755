"""Progress of long runs: live bars on a terminal and in a notebook that has ipywidgets, plain lines elsewhere."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.highlighter import JSONHighlighter
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.text import Text

from srnet.core.errors import printable

Watch = Callable[[int, int, dict[str, float]], None]
"""Called with (step, total, latest figures) during a run."""
PLAIN_SECONDS = 10.0
"""Seconds between two lines of progress of a step, without a terminal."""
NOTEBOOK_SECONDS = 0.5
"""Seconds between two pictures of a bar in a notebook. A thread that drew it would swallow printed lines."""

SHOWN = (("loss", "loss", ".3f"), ("eval_score", "dev", ".1f"), ("mask/flips_per_step", "flips/step", ".0f"))
"""The figures of a training that are shown: logged name, short name, format."""


def is_secondary_rank() -> bool:
    """Whether this process was started together with others and is not the first: then it says nothing."""
    rank = os.environ.get("RANK", "0")
    return world_size() > 1 and rank.isdecimal() and int(rank) > 0


def world_size() -> int:
    """How many processes the launcher started together; 1 without a launcher."""
    value = os.environ.get("WORLD_SIZE", "1")
    return int(value) if value.isdecimal() and len(value) < 10 else 1


class Step:
    """One running step; several may run at once."""

    def __init__(self, reporter: Reporter, title: str) -> None:
        self._reporter, self.title = reporter, title
        self._started = self._reported = time.monotonic()
        self._bar: TaskID | None = None
        if reporter.progress is not None:
            self._bar = reporter.progress.add_task(title, total=1, figures="")

    def advance(self, done: int, total: int, figures: dict[str, float]) -> None:
        """Show the progress; cheap enough to be called at every training step."""
        shown = " ".join(f"{short} {figures[name]:{spec}}" for name, short, spec in SHOWN if name in figures)
        now = time.monotonic()
        if self._reporter.progress is not None and self._bar is not None:
            by_hand = self._reporter.console.is_jupyter and now - self._reported > NOTEBOOK_SECONDS
            self._reported = now if by_hand else self._reported
            self._reporter.progress.update(self._bar, completed=done, total=total, figures=shown, refresh=by_hand)
        elif not self._reporter.quiet and now - self._reported > PLAIN_SECONDS:
            self._reported = now
            self._reporter.say(f"{self.title}  {done}/{total} {shown}")
            sys.stderr.flush()

    def finish(self) -> None:
        self._reporter.say(f"{self.title}  {time.monotonic() - self._started:.0f} s")
        self.drop()

    def drop(self) -> None:
        """Remove the bar and print nothing."""
        if self._reporter.progress is not None and self._bar is not None:
            self._reporter.progress.remove_task(self._bar)
        self._bar = None


class Reporter:
    """Shows which steps run, their progress, and what was skipped; with `quiet` only warnings."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Terminal(stderr=True, soft_wrap=True)
        self.quiet = quiet or is_secondary_rank()
        has_bars = find_spec("ipywidgets") is not None if self.console.is_jupyter else self.console.is_terminal
        self.live = has_bars and not self.quiet
        self.progress: Progress | None = None

    @contextmanager
    def session(self) -> Iterator[None]:
        """Show progress bars while the block runs."""
        if not self.live:
            yield
            return
        counts = TextColumn("{task.completed:g}/{task.total:g} {task.fields[figures]}")
        title = TextColumn("{task.description}", markup=False)
        columns = (title, BarColumn(), counts, TimeElapsedColumn(), TimeRemainingColumn())
        by_hand = self.console.is_jupyter
        with Progress(*columns, console=self.console, transient=True, auto_refresh=not by_hand) as self.progress:
            yield
        self.progress = None

    def begin(self, number: int, total: int, title: str) -> Step:
        return Step(self, f"[{number}/{total}] {title}")

    def say(self, text: str) -> None:
        if not self.quiet:
            self.console.print(text)

    def warn(self, text: str) -> None:
        self.console.print(f"warning: {text}")


# --- the console that everything for the user is printed on: names and texts of others cannot control the terminal ---

NARROWEST = 20
"""Characters of a line. A table in fewer columns shows nothing."""
USUAL = 80


class Terminal(Console):
    """A console that replaces control characters, and takes no text for markup."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)
        if self.width < NARROWEST:  # COLUMNS=0 says that the width is unknown
            self.width = USUAL

    def render_str(self, text: str, **options: Any) -> Text:  # type: ignore[override]
        """Before it is measured, so that the columns of tables stay aligned."""
        return super().render_str(_cleaned(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Whatever is printed comes through here. Codes of rich itself, such as colours, are no text."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(_cleaned(segment.text), segment.style)

    def print_json(self, *, data: Any, default: Callable[[Any], Any] | None = None) -> None:  # type: ignore[override]
        """As JSON that stays exact: control characters are escaped."""
        text = json.dumps(data, indent=2, ensure_ascii=False, default=default)
        self.print(JSONHighlighter()(re.sub(r"[^\n -~]", _escaped, text)), soft_wrap=True)


def _cleaned(text: str) -> str:
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


def _escaped(found: re.Match[str]) -> str:
    return found[0] if printable(found[0]) == found[0] else json.dumps(found[0])[1:-1]
