"""Pictures as plain data for plotly.js, and as files drawn with matplotlib. Their common style is in page.html."""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Sequence
from html import escape, unescape
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure

from srnet.core.errors import shortened
from srnet.masks.mask import Mask
from srnet.recipes.paradigms import Point
from srnet.report.evidence import Summary
from srnet.report.results import Results

Picture = dict[str, Any]
Trace = dict[str, Any]
PlotAxis = dict[str, Any]

# Okabe and Ito: distinguishable with any kind of colour vision
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


class _Style(NamedTuple):
    """How a line is drawn. Dashes and symbols have the names of plotly.js; without a symbol points are not marked."""

    colour: str
    dash: str = "solid"
    symbol: str = ""
    width: float = 2.0


def _plotly_text(text: str) -> str:
    """Text that plotly.js shows unchanged: it parses some HTML tags and entities, but not `&quot;`."""
    return escape(text, quote=False).replace("\n", "<br>")


def _panel(title: str, x_axis: PlotAxis, y_axis: PlotAxis, traces: list[Trace], height: int = 470) -> Picture:
    layout = {"title": {"text": _plotly_text(title)}, "xaxis": x_axis, "yaxis": y_axis, "height": height}
    return {"data": traces, "layout": layout}


def _line(label: str, x: Sequence[float], y: Sequence[float], notes: Sequence[str], style: _Style) -> Trace:
    """`notes` are shown when the mouse is over a point."""
    return {
        "type": "scatter", "x": list(x), "y": list(y), "name": _plotly_text(label), "legendgroup": label,
        "text": [*map(_plotly_text, notes)], "mode": "lines+markers" if style.symbol else "lines",
        "line": {"color": style.colour, "dash": style.dash, "width": style.width}, "marker": {"symbol": style.symbol},
    }  # fmt: skip


def _band(line: Trace, sd: Sequence[float]) -> Trace:
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
        "type": "heatmap", "x": [*map(_plotly_text, columns)], "y": [*map(_plotly_text, rows)], "z": cells, "zmin": 0,
        "zmax": 100, "colorscale": [[at / (len(colours) - 1), colour] for at, colour in enumerate(colours)],
        "text": [["" if value is None else f"{value:.{digits}f}" for value in row] for row in cells],
        "hovertemplate": "%{y}<br>%{x}<br>%{z:.1f}" + unit + "<extra></extra>",
    }  # fmt: skip
    axis = {"type": "category", "showgrid": False}
    x_axis, y_axis = {**axis, "tickangle": -35}, {**axis, "autorange": "reversed"}
    return {**_panel(title, x_axis, y_axis, [trace], 190 + 24 * len(rows)), "min_width": 220 + 46 * len(columns)}


# --- the pictures of a figure: score over sparsity, start or length, and accuracy by sub-case, one per split ---

SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x")
LEVEL_DASHES = ("dot", "dashdot", "longdashdot")
"""Of the constant answer, and of theory's classifiers where there are any."""
DIVERGING = ("#e08a3c", "#ffffff", "#3f9e73")
TITLES = {
    "sparsity": "sparsity (% of weights pruned)",
    "kept": "weights kept (%)",
    "start": "steps of fine-tuning before the search",
    "length": "steps of the search",
}


def _styles(points: Sequence[Point]) -> dict[str, _Style]:
    """Styles by label. A distilled series has the colour of the same one without a teacher."""
    found: dict[str, _Style] = {}
    places: dict[tuple[object, bool], int] = {}
    taken: set[int] = set()
    for point in {point.label: point for point in points}.values():
        search = point.search
        distilled = search is not None and search.objective.distillation is not None
        method = search and (point.paradigm, search.pruner.name, search.objective.name, search.parent, search.data)
        place = places.get((method, not distilled), len(taken))
        places.setdefault((method, distilled), place)
        taken.add(place)
        colour, symbol = COLOURS[place % len(COLOURS)], SYMBOLS[place % len(SYMBOLS)]
        dashed = distilled or place >= len(COLOURS)
        found[point.label] = _Style(colour, "dash", f"{symbol}-open") if dashed else _Style(colour, "solid", symbol)
    return found


def _side_by_side(summaries: Sequence[Summary]) -> list[Summary]:
    """The subnetworks, if each line has just one and all are at one place: not a curve, they would hide each other."""
    pruned = [summary for summary in summaries if summary.point.is_pruned]
    labels, places = {s.point.label for s in pruned}, {round(s.x, 1) for s in pruned}
    return pruned if len(pruned) > 1 and len(pruned) == len(labels) and len(places) == 1 else []


