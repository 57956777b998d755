"""The shortcuts of a task, before any model is trained."""

from __future__ import annotations

from pathlib import Path

from srnet import __version__
from srnet.bias.survey import Survey, survey
from srnet.bias.survey_tables import tables_of
from srnet.core.files import require_writable, write_bytes, write_json
from srnet.core.tables import page_of_tables
from srnet.experiment.nodes.base import TaskSpec
from srnet.tasks.base import Task

_PAGE, _JSON = "shortcuts.html", "shortcuts.json"


def shortcuts(task: TaskSpec | Task, *, out: Path | str | None = None) -> Survey:
    """Measure which cheap features predict the label of `task`: word overlap, single words, length, metadata.

    Dev decides which of them is a shortcut; OOD sets are only scored. With `out`, the folder gets `shortcuts.html` and
    `shortcuts.json`.
    """
    if out is not None:
        require_writable(Path(out), _PAGE, _JSON)
    found = survey(task)
    if out is not None:
        write_json(Path(out) / _JSON, found.to_json())
        write_bytes(Path(out) / _PAGE, _page(found))
    return found


def _page(survey: Survey) -> bytes:
    about = f"{survey.dev} decides; OOD sets are only scored. No model was trained. srnet {__version__}."
    rest = {"rows": survey.rows, "notes": survey.notes, "details": "What carries the other kinds", "survey": survey}
    return page_of_tables(f"Shortcuts of {survey.task}", [survey.sentence], tables_of(survey), about=about, **rest)
