"""The pictures of a figure: score over sparsity (or start, or length), and accuracy by sub-case, one per split."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import cycle

from srnet.recipes.points import Point
from srnet.report.evidence import Summary
from srnet.report.pictures import COLOURS, Axis, Picture, Style, Trace, band, heat_map, line, literal, panel
from srnet.report.results import Results

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


def styles(points: Sequence[Point]) -> dict[str, Style]:
    """By label. A distilled series has the colour of the same one without a teacher; when colours run out, dashes."""
    found: dict[str, Style] = {}
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
        found[point.label] = Style(colour, "dash", f"{symbol}-open") if dashed else Style(colour, "solid", symbol)
    return found


def side_by_side(summaries: Sequence[Summary]) -> list[Summary]:
    """The subnetworks, if each line has just one and all are at one place: not a curve, they would hide each other."""
    pruned = [summary for summary in summaries if summary.point.is_pruned]
    labels, places = {s.point.label for s in pruned}, {round(s.x, 1) for s in pruned}
    return pruned if len(pruned) > 1 and len(pruned) == len(labels) and len(places) == 1 else []


def curves(results: Results) -> list[Picture]:
    """One picture per split: the lines with their bands; full models, the constant answer and theory as levels."""
    summaries, table = results.summaries, side_by_side(results.summaries)
    x_axis, columns = _x_axis(results, table), {s.point.label: float(place) for place, s in enumerate(table)}
    positions = [columns.get(s.point.label, s.x) for s in summaries if s.point.is_pruned]
    ends = _ends(positions or [0.0, 100.0], x_axis.get("type") == "log")
    means = [s.scores[split].mean for s in summaries for split in results.splits]
    constants = [score for scores in results.constant.values() for score in scores.values()]
    # the same in every panel, so that ID and OOD can be compared
    y_range = [5.0 * math.floor(min(*means, *constants) / 5.0) - 2.5, 102.5]
    y_axis = {"title": {"text": f"{results.metric} (%)"}, "range": y_range}
    pictures = []
    for split, title in results.splits.items():
        traces = _model_lines(summaries, split, columns, ends)
        for (name, own), dash in zip((results.constant | results.theory).items(), LEVEL_DASHES, strict=False):
            note = f"{name} {own[split]:.1f}"
            traces.append(line(name, ends, [own[split]] * 2, [note] * 2, Style("#777777", dash, width=1.0)))
        long_legend = max(0, len({s.label for s in summaries}) - 7)  # it takes its room from the picture
        pictures.append(panel(title, x_axis, y_axis, traces, 470 + 14 * long_legend))
    return pictures


def _x_axis(results: Results, table: Sequence[Summary]) -> Axis:
    axis: Axis = {"title": {"text": TITLES[results.recipe.axis]}}
    if table:
        axis["title"] = {"text": f"{100 * table[0].sparsity:.0f} % sparse"}
        axis |= {"tickvals": [*range(len(table))], "ticktext": [literal(summary.label) for summary in table]}
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
    for label, style in styles([summary.point for summary in summaries]).items():
        series = sorted((s for s in summaries if s.point.label == label), key=lambda s: s.x)
        x = [columns.get(label, summary.x) for summary in series]
        if not series[0].point.is_pruned:  # a full model has nothing to vary: a level across the panel
            series, x, style = series * 2, ends, Style(style.colour, "dash")
        scores, notes = [s.scores[split] for s in series], [_notes(s, split) for s in series]
        drawn, sd = line(series[0].label, x, [s.mean for s in scores], notes, style), [s.sd for s in scores]
        if len(x) > 1:
            traces.append(band(drawn, sd))
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
        gains = f"OOD minus full CE model: {', '.join(verdict.gain_lines)}"
        lines += [f"keeps {verdict.kept_percent} of ID", gains, f"SRNet? {verdict.short}"]
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
            traces.append(line(search.start, search.steps, scores, notes, Style(colour, symbol="circle")))
        x_axis, y_axis = ({"title": {"text": text}} for text in ("steps of the search", f"{results.metric} (%)"))
        pictures.append(panel(f"{split}, during the search", x_axis, y_axis, traces))
    return pictures


def sub_cases(results: Results) -> list[Picture]:
    """Accuracy by sub-case and model, one picture per split that has sub-cases."""
    pictures, names = [], [summary.name for summary in results.summaries]
    for split, title in results.splits.items():
        if cases := list(results.summaries[0].groups[split]):
            cells = [[summary.groups[split][case].mean for summary in results.summaries] for case in cases]
            pictures.append(heat_map(f"{title}: accuracy by sub-case", names, cases, cells, " %", 0, DIVERGING))
    return pictures
