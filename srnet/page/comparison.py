"""The one thread on which all models run."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Thread
from typing import Any, ParamSpec, TypeVar

import numpy as np

from srnet.audit.rows import Judged, collect_logits, disagreements, judge_split
from srnet.core.errors import UserError
from srnet.models.model import Classifier, Matched
from srnet.tasks.base import Task
from srnet.tasks.splits import Split

P = ParamSpec("P")
T = TypeVar("T")

CHARACTERS = 800
"""Characters that a model reads at a time in the background, padding included. A typed pair waits for no more."""


class ModelThread:
    """Calls one after another, in the order in which they came.

    Models are not made for several threads at once, and each further thread would keep memory of its own.
    """

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="models")
        self.stopped = False

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._executor.submit(function, *args, **kwargs).result()

    async def call_async(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.wrap_future(self._executor.submit(function, *args, **kwargs))

    def stop(self) -> None:
        """Cancel what waits. Further calls are errors."""
        self.stopped = True
        self._executor.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True)
class Background:
    """A classifier that reads a few rows at a time on the model thread, so that other calls come in between."""

    classifier: Classifier
    thread: ModelThread
    advance: Callable[[int], None] = lambda rows: None
    """Called with the number of rows that were read."""

    @property
    def name(self) -> str:
        return self.classifier.name

    @property
    def labels(self) -> tuple[str, ...]:
        return self.classifier.labels

    def logits(self, text_a: Sequence[str], text_b: Sequence[str]) -> np.ndarray:
        result = np.empty((len(text_a), len(self.labels)), dtype=np.float32)
        lengths = np.array([len(a) + len(b) for a, b in zip(text_a, text_b, strict=True)], dtype=np.int64)
        for rows in small_parts(lengths):
            some = [text_a[row] for row in rows], [text_b[row] for row in rows]
            result[rows] = self.thread.call(self.classifier.logits, *some)
            self.advance(len(rows))
        return result


def small_parts(lengths: np.ndarray, most: int = CHARACTERS) -> Iterator[list[int]]:
    """Every row once, those of about equal length together; a part has at most `most` characters, or one row."""
    part: list[int] = []
    for row in np.argsort(lengths, kind="stable").tolist():
        if part and lengths[row] * (len(part) + 1) > most:  # shorter texts are padded to the longest
            yield part
            part = []
        part.append(row)
    if part:
        yield part


# --- both models on all rows of the scored splits, in the background: the rows on which they disagree ---


class Comparison:
    """Rows to step through. Disagreements of a split are there as soon as both models have read it.

    OOD sets come first: there a shortcut fails. Positions stay the same while further splits are read.
    """

    def __init__(self, task: Task, models: Sequence[Matched], thread: ModelThread) -> None:
        self.task = task
        self.splits = [*task.ood.values(), task.dev, *task.id_tests.values()]
        self.done, self.total = 0, len(models) * sum(map(len, self.splits))
        self.failed = ""
        """Why the comparison ended before all rows were read."""
        self._thread = thread
        self._models = [Background(model, thread, self._advance) for model in models]
        self._found: dict[str, tuple[Judged, np.ndarray]] = {}
        """By split, the answers and the rows that differ, worst first."""

    def start(self) -> None:
        Thread(target=self._run_and_report, name="comparison", daemon=True).start()

    def _run_and_report(self) -> None:
        try:
            self.run()
        except UserError as error:
            self.failed = str(error)
        except Exception as error:
            if self._thread.stopped or isinstance(error, CancelledError):
                return
            traceback.print_exc(file=sys.stderr)
            self.failed = "an internal error; the terminal shows it"

    def run(self) -> None:
        for split in self.splits:
            logits = [collect_logits(model, split.text_a, split.text_b) for model in self._models]
            judged = judge_split(self.task, split, logits)
            rows = np.array([each.row for each in disagreements([judged])], dtype=np.int64)
            self._found[split.name] = judged, rows

    def _advance(self, rows: int) -> None:
        self.done += rows

    def state(self) -> dict[str, Any]:
        return {
            "done": self.done,
            "total": self.total,
            "failed": self.failed,
            "splits": [
                {
                    "name": each.name,
                    "kind": each.kind,
                    "rows": len(each),
                    "disagreements": len(self._found[each.name][1]) if each.name in self._found else None,
                }
                for each in self.splits
            ],
        }

    def row(self, position: int, split: str | None = None, all_rows: bool = False) -> dict[str, Any] | None:
        """The row at a position among the disagreements, or among all rows; None if there are not so many."""
        parts = [(each, self._rows(each, all_rows)) for each in self.splits if split in (None, each.name)]
        total, before = sum(len(rows) for _, rows in parts), 0
        for each, rows in parts:
            if position < before + len(rows):
                return {"position": position, "total": total, **self._plain(each, int(rows[position - before]))}
            before += len(rows)
        return None

    def _rows(self, split: Split, all_rows: bool) -> np.ndarray | range:
        if all_rows:
            return range(len(split))
        return self._found[split.name][1] if split.name in self._found else range(0)

    def _plain(self, split: Split, row: int) -> dict[str, Any]:
        return {
            "split": split.name,
            "kind": split.kind,
            "id": split.ids[row],
            "group": split.groups[row],
            "text_a": split.text_a[row],
            "text_b": split.text_b[row],
            "label": self.task.classes_of(split)[int(split.labels[row])],
        }
