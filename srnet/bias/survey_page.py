"""The files of a survey: `shortcuts.html`, one page that needs no network, and `shortcuts.json`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment

from srnet import __version__
from srnet.bias.survey import Survey
from srnet.bias.survey_tables import tables_of
from srnet.core.errors import shortened
from srnet.core.files import require_writable, write_bytes, write_json
from srnet.core.tables import Table

PAGE, JSON = "shortcuts.html", "shortcuts.json"
_LONGEST = 1000
"""Characters of a text on the page."""


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
    about = f"{survey.dev} decides; OOD sets are only scored. No model was trained."
    rest = {"rows": survey.rows, "notes": survey.notes, "details": "What carries the other kinds", "survey": survey}
    return page_of_tables(f"Shortcuts of {survey.task}", [survey.sentence], tables_of(survey), about=about, **rest)


def page_of_tables(title: str, lead: Sequence[str], tables: Sequence[Table], **rest: Any) -> bytes:
    """A page with sentences first, then tables, those of details folded; `rest` is what else the template shows."""
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["shortened"] = lambda text: shortened(text, _LONGEST)
    template = environment.from_string(files("srnet.bias").joinpath("survey.html").read_text(encoding="utf-8"))
    shown = {"title": title, "lead": lead, "tables": tables, "version": __version__, **rest}
    return template.render(shown).encode(errors="replace")
