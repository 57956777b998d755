"""The page's interactive pictures, as plain data for plotly.js."""

from __future__ import annotations

import math
from html import escape
from typing import Any

from srnet.report.curves import AXES, Look, by_line, colour, kept_ticks, looks, side_by_side
from srnet.report.masks import MatrixTable, OverlapTable
from srnet.report.results import Results, Summary
from srnet.report.traces import Trace

Picture = dict[str, Any]

FONT = {"family": "system-ui, sans-serif", "size": 13, "color": "#1d2330"}
GRID = "#e8ebf0"
THIN = ("dot", "dashdot", "longdashdot")
"""The majority class, and theory's classifiers where there are any."""
MARKERS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x")


def _layout(title: str, x: str, y: str, **more: Any) -> dict[str, Any]:
    axis = {"gridcolor": GRID, "zeroline": False, "linecolor": "#b9c0cc", "ticks": "outside"}
    return {
        "title": {"text": title, "font": {"size": 15}, "x": 0.02},
        "font": FONT,
        "margin": {"l": 56, "r": 12, "t": 44, "b": 48},
        "paper_bgcolor": "#fff",
        "plot_bgcolor": "#fff",
        "xaxis": {**axis, "title": {"text": x}},
        "yaxis": {**axis, "title": {"text": y}},
        "legend": {"orientation": "h", "y": -0.24, "x": 0, "font": {"size": 12}},
        "hoverlabel": {"align": "left"},
        "height": 470,
        **more,
    }


def _faded(colour: str, alpha: float) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"


# --- curves --------------------------------------------------------------------------------------------------------


def curves(results: Results) -> list[Picture]:
    """One picture a split: the lines with their bands, the full models as levels."""
    lines = by_line(results)
    table = side_by_side(results)
    varied = [s.x for s in results.summaries if s.is_pruned] or [0.0, 100.0]
    if table:
        varied = [0.0, len(table) - 1.0]
    pad = 0.06 * (max(varied) - min(varied)) or 1.0
    ends = [min(varied) - pad, max(varied) + pad]
    on_scale = results.recipe.axis == "kept" and not table
    if on_scale:  # a scale of ratios has no place for what is not above 0
        ends = [max(1e-3, min(varied)) / 1.2, 1.2 * max(varied)]
    styles = looks(results.recipe.points)
    means = [s.scores[split].mean for s in results.summaries for split in results.splits]
    bottom = 5.0 * math.floor(min(*means, *results.majority.values()) / 5.0) - 2.5
    pictures = []
    for split in results.splits:
        traces: list[dict[str, Any]] = []
        for label, summaries in lines.items():
            make = _level if not summaries[0].is_pruned else _curve
            made = make(label, summaries, split, styles[label], ends)
            if summaries[0] in table:
                made[-1]["x"] = [table.index(summaries[0])]
            traces += made
        thin = zip(results.levels.items(), THIN, strict=False)
        traces += [_thin_line(name, own[split], ends, dash) for (name, own), dash in thin]
        layout = _layout(results.named(split), AXES[results.recipe.axis], f"{results.metric} (%)")
        if table:
            labels = [escape(s.label) for s in table]
            layout["xaxis"] |= {"tickvals": list(range(len(table))), "ticktext": labels, "automargin": True}
            layout["xaxis"]["title"] = {"text": f"{100 * table[0].sparsity:.0f} % sparse"}
            layout["legend"]["y"] = -0.45
        if on_scale:
            ticks = kept_ticks(results)
            layout["xaxis"] |= {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}
        layout["height"] += 14 * max(0, len(lines) - 7)  # a long legend takes its room from the picture
        layout["yaxis"]["range"] = [bottom, 102.5]  # the same in every panel, so that ID and OOD can be compared
        pictures.append({"data": traces, "layout": layout})
    return pictures


def _hover(summary: Summary, split: str) -> str:
    score = summary.scores[split]
    lines = [f"<b>{escape(summary.name)}</b>", f"{split}: {score} ({score.seeds} seed{'s' if score.seeds > 1 else ''})"]
    if summary.is_pruned:
        lines.append(f"sparsity {100 * summary.sparsity:.2f} %, counted on the mask")
    if summary.verdict is not None:
        gains = ", ".join(summary.verdict.gain_lines)
        lines += [f"keeps {summary.verdict.kept_percent} of ID", f"OOD minus full CE model: {escape(gains)}"]
        lines.append(f"SRNet? {summary.verdict.short}")
    if summary.id_gain is not None:
        lines.append(f"ID minus full CE model: {summary.id_gain}")
    lines += [f"{summary.steps:,.0f} training steps", *(f"key {key}" for key in summary.keys)]
    return "<br>".join(lines)


def _band(x: list[float], low: list[float], high: list[float], colour: str, group: str) -> dict[str, Any]:
    return {
        "x": [*x, *reversed(x)], "y": [*high, *reversed(low)], "fill": "toself", "fillcolor": _faded(colour, 0.14),
        "line": {"width": 0}, "mode": "lines", "hoverinfo": "skip", "showlegend": False, "legendgroup": group,
    }  # fmt: skip


