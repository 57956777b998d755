"""Both models on all rows of the scored splits, in the background: the rows on which they disagree."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from concurrent.futures import CancelledError
from threading import Thread
from typing import Any

import numpy as np

from srnet.audit import Judged, Matched, collect_logits, disagreements, judge_split
from srnet.errors import UserError
from srnet.page.worker import Background, ModelThread
from srnet.tasks.base import Task
from srnet.tasks.splits import Split


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