def curves(results: Results) -> list[Picture]:
    """One picture per split: the lines with their bands; full models, the constant answer and theory as levels."""
    summaries, table = results.summaries, _side_by_side(results.summaries)
    x_axis, columns = _x_axis(results, table), {s.point.label: float(place) for place, s in enumerate(table)}
    positions = [columns.get(s.point.label, s.x) for s in summaries if s.point.is_pruned]
    ends = _ends(positions or [0.0, 100.0], x_axis.get("type") == "log")
    y_axes = _y_axes(results)
    pictures = []
    for split, column in results.columns.items():
        traces = _model_lines(summaries, split, columns, ends)
        levels = {name: own[split] for name, own in (results.constant | results.theory).items() if split in own}
        for (name, level), dash in zip(levels.items(), LEVEL_DASHES, strict=False):
            note = f"{name} {level:.1f}"
            traces.append(_line(name, ends, [level] * 2, [note] * 2, _Style("#777777", dash, width=1.0)))
        long_legend = max(0, len({s.label for s in summaries}) - 7)  # it takes its room from the picture
        pictures.append(_panel(column.title, x_axis, y_axes[column.unit], traces, 470 + 14 * long_legend))
    return pictures


def _y_axes(results: Results) -> dict[str, PlotAxis]:
    """By unit: the same in every panel of a unit, so that ID and OOD can be compared. Percentages end at 100."""
    axes = {}
    for unit in dict.fromkeys(column.unit for column in results.columns.values()):
        same = [name for name, column in results.columns.items() if column.unit == unit]
        means = [summary.scores[name].mean for summary in results.summaries for name in same]
        means += [own[name] for own in (results.constant | results.theory).values() for name in same if name in own]
        is_percentage = results.columns[same[0]].is_percentage
        is_log = not is_percentage and max(means) > 10.0 * min(means) > 0.0
        if is_percentage:
            bounds = [5.0 * math.floor(min(means) / 5.0) - 2.5, 102.5]
        else:
            ends = [math.log10(end) if is_log else end for end in (min(means), max(means))]
            margin = 0.05 * (ends[1] - ends[0]) or 0.05 * abs(ends[0]) or 1.0
            bounds = [ends[0] - margin, ends[1] + margin]
        axes[unit] = {"title": {"text": unit}, "range": bounds, **({"type": "log"} if is_log else {})}
    return axes


def _x_axis(results: Results, table: Sequence[Summary]) -> PlotAxis:
    axis: PlotAxis = {"title": {"text": TITLES[results.recipe.axis]}}
    if table:
        axis["title"] = {"text": f"{100 * table[0].sparsity:.0f} % sparse"}
        axis |= {"tickvals": [*range(len(table))], "ticktext": [_plotly_text(summary.label) for summary in table]}
    elif results.recipe.axis == "kept":
        pruned = [s for s in results.summaries if s.point.is_pruned]
        sparsities = {s.sparsity if s.point.place.speedup else s.point.place.sparsity for s in pruned}
        kept = sorted(round(100.0 * (1.0 - sparsity), 3) for sparsity in sparsities)
        axis |= {"type": "log", "tickvals": kept, "ticktext": [f"{share:g}" for share in kept]}
    return axis


def _ends(positions: Sequence[float], is_log: bool) -> list[float]:
    """Where levels begin and end: a little beyond the points."""
    low, high = min(positions), max(positions)
    if is_log:  # a logarithmic scale has no place for what is not above 0
        return [max(1e-3, low) / 1.2, 1.2 * high]
    margin = 0.06 * (high - low) or 1.0
    return [low - margin, high + margin]


def _model_lines(summaries: list[Summary], split: str, columns: dict[str, float], ends: list[float]) -> list[Trace]:
    """`columns` are the positions of lines that are drawn side by side, `ends` those of levels."""
    traces = []
    for label, style in _styles([summary.point for summary in summaries]).items():
        series = sorted((s for s in summaries if s.point.label == label), key=lambda s: s.x)
        x = [columns.get(label, summary.x) for summary in series]
        if not series[0].point.is_pruned:  # a full model has nothing to vary: a level across the panel
            series, x, style = series * 2, ends, _Style(style.colour, "dash")
        scores, notes = [s.scores[split] for s in series], [_notes(s, split) for s in series]
        drawn, sd = _line(series[0].label, x, [s.mean for s in scores], notes, style), [s.sd for s in scores]
        if len(x) > 1:
            traces.append(_band(drawn, sd))
        else:
            drawn["error_y"] = {"type": "data", "array": sd}
        traces.append(drawn)
    return traces


