"""Every model of a figure side by side: its scores in and out of distribution as dots on one line."""

from __future__ import annotations

import textwrap
from typing import Any

from matplotlib.figure import Figure

from srnet.report.pictures import COLOURS, MARKERS, SYMBOLS, matplotlib_text, saved
from srnet.report.results import Results

_WIDTH = 38
"""Characters of a name in a line; longer ones have several."""
_TALLEST = 12_000.0
"""Pixels: figures with hundreds of models are drawn smaller, because a picture has at most 65,536."""


def draw_models(results: Results) -> bytes:
    """One row a model, one dot a column, as `png`. Lines are one standard deviation; theory is grey, without one.

    Columns of one unit are shown: where some are percentages, only these.
    """
    shares = {name: each for name, each in results.columns.items() if each.is_percentage}
    columns = shares or results.columns
    rows = [(s.name, {name: (s.scores[name].mean, s.scores[name].sd) for name in columns}) for s in results.summaries]
    theory = [(name, {c: (own[c], 0.0) for c in columns if c in own}) for name, own in results.theory.items()]
    names = [textwrap.fill(matplotlib_text(name), _WIDTH) for name, _ in (*rows, *theory)]
    lines = sum(name.count("\n") + 1 for name in names)
    figure = Figure(figsize=(8.0, 1.4 + 0.3 * lines + 0.12 * len(names)), layout="constrained")
    axis = figure.subplots()
    for number, (column, shown) in enumerate(columns.items()):
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[SYMBOLS[number % len(SYMBOLS)]]
        for place, (_, scores) in enumerate((*rows, *theory)):
            if column not in scores:
                continue
            shade = colour if place < len(rows) else "#8a8a8a"
            look: dict[str, Any] = {"color": shade, "marker": marker, "linestyle": "none", "capsize": 3}
            look |= {"label": matplotlib_text(shown.title)} if place == 0 else {}
            axis.errorbar(scores[column][0], place, xerr=scores[column][1], **look)
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    axis.set_xlabel(", ".join(dict.fromkeys(each.unit for each in columns.values())))
    axis.grid(axis="x", color="#e5e5e5", linewidth=0.8)
    axis.set_axisbelow(True)
    figure.legend(loc="outside upper center", ncols=min(4, len(columns)), frameon=False)
    return saved(figure, "png", dpi=min(150.0, _TALLEST / figure.get_figheight()))
