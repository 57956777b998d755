"""One self-contained HTML page per run: nothing is fetched to view it."""

from __future__ import annotations

import base64
import json
from importlib.resources import files

from jinja2 import Environment

from srnet import __version__
from srnet.experiment.identity import describe
from srnet.report.results import Results
from srnet.report.table import answer, verdict_line


def shade(percent: float) -> str:
    """From orange (0) over white (50) to green (100)."""
    strength = min(abs(percent - 50.0) / 50.0, 1.0)
    red, green, blue = (72, 180, 130) if percent >= 50 else (240, 150, 80)
    mix = [round(255 + (channel - 255) * strength * 0.8) for channel in (red, green, blue)]
    return f"rgb({mix[0]},{mix[1]},{mix[2]})"


def render_page(results: Results, picture: bytes) -> str:
    template = Environment(autoescape=True).from_string(files("srnet.report").joinpath("page.html").read_text())
    return template.render(
        results=results,
        splits=(results.id_split, *results.ood_splits),
        picture=base64.b64encode(picture).decode(),
        verdict=verdict_line(results),
        found=any(s.verdict is not None and s.verdict.is_srnet for s in results.summaries),
        answer=answer,
        shade=shade,
        settings=json.dumps(describe(results.recipe), indent=2),
        version=__version__,
    )
