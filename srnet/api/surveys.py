"""The shortcuts of a task, before any model is trained."""

from __future__ import annotations

from pathlib import Path

from srnet.bias.survey import Survey, survey
from srnet.bias.survey_page import check_writable, write_survey
from srnet.experiment.nodes.base import TaskSpec
from srnet.tasks.base import Task


def shortcuts(task: TaskSpec | Task, *, out: Path | str | None = None) -> Survey:
    """Measure which cheap features predict the label of `task`: word overlap, single words, length, metadata.

    Dev decides which of them is a shortcut; OOD sets are only scored. With `out`, the folder gets `shortcuts.html` and
    `shortcuts.json`.
    """
    if out is not None:
        check_writable(Path(out))
    found = survey(task)
    if out is not None:
        write_survey(found, Path(out))
    return found