def _notes(summary: Summary, split: str) -> str:
    """What is shown when the mouse is over a point."""
    score, verdict = summary.scores[split], summary.verdict
    lines = [summary.name, f"{split}: {score} ({score.seeds} seed{'s' if score.seeds > 1 else ''})"]
    if summary.point.is_pruned:
        lines.append(f"sparsity {100 * summary.sparsity:.2f} %, counted on the mask")
    if verdict is not None:
        lines += [*verdict.figure_lines, f"{verdict.question} {summary.answer}"]
    if summary.id_gain is not None:
        lines.append(f"ID minus full CE model: {summary.id_gain}")
    lines += [f"{summary.steps:,.0f} training steps", *(f"key {model.key}" for model in summary.models)]
    return "\n".join(lines)


def searches(results: Results) -> list[Picture]:
    """Score over the steps of the search: one picture per split, one line per start."""
    pictures = []
    for split in results.searches[0].scores if results.searches else ():
        traces = []
        for search, colour in zip(results.searches, cycle(COLOURS), strict=False):
            scores = search.scores[split]
            notes = [f"{search.start}\nstep {s}: {score:.1f}" for s, score in zip(search.steps, scores, strict=True)]
            traces.append(_line(search.start, search.steps, scores, notes, _Style(colour, symbol="circle")))
        x_axis, y_axis = ({"title": {"text": text}} for text in ("steps of the search", f"{results.metric} (%)"))
        pictures.append(_panel(f"{split}, during the search", x_axis, y_axis, traces))
    return pictures


def sub_cases(results: Results) -> list[Picture]:
    """Accuracy by sub-case and model, one picture per split that has sub-cases."""
    pictures, names = [], [summary.name for summary in results.summaries]
    for split, title in results.splits.items():
        if cases := list(results.summaries[0].groups[split]):
            cells = [[summary.groups[split][case].mean for summary in results.summaries] for case in cases]
            what = f"{title}: {results.group_metric} by sub-case"
            pictures.append(heat_map(what, names, cases, cells, " %", 0, DIVERGING))
    return pictures


# --- pictures as files: the curves of the page for a paper, and the mosaic of a mask ---

MARKERS = dict(zip(("", *SYMBOLS), ("", "o", "s", "^", "D", "v", "P", "X"), strict=True))
_ACROSS = 5
"""Panels side by side; more have several rows."""
BLOCKS = 32
"""A matrix is drawn as at most so many blocks in each direction."""
DASHES: dict[str, Any] = {
    "solid": "-", "dash": (0, (4, 2)), "dot": ":", "dashdot": (0, (6, 2, 1, 2)), "longdashdot": (0, (6, 2, 1, 2, 1, 2)),
}  # fmt: skip


def draw_curves(results: Results) -> dict[str, bytes]:
    """The curves as `png` and `pdf`: a panel for ID and for each OOD split. Bands are one standard deviation."""
    pictures, recipe, seeds = curves(results), results.recipe, len(results.recipe.seeds)
    units = [picture["layout"]["yaxis"]["title"]["text"] for picture in pictures]
    across = min(_ACROSS, units.count(units[0]))  # those of one unit are side by side
    down = math.ceil(len(pictures) / across)
    figure = Figure(figsize=(5.2 * across, 0.4 + 4.2 * down), layout="constrained")
    every = figure.subplots(down, across, squeeze=False).ravel()
    handles: dict[str, Any] = {}
    first: dict[str, Any] = {}
    for place, (axis, picture, unit) in enumerate(zip(every, pictures, units, strict=False)):
        if unit in first:
            axis.sharey(first[unit])
        first.setdefault(unit, axis)
        axis.set_yscale(picture["layout"]["yaxis"].get("type", "linear"))
        handles |= _draw(axis, picture)
        if place % across and units[place - 1] == unit:
            axis.tick_params(labelleft=False)
        else:
            axis.set_ylabel(unit)
    for axis in every[len(pictures) :]:
        axis.set_axis_off()
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=min(3, len(handles)), frameon=False)
    heading = f"{recipe.title or recipe.name}: {recipe.task.name}, {seeds} seed{'s' if seeds > 1 else ''}"
    figure.suptitle(textwrap.fill(matplotlib_text(heading), 50 * across))  # about as wide as a panel
    png = saved(figure, "png", dpi=150)
    figure.set_layout_engine("none")  # it is laid out now, and that takes most of the time
    # without a date the same results give the same bytes
    return {"png": png, "pdf": saved(figure, "pdf", metadata={"CreationDate": None})}


