"""Pictures as plain data for plotly.js: the page shows them, and `curves` draws the same data for paper."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

Picture = dict[str, Any]
Trace = dict[str, Any]
Axis = dict[str, Any]

# Okabe and Ito: distinguishable with any kind of colour vision
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
SEQUENTIAL = ("#ffffff", "#0072B2")


def literal(text: str) -> str:
    """Text that plotly.js shows as it is: it reads a little HTML, but does not know `&quot;`."""
    return escape(text, quote=False).replace("\n", "<br>")


def panel(title: str, x_axis: Axis, y_axis: Axis, traces: list[Trace], height: int = 470) -> Picture:
    axis = {"gridcolor": "#e8ebf0", "zeroline": False, "linecolor": "#b9c0cc", "ticks": "outside", "automargin": True}
    layout = {
        "title": {"text": literal(title), "font": {"size": 15}, "x": 0.02},
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": "#1d2330"},
        "margin": {"l": 8, "r": 12, "t": 44, "b": 8},
        "paper_bgcolor": "#fff",
        "plot_bgcolor": "#fff",
        "xaxis": {**axis, **x_axis},
        "yaxis": {**axis, **y_axis},
        "legend": {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0, "font": {"size": 12}},
        "hoverlabel": {"align": "left"},
        "height": height,
    }
    return {"data": traces, "layout": layout}


def line(
    label: str, x: Sequence[float], y: Sequence[float], notes: Sequence[str], colour: str, dash: str = "solid",
    symbol: str = "", width: float = 2.0,
) -> Trace:  # fmt: skip
    """`notes` are shown when the mouse is over a point; without a symbol points are not marked."""
    return {
        "x": list(x), "y": list(y), "name": literal(label), "legendgroup": label, "text": [*map(literal, notes)],
        "mode": "lines+markers" if symbol else "lines", "marker": {"size": 9, "symbol": symbol or "circle"},
        "line": {"color": colour, "width": width, "dash": dash}, "hovertemplate": "%{text}<extra></extra>",
    }  # fmt: skip


def band(label: str, x: Sequence[float], low: Sequence[float], high: Sequence[float], colour: str) -> Trace:
    """Around the line with the same label: its outline, from left to right above and back below."""
    return {
        "x": [*x, *reversed(x)], "y": [*high, *reversed(low)], "fill": "toself", "fillcolor": f"{colour}24",
        "line": {"width": 0}, "mode": "lines", "hoverinfo": "skip", "showlegend": False, "legendgroup": label,
    }  # fmt: skip


def heat_map(
    title: str, columns: Sequence[str], rows: Sequence[str], cells: Sequence[Sequence[float | None]], unit: str,
    digits: int = 1, colours: Sequence[str] = SEQUENTIAL,
) -> Picture:  # fmt: skip
    """Percentages, from 0 to 100; None leaves a cell empty. `unit` follows a number when the mouse is over it."""
    trace = {
        "type": "heatmap", "x": [*map(literal, columns)], "y": [*map(literal, rows)], "z": cells, "zmin": 0,
        "zmax": 100, "colorscale": [[at / (len(colours) - 1), colour] for at, colour in enumerate(colours)],
        "text": [["" if value is None else f"{value:.{digits}f}" for value in row] for row in cells],
        "texttemplate": "%{text}", "textfont": {"size": 11}, "xgap": 1, "ygap": 1,
        "hovertemplate": "%{y}<br>%{x}<br>%{z:.1f}" + unit + "<extra></extra>",
        "colorbar": {"thickness": 10, "len": 0.9},
    }  # fmt: skip
    axis = {"type": "category", "showgrid": False}
    x_axis, y_axis = {**axis, "tickangle": -35}, {**axis, "autorange": "reversed"}
    picture = panel(title, x_axis, y_axis, [trace], 190 + 24 * len(rows))
    return {**picture, "min_width": 220 + 46 * len(columns)}
