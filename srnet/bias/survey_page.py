"""The files of a survey: `shortcuts.html`, one page that needs no network, and `shortcuts.json`."""

from __future__ import annotations

from pathlib import Path

from srnet import __version__
from srnet.bias.survey import Survey
from srnet.bias.survey_tables import tables_of
from srnet.core.files import require_writable, write_bytes, write_json
from srnet.core.tables import page_of_tables

PAGE, JSON = "shortcuts.html", "shortcuts.json"


def check_writable(out: Path) -> None:
    """Refuse a folder that cannot be written, before anything is computed for it."""
    require_writable(out, PAGE, JSON)


def write_survey(survey: Survey, out: Path) -> Path:
    """Write the page and the JSON to a folder; returns the page."""
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / JSON, survey.to_json())
    write_bytes(out / PAGE, _page(survey))
    return out / PAGE


def _page(survey: Survey) -> bytes:
    about = f"{survey.dev} decides; OOD sets are only scored. No model was trained. srnet {__version__}."
    rest = {"rows": survey.rows, "notes": survey.notes, "details": "What carries the other kinds", "survey": survey}
    return page_of_tables(f"Shortcuts of {survey.task}", [survey.sentence], tables_of(survey), about=about, **rest)
