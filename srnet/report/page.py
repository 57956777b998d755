"""One self-contained HTML page per run: nothing is fetched to view it."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from importlib.resources import files

from jinja2 import Environment
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from srnet import __version__
from srnet.experiment.identity import describe
from srnet.report import panels
from srnet.report.claims import Finding
from srnet.report.masks import MaskPictures
from srnet.report.pictures import Picture
from srnet.report.results import Results
from srnet.report.tables import Table, score_table, verdict_line

FOLDER = files("srnet.report")
PUBLISHED = json.loads(FOLDER.joinpath("published.json").read_text(encoding="utf-8"))
"""The papers' statements and numbers: of BERT-sized models on real data; those of SMP with distillation."""


@dataclass(frozen=True)
class Section:
    """One figure on one task."""

    results: Results
    masks: MaskPictures
    command: str
    """What makes it again."""

    @property
    def id(self) -> str:
        return f"{self.results.recipe.name}-{self.results.recipe.task.name}"

    @property
    def title(self) -> str:
        recipe = self.results.recipe
        return f"{recipe.name}: {recipe.title or recipe.task.name}" + (f", {recipe.task.name}" if recipe.title else "")


@dataclass(frozen=True)
class Page:
    title: str
    command: str
    sections: list[Section]
    findings: list[Finding] = field(default_factory=list)


def published_table(figure: str, task: str) -> Table | None:
    """The papers' numbers for a figure on a task like this one, if they print any."""
    like = PUBLISHED["like"].get(task, task)
    for table in PUBLISHED["tables"]:
        if (table["figure"], table["task"]) == (figure, like):
            return Table(["model", *table["columns"]], [[label, *cells] for label, cells in table["rows"].items()])
    return None


def render_page(page: Page) -> str:
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    pictures: list[Picture] = []

    def place(picture: Picture) -> Markup:
        """A place for a picture, which is drawn there from the data at the end of the page."""
        width = picture.pop("min_width", 0)
        pictures.append(picture)
        style = f' style="min-width:{width}px"' if width else ""
        return Markup(f'<div class="scroll"><div class="plot" id="plot-{len(pictures) - 1}"{style}></div></div>')

    environment.filters["lines"] = lambda text: Markup("<br>").join(text.split("\n"))
    environment.filters["base64"] = lambda data: base64.b64encode(data).decode()
    return environment.from_string(FOLDER.joinpath("page.html").read_text(encoding="utf-8")).render(
        page=page,
        panels=panels,
        place=place,
        verdict_line=verdict_line,
        score_table=score_table,
        published_table=published_table,
        statements=PUBLISHED["statements"],
        settings=lambda results: json.dumps(describe(results.recipe.profile), indent=2),
        # nothing in the data may end the script, or begin a comment
        pictures=lambda: Markup(json.dumps(pictures).replace("<", "\\u003c")),
        plotly=Markup(get_plotlyjs()),
        version=__version__,
    )
