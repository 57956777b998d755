"""Both models on all rows of the scored splits, in the background, on the one thread on which models run."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from threading import Thread
from typing import Any

import numpy as np

from srnet.audit.rows import collect_logits, disagreements, judge_split
from srnet.core.errors import UserError
from srnet.tasks.base import Task
from srnet.tasks.splits import Split

_CHARACTERS = 800
"""Characters that a model reads at a time in the background, padding included. A typed pair waits for no more."""


def _small_parts(lengths: np.ndarray, most: int = _CHARACTERS) -> Iterator[list[int]]:
    """Every row once, those of about equal length together; a part has at most `most` characters, or one row."""
    part: list[int] = []
    for row in np.argsort(lengths, kind="stable").tolist():
        if part and lengths[row] * (len(part) + 1) > most:  # shorter texts are padded to the longest
            yield part
            part = []
        part.append(row)
    if part:
        yield part


class ComparedRows:
    """The rows of a task to step through: all of them, or those on which the models disagree.

    Disagreements of a split are there as soon as both models have read it. OOD sets come first: there a shortcut fails.
    Positions stay the same while further splits are read.
    """

    def __init__(self, task: Task, models: Sequence[Any]) -> None:
        self.executor = ThreadPoolExecutor(1, thread_name_prefix="models")
        """The one thread that runs models: they are not made for several, and each would keep memory of its own."""
        self._stopped = False
        self._task = task
        self._splits = self._compared(task)
        self._models = models
        self._done = 0
        self._total = len(models) * sum(map(len, self._splits))
        self._failed = ""
        """Why the comparison ended before all rows were read."""
        self._disagreements: dict[str, list[int]] = {}
        """The rows that differ, worst first, by split."""

    def start(self) -> None:
        Thread(target=self.run, name="comparison", daemon=True).start()

    def stop(self) -> None:
        """Cancel waiting calls of the models. Further calls are errors."""
        self._stopped = True
        self.executor.shutdown(wait=False, cancel_futures=True)

    def run(self) -> None:
        """Compare the models on all rows. An error becomes part of the state: it would be lost in a thread."""
        try:
            for split in self._splits:
                outputs = [self._read(model, split) for model in self._models]
                self._disagreements[split.name] = self._differing(split, outputs)
        except UserError as error:
            self._failed = str(error)
        except Exception as error:
            if self._stopped or isinstance(error, CancelledError):
                return
            traceback.print_exc(file=sys.stderr)
            self._failed = "an internal error; the terminal shows it"

    def _read(self, model: Any, split: Split) -> np.ndarray:
        """The outputs for all rows. The model reads a few at a time, so that typed pairs come in between."""
        found: dict[int, np.ndarray] = {}
        lengths = np.array([len(a) + len(b) for a, b in zip(split.text_a, split.text_b, strict=True)], dtype=np.int64)
        for rows in _small_parts(lengths):
            outputs = self.executor.submit(self._outputs, model, split.take(np.array(rows))).result()
            found.update(zip(rows, outputs, strict=True))
            self._done += len(rows)
        return np.array([found[row] for row in range(len(split))])

    # --- what a page of other models has of its own ----------------------------------------------------------------

    def _compared(self, task: Task) -> list[Split]:
        """The splits to step through."""
        return [*task.ood.values(), task.dev, *task.id_tests.values()]

    def _outputs(self, model: Any, split: Split) -> np.ndarray:
        """What a model gives for each row of a split."""
        return collect_logits(model, split.text_a, split.text_b)

    def _differing(self, split: Split, outputs: Sequence[np.ndarray]) -> list[int]:
        """The rows on which the models disagree, worst first."""
        return [each.row for each in disagreements([judge_split(self._task, split, outputs)])]

    def _label(self, split: Split, row: int) -> str:
        return self._task.classes_of(split)[int(split.labels[row])]

    # --- answers ---------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return {
            "done": self._done,
            "total": self._total,
            "failed": self._failed,
            "splits": [
                {
                    "name": each.name,
                    "kind": each.kind,
                    "rows": len(each),
                    "disagreements": len(self._disagreements[each.name]) if each.name in self._disagreements else None,
                }
                for each in self._splits
            ],
        }

    def row(self, position: int, split: str | None = None, all_rows: bool = False) -> dict[str, Any] | None:
        """The row at a position among the disagreements, or among all rows; None if there are not so many."""
        parts = [
            (each, range(len(each)) if all_rows else self._disagreements.get(each.name, []))
            for each in self._splits
            if split in (None, each.name)
        ]
        total, before = sum(len(rows) for _, rows in parts), 0
        for each, rows in parts:
            if position < before + len(rows):
                return {"position": position, "total": total, **self._plain(each, rows[position - before])}
            before += len(rows)
        return None

    def _plain(self, split: Split, row: int) -> dict[str, Any]:
        return {
            "split": split.name,
            "kind": split.kind,
            "id": split.ids[row],
            "group": split.groups[row],
            "text_a": split.text_a[row],
            "text_b": split.text_b[row],
            "label": self._label(split, row),
        }