def saved(figure: Figure, format: str, **options: Any) -> bytes:
    """The bytes of a file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=format, **options)
    return buffer.getvalue()


def matplotlib_text(text: str) -> str:
    """Text that matplotlib shows unchanged: what is between two dollar signs would be parsed as a formula."""
    return shortened(unescape(text)).replace("$", r"\$")


def _draw(axis: Any, picture: Picture) -> dict[str, Any]:
    """Draw a picture; returns the lines for the legend, by label."""
    x_axis, handles = picture["layout"]["xaxis"], {}
    for trace in picture["data"]:
        if "fill" in trace:
            axis.fill(trace["x"], trace["y"], color=trace["fillcolor"], linewidth=0.0)
            continue
        (colour, dash, width), symbol = trace["line"].values(), trace["marker"]["symbol"]
        look = {"color": colour, "linestyle": DASHES[dash], "linewidth": 0.9 * width, "capsize": 3}
        look["marker"] = MARKERS[symbol.removesuffix("-open")]
        look["markerfacecolor"] = "white" if symbol.endswith("-open") else colour
        sd = trace.get("error_y", {}).get("array")
        handles[matplotlib_text(trace["name"])] = axis.errorbar(trace["x"], trace["y"], sd, **look)
    axis.set_title(matplotlib_text(picture["layout"]["title"]["text"]))
    axis.set_xlabel(x_axis["title"]["text"])
    axis.margins(x=0.0)  # the levels reach beyond the points
    axis.set_xscale(x_axis.get("type", "linear"))
    if "tickvals" in x_axis:
        turned = {} if x_axis.get("type") == "log" else {"rotation": 25, "ha": "right", "fontsize": 8}
        axis.set_xticks(x_axis["tickvals"], map(matplotlib_text, x_axis["ticktext"]), **turned)
        axis.minorticks_off()
    axis.grid(color="#e5e5e5", linewidth=0.8)
    axis.set_axisbelow(True)
    return handles


def short_name(name: str) -> str:
    """bert.encoder.layer.0.attention.self.query.weight -> 0 attention.self.query"""
    found = re.search(r"\.(\d+)\.(.+)\.weight$", name)
    return f"{found[1]} {found[2]}" if found else name.removesuffix(".weight")


_GREY = "#7b8594"
"""Of letters that are read on white and on black."""


def draw_mosaic(mask: Mask, columns: int = 6) -> bytes:
    """Every matrix of a mask as a small picture: the darker a block, the more of its weights are kept."""
    cell, gap = BLOCKS + 4, 8
    rows = -(-len(mask) // columns)
    canvas = np.full((rows * (cell + gap), columns * cell), np.nan)
    figure = Figure(figsize=(1.7 * columns + 1.0, 1.7 * rows * (cell + gap) / cell))
    axis = figure.add_axes((0.01, 0.01, 0.9, 0.98))
    axis.set_axis_off()
    # on a light page and on a dark one: no background, and grey letters
    for index, (name, tensor) in enumerate(mask.items()):
        top, left = (index // columns) * (cell + gap) + gap, (index % columns) * cell
        drawn = _blocks(tensor)
        canvas[top : top + drawn.shape[0], left : left + drawn.shape[1]] = drawn
        axis.text(left, top - 2.5, short_name(name), fontsize=6.5, va="center", color=_GREY, parse_math=False)
    image = axis.imshow(canvas, cmap="viridis_r", vmin=0.0, vmax=float(np.nanmax(canvas)), interpolation="nearest")
    bar = figure.colorbar(image, cax=figure.add_axes((0.925, 0.25, 0.015, 0.5)))
    bar.set_label("share kept", color=_GREY)
    bar.ax.tick_params(color=_GREY, labelcolor=_GREY)
    return saved(figure, "png", dpi=110, transparent=True)


def _blocks(matrix: torch.Tensor, most: int = BLOCKS) -> np.ndarray:
    """The share kept in each block of a matrix."""
    kept = matrix.to(torch.float32)[None, None]
    rows, columns = (min(most, side) for side in matrix.shape)
    return np.asarray(torch.nn.functional.adaptive_avg_pool2d(kept, (rows, columns))[0, 0])
