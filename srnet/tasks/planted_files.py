"""Files of a task with a planted shortcut, for use outside of srnet as well."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srnet.config.yaml_files import yaml_text
from srnet.core.tables import Shown
from srnet.tasks.base import TaskSpec
from srnet.tasks.describe import write_task_files
from srnet.tasks.planted import ANTI, NEUTRAL, CueAs, PlantedTask, planted_copy
from srnet.tasks.planted_theory import Expected, expected

TASK_FILE = "task.yaml"
_ASSUMED = (70.0, 75.0, 80.0, 85.0, 90.0, 95.0)
"""Accuracies of a debiased model for which theory is shown."""


@dataclass(frozen=True, repr=False)
class Planted(Shown, says="sentence"):
    """Files with a planted shortcut, and what ideal classifiers score on them."""

    task: PlantedTask
    paths: list[Path]
    """The files of the splits, and last the YAML file of the task."""
    theory: list[Expected]
    """By the accuracy that a debiased classifier would have."""

    @property
    def sentence(self) -> str:
        return f"{self.task.name}: {len(self.paths) - 1} files, described by {self.paths[-1]}"

    def _rows(self) -> list[Any]:
        return [{**each._asdict(), "kept": each.kept, "gain": each.gain} for each in self.theory]


def plant(task: TaskSpec, folder: Path | str, strength: float | None = None, cue: CueAs = "text") -> Planted:
    """Write a copy of `task`, which has classes, with a planted shortcut to `folder`, with a description, task.yaml.

    In train and dev the cue points at the label with probability `strength`, in the OOD set `anti` never, in `neutral`
    by chance; by default it is 0.7 for two labels, and for more the strength with the same odds. `cue` is `text`, an
    opening word, or `column`, the column `cue` alone, which no model reads.
    """
    planted = planted_copy(task, strength, cue)
    data = planted.load()
    classes = len(data.labels)
    described = {
        "name": planted.name,
        "train": "train.csv",
        "dev": f"{data.dev.name}.csv",
        "ood": {ANTI: f"{ANTI}.csv"},
        "id_tests": {NEUTRAL: f"{NEUTRAL}.csv"},  # scored, outside the verdict
        "text_b": "text_b" if data.has_pairs else None,
        "labels": list(data.labels),
        "group": "group",
        "metric": data.metric,
        "shortcut": planted.shortcut,
        "leaks": "keep",  # as the copied task had decided
    }
    paths = write_task_files(data, Path(folder), {TASK_FILE: yaml_text(described)})
    theory = [expected(classes, each, planted.strength) for each in _ASSUMED if each > 100.0 / classes]
    return Planted(planted, paths, theory)