def _curve(label: str, summaries: list[Summary], split: str, look: Look, ends: list[float]) -> list[dict[str, Any]]:
    x, scores = [s.x for s in summaries], [s.scores[split] for s in summaries]
    low, high = [s.mean - s.sd for s in scores], [s.mean + s.sd for s in scores]
    line = {
        "x": x, "y": [s.mean for s in scores], "name": escape(label), "legendgroup": label, "mode": "lines+markers",
        "line": {"color": look.colour, "width": 2, "dash": "dash" if look.dashed else "solid"},
        "marker": {"size": 9, "symbol": MARKERS[look.marker] + ("-open" if look.dashed else "")},
        "hovertemplate": "%{text}<extra></extra>", "text": [_hover(s, split) for s in summaries],
    }  # fmt: skip
    if len(x) == 1:
        line["error_y"] = {"type": "data", "array": [scores[0].sd]}
        return [line]
    return [_band(x, low, high, look.colour, label), line]


def _level(label: str, summaries: list[Summary], split: str, look: Look, ends: list[float]) -> list[dict[str, Any]]:
    score, text = summaries[0].scores[split], _hover(summaries[0], split)
    line = {
        "x": ends, "y": [score.mean] * 2, "name": escape(label), "legendgroup": label, "mode": "lines",
        "line": {"color": look.colour, "width": 2, "dash": "dash"}, "hovertemplate": "%{text}<extra></extra>",
        "text": [text, text],
    }  # fmt: skip
    return [_band(ends, [score.mean - score.sd] * 2, [score.mean + score.sd] * 2, look.colour, label), line]


def _thin_line(name: str, value: float, ends: list[float], dash: str) -> dict[str, Any]:
    return {
        "x": ends, "y": [value] * 2, "name": name, "mode": "lines",
        "line": {"color": "#777777", "width": 1, "dash": dash},
        "hovertemplate": f"{name} {value:.1f}<extra></extra>",
    }  # fmt: skip


def traces(results: Results) -> list[Picture]:
    """How the searches went: score over the steps of the search, one line a start."""
    pictures = []
    for split in results.traces[0].scores if results.traces else ():
        data = [_trace(trace, split, index) for index, trace in enumerate(results.traces)]
        layout = _layout(f"{split}, during the search", "steps of the search", f"{results.metric} (%)")
        pictures.append({"data": data, "layout": layout})
    return pictures


def _trace(trace: Trace, split: str, index: int) -> dict[str, Any]:
    return {
        "x": trace.steps, "y": trace.scores[split], "name": trace.name, "mode": "lines+markers",
        "line": {"color": colour(index), "width": 2}, "marker": {"size": 6},
        "hovertemplate": f"{trace.name}<br>step %{{x}}: %{{y:.1f}}<extra></extra>",
    }  # fmt: skip


# --- heat maps -----------------------------------------------------------------------------------------------------


def _heat_map(
    title: str,
    columns: list[str],
    rows: list[str],
    cells: list[list[float | None]],
    unit: str,
    colours: Any,
    digits: int = 0,
) -> Picture:
    """Percentages, from 0 to 100."""
    data = {
        "type": "heatmap", "x": [escape(each) for each in columns], "y": [escape(each) for each in rows],
        "z": cells, "zmin": 0, "zmax": 100, "colorscale": colours,
        "text": [["" if v is None else f"{v:.{digits}f}" for v in row] for row in cells], "texttemplate": "%{text}",
        "textfont": {"size": 11}, "hovertemplate": "%{y}<br>%{x}<br>%{z:.1f}" + unit + "<extra></extra>",
        "xgap": 1, "ygap": 1, "colorbar": {"thickness": 10, "len": 0.9},
    }  # fmt: skip
    layout = _layout(title, "", "", height=190 + 24 * len(rows))
    layout["margin"] = {"l": 8, "r": 8, "t": 44, "b": 8}
    layout["xaxis"] |= {"automargin": True, "tickangle": -35, "type": "category", "showgrid": False}
    layout["yaxis"] |= {"automargin": True, "autorange": "reversed", "type": "category", "showgrid": False}
    return {"data": [data], "layout": layout, "min_width": 220 + 46 * len(columns)}


DIVERGING = [[0, "#e08a3c"], [0.5, "#ffffff"], [1, "#3f9e73"]]
SEQUENTIAL = [[0, "#ffffff"], [1, "#0072B2"]]


def sub_cases(results: Results) -> list[Picture]:
    """Accuracy by sub-case and model, one picture a split that has sub-cases."""
    pictures = []
    for split in results.splits:
        groups = list(results.summaries[0].groups[split])
        if groups:
            cells: list[list[float | None]] = [[s.groups[split][g].mean for s in results.summaries] for g in groups]
            title = f"{results.named(split)}: accuracy by sub-case"
            names = [s.name for s in results.summaries]
            pictures.append(_heat_map(title, names, groups, cells, " %", DIVERGING))
    return pictures


def overlap_picture(table: OverlapTable) -> Picture:
    title = f"{100 * table.sparsity:g} % sparse: kept weights in common (chance {table.chance:.1f} %)"
    return _heat_map(title, table.labels, table.labels, table.shared, " % in common", SEQUENTIAL, 1)


def matrix_picture(table: MatrixTable) -> Picture:
    title = f"{100 * table.sparsity:g} % sparse: percent pruned, by matrix"
    cells: list[list[float | None]] = [[*row] for row in table.pruned]
    return _heat_map(title, table.labels, table.matrices, cells, " % pruned", SEQUENTIAL, 1)
