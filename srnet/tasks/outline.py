"""Published data by their sizes alone: for the plan of a reproduction that is made where the data are not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from srnet.tasks.base import Metric, Task
from srnet.tasks.published import PUBLISHED_TASKS
from srnet.tasks.shortcut import Shortcut
from srnet.tasks.splits import Split, SplitKind

SIZES: dict[str, dict[str, int]] = {
    "mnli": {"train": 392_702, "dev": 9_815, "mismatched": 9_832, "hans": 30_000, "ood_train": 30_000},
    "qqp": {"train": 363_846, "dev": 40_430, "paws_qqp": 677, "paws_wiki": 8_000, "ood_train": 11_988},
    "fever": {"train": 242_911, "dev": 16_664, "symm1": 717, "symm2": 712, "ood_train": 708},
}
"""Rows of the splits of the paper's tasks: GLUE's, HANS, PAWS (OOD training on PAWS-QQP), and the files of FEVER's
authors."""


@dataclass(frozen=True)
class Outline:
    """A published task whose rows have no content. Nothing can be trained on it, and its keys are not those of data."""

    name: str

    @property
    def _settings(self) -> dict[str, Any]:
        return dict(PUBLISHED_TASKS[self.name].settings)

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self._settings["labels"])

    @property
    def metric(self) -> Metric:
        return str(self._settings.get("metric", "accuracy"))

    @property
    def shortcut(self) -> Shortcut:
        return str(self._settings.get("shortcut", "overlap"))

    def load(self) -> Task:
        sizes, known = SIZES[self.name], PUBLISHED_TASKS[self.name]
        return Task(
            name=self.name,
            labels=self.labels,
            metric=self.metric,
            shortcut=self.shortcut,
            train=self._split("train", "ID", sizes["train"]),
            dev=self._split("dev", "ID", sizes["dev"]),
            ood={name: self._split(name, "OOD", sizes[name]) for name in known.ood},
            ood_train=self._split("ood_train", "OOD", sizes["ood_train"]),
            ood_copies=self._settings.get("ood_copies", 1),
            id_tests={name: self._split(name, "ID", sizes[name]) for name in known.id_tests},
        )

    def _split(self, name: str, kind: SplitKind, size: int) -> Split:
        ids, empty = tuple(map(str, range(size))), ("",) * size
        return Split(name, kind, ids, empty, ("-",) * size, np.arange(size) % len(self.labels), empty)
