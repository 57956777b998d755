"""The report: one self-contained HTML page, for which nothing is fetched, and the same as plain Markdown."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from srnet import __version__
from srnet.core.errors import shortened
from srnet.core.files import write_bytes
from srnet.core.prose import html_of, markdown_of
from srnet.core.tables import Shown, Table, markdown_text
from srnet.experiment.identity import describe
from srnet.report import pictures as panels
from srnet.report import tables
from srnet.report.claims import Finding
from srnet.report.conclusion import conclude
from srnet.report.dots import draw_models
from srnet.report.glossary import GLOSSARY
from srnet.report.masks import MaskPictures
from srnet.report.pictures import Picture, draw_curves
from srnet.report.results import Results, csv_text
from srnet.tasks.splits import LEVELS

SPEED = "speed.png"


def section_id(recipe: str, task: str) -> str:
    return f"{recipe}-{task}"


@dataclass(frozen=True)
class Section:
    """One figure on one task."""

    results: Results
    masks: MaskPictures
    command: str
    """What makes it again."""

    @property
    def id(self) -> str:
        return section_id(self.results.recipe.name, self.results.recipe.task.name)

    @property
    def title(self) -> str:
        recipe = self.results.recipe
        title = f"{recipe.title}, {recipe.task.name}" if recipe.title else recipe.task.name
        return shortened(f"{recipe.name}: {title}")


@dataclass(frozen=True, repr=False)
class Page(Shown, says="first_lines", table="findings"):
    title: str
    command: str
    sections: list[Section]
    findings: list[Finding] = field(default_factory=list)
    speed: bytes | None = None
    """A picture of speed against score, as PNG."""
    beside: Table | None = None
    """What the chosen model is compared with, where it was chosen by a search."""
    lead: Sequence[str] = ()
    """Sentences that stand first, commands in backticks. Without them the page has some of its own."""

    @property
    def first_lines(self) -> Sequence[str]:
        return self.lead or conclude([section.results for section in self.sections], self.findings)


def render_page(page: Page) -> str:
    template, published = (files("srnet.report").joinpath(name) for name in ("page.html", "published.json"))
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    pictures: list[Picture] = []

    def place(picture: Picture) -> Markup:
        """A place for a picture, which is drawn there from the data at the end of the page."""
        width = picture.pop("min_width", 0)
        pictures.append(picture)
        style = f' style="min-width:{width}px"' if width else ""
        return Markup(f'<div class="scroll"><div class="plot" id="plot-{len(pictures) - 1}"{style}></div></div>')

    environment.filters["prose"] = html_of
    environment.filters["lines"] = lambda text: Markup("<br>").join(text.split("\n"))
    environment.filters["breakable"] = lambda text: Markup("_<wbr>").join(text.split("_"))
    environment.filters["base64"] = lambda data: base64.b64encode(data).decode()
    return environment.from_string(template.read_text(encoding="utf-8")).render(
        page=page,
        panels=panels,
        tables=tables,
        glossary=GLOSSARY,
        place=place,
        published=json.loads(published.read_text(encoding="utf-8")),
        settings=lambda results: json.dumps(describe(results.recipe.profile), indent=2),
        pictures=pictures,
        plotly=Markup(get_plotlyjs()),
        version=__version__,
    )


def _render_markdown(page: Page) -> str:
    parts = [f"# {markdown_text(page.title)}", *map(markdown_of, page.first_lines)]
    parts.append(f"Made by {_code(page.command)} with srnet {__version__}.")
    if page.findings:
        header = ("task", "claim", "answer", "seeds", "difference in points [95 % interval]")
        rows = [[f.task, f.claim.sentence, f.answer, str(f.seeds or ""), "\n".join(f.details)] for f in page.findings]
        parts += ["## Claims", Table(header, rows).markdown(bold="answer")]
    for section in page.sections:
        parts += [f"## {markdown_text(section.title)}", *_section(section)]
    if page.beside:
        parts += [f"## {page.beside.title}", page.beside.markdown(), markdown_text(page.beside.note)]
    if page.speed:
        parts += ["## Speed", f"![Speed against score]({SPEED})"]
    return "\n\n".join(parts) + "\n"


def _code(text: str) -> str:
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence} {text} {fence}" if "`" in text else f"`{text}`"


def _section(section: Section) -> list[str]:
    """A section as Markdown. Of sub-cases: those with one level above them; the deepest level is in the csv."""
    results = section.results
    parts = [f"{_code(section.command)}, {results.units}.", tables.score_table(results).markdown()]
    texts = [tables.verdict_line(results), *(f"Warning: {warning}." for warning in results.warnings), *results.notes]
    parts += map(markdown_text, texts)
    groups = tables.worst_groups(results)
    parts += [f"{groups.title}.", groups.markdown(), markdown_text(groups.note)] if groups.rows else []
    for split, title in results.splits.items():
        cases = [case for case in results.summaries[0].groups[split] if case.count(LEVELS) == 1]
        if cases:
            rows = [[s.name, *(str(s.groups[split][case]) for case in cases)] for s in results.summaries]
            parts += [f"{title}: {results.group_metric} by sub-case.", Table(["model", *cases], rows).markdown()]
    return parts


# --- files ----------------------------------------------------------------------------------------------------------


def report_files(*sections: str) -> list[str]:
    """What `write_report` writes for sections with these ids."""
    figures = [f"{section}.{format}" for section in sections for format in ("png", "pdf")]
    models = [_models_file(section) for section in sections]
    return ["report.html", "report.md", "results.csv", SPEED, *figures, *models]


def _models_file(section: str) -> str:
    """The picture of all models of a figure side by side."""
    return f"{section}-models.png"


def write_report(page: Page, out: Path) -> None:
    """Into `out`: report.html, report.md, results.csv, speed.png if it was measured; each figure's curves as PNG and
    PDF, and its models side by side."""
    texts = {
        "results.csv": csv_text([section.results for section in page.sections]),
        "report.md": _render_markdown(page),
        "report.html": render_page(page),
    }
    for name, text in texts.items():  # a lone surrogate, as in the name of a file that is not UTF-8, becomes a "?"
        write_bytes(out / name, text.encode(errors="replace"))
    if page.speed:
        write_bytes(out / SPEED, page.speed)
    for section in page.sections:
        for format, data in draw_curves(section.results).items():
            write_bytes(out / f"{section.id}.{format}", data)
        write_bytes(out / _models_file(section.id), draw_models(section.results))
