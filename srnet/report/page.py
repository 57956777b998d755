"""One self-contained HTML page per run: nothing is fetched to view it."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from jinja2 import Environment
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from srnet import __version__
from srnet.experiment.identity import describe
from srnet.report import interactive
from srnet.report.claims import Finding
from srnet.report.masks import MaskPictures
from srnet.report.published import published_table, statements
from srnet.report.results import Results
from srnet.report.table import comparison, has_srnet, verdict_line


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


def render_page(page: Page) -> str:
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
        files("srnet.report").joinpath("page.html").read_text()
    )
    pictures: list[interactive.Picture] = []

    def place(picture: interactive.Picture) -> Markup:
        """A place for a picture; its data goes to the end of the page."""
        pictures.append({"data": picture["data"], "layout": picture["layout"]})
        width = picture.get("min_width", 0)
        style = f' style="min-width:{width}px"' if width else ""
        return Markup(f'<div class="scroll"><div class="plot" id="plot-{len(pictures) - 1}"{style}></div></div>')

    body = template.render(
        page=page,
        place=place,
        interactive=interactive,
        verdict_line=verdict_line,
        has_srnet=has_srnet,
        comparison=comparison,
        published=published_table,
        said=statements(),
        base64=lambda data: base64.b64encode(data).decode(),
        settings=lambda results: json.dumps(describe(results.recipe.profile), indent=2),
        version=__version__,
    )
    return body.replace("<!-- pictures -->", _scripts(pictures))


def _scripts(pictures: list[interactive.Picture]) -> str:
    data: Any = json.dumps(pictures).replace(
        "<", "\\u003c"
    )  # nothing in the data may end the script, or begin a comment
    # a picture is drawn when it comes into view: a page with hundreds of them opens at once
    return f"""<script>{get_plotlyjs()}</script>
<script>
const pictures = {data};
const draw = (place) => {{
  const picture = pictures[Number(place.id.slice(5))];
  Plotly.newPlot(place, picture.data, picture.layout, {{
    responsive: true, displaylogo: false, modeBarButtons: [["toImage", "resetScale2d"]]}});
}};
const watcher = new IntersectionObserver((entries) => entries.forEach((entry) => {{
  if (entry.isIntersecting) {{ watcher.unobserve(entry.target); draw(entry.target); }}
}}), {{rootMargin: "600px"}});
document.querySelectorAll(".plot").forEach((place) => watcher.observe(place));
</script>"""
