"""Pictures as plain data for plotly.js, which `drawings` reads too. Their common style is in page.html."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

Picture = dict[str, Any]
Trace = dict[str, Any]
Axis = dict[str, Any]

# Okabe and Ito: distinguishable with any kind of colour vision
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


class Style(NamedTuple):
    """How a line is drawn. Dashes and symbols have the names of plotly.js; without a symbol points are not marked."""

    colour: str
    dash: str = "solid"
    symbol: str = ""
    width: float = 2.0


def literal(text: str) -> str:
    """Text that plotly.js shows unchanged: it parses some HTML tags and entities, but not `&quot;`."""
    return escape(text, quote=False).replace("\n", "<br>")


def panel(title: str, x_axis: Axis, y_axis: Axis, traces: list[Trace], height: int = 470) -> Picture:
    layout = {"title": {"text": literal(title)}, "xaxis": x_axis, "yaxis": y_axis, "height": height}
    return {"data": traces, "layout": layout}


def line(label: str, x: Sequence[float], y: Sequence[float], notes: Sequence[str], style: Style) -> Trace:
    """`notes` are shown when the mouse is over a point."""
    return {
        "type": "scatter", "x": list(x), "y": list(y), "name": literal(label), "legendgroup": label,
        "text": [*map(literal, notes)], "mode": "lines+markers" if style.symbol else "lines",
        "line": {"color": style.colour, "dash": style.dash, "width": style.width}, "marker": {"symbol": style.symbol},
    }  # fmt: skip


def band(line: Trace, sd: Sequence[float]) -> Trace:
    """One standard deviation around a line: its outline, from left to right above and back below."""
    x, above, below = line["x"], *([y + sign * each for y, each in zip(line["y"], sd, strict=True)] for sign in (1, -1))
    return {
        "type": "scatter", "x": [*x, *reversed(x)], "y": [*above, *reversed(below)], "fill": "toself", "mode": "lines",
        "fillcolor": f"{line['line']['color']}24", "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False,
        "legendgroup": line["legendgroup"],
    }  # fmt: skip


def heat_map(
    title: str, columns: Sequence[str], rows: Sequence[str], cells: Sequence[Sequence[float | None]], unit: str,
    digits: int = 1, colours: Sequence[str] = ("#ffffff", "#0072B2"),
) -> Picture:  # fmt: skip
    """Percentages, from 0 to 100; None leaves a cell empty. `unit` follows a number when the mouse is over it."""
    trace = {
        "type": "heatmap", "x": [*map(literal, columns)], "y": [*map(literal, rows)], "z": cells, "zmin": 0,
        "zmax": 100, "colorscale": [[at / (len(colours) - 1), colour] for at, colour in enumerate(colours)],
        "text": [["" if value is None else f"{value:.{digits}f}" for value in row] for row in cells],
        "hovertemplate": "%{y}<br>%{x}<br>%{z:.1f}" + unit + "<extra></extra>",
    }  # fmt: skip
    axis = {"type": "category", "showgrid": False}
    x_axis, y_axis = {**axis, "tickangle": -35}, {**axis, "autorange": "reversed"}
    return {**panel(title, x_axis, y_axis, [trace], 190 + 24 * len(rows)), "min_width": 220 + 46 * len(columns)}
