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
    """One row a model, one dot a split, as `png`. Lines are one standard deviation; theory is grey, without one."""
    rows = [(s.name, {split: (score.mean, score.sd) for split, score in s.scores.items()}) for s in results.summaries]
    theory = [(name, {split: (own[split], 0.0) for split in results.splits}) for name, own in results.theory.items()]
    names = [textwrap.fill(matplotlib_text(name), _WIDTH) for name, _ in (*rows, *theory)]
    lines = sum(name.count("\n") + 1 for name in names)
    figure = Figure(figsize=(8.0, 1.4 + 0.3 * lines + 0.12 * len(names)), layout="constrained")
    axis = figure.subplots()
    for number, (split, title) in enumerate(results.splits.items()):
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[SYMBOLS[number % len(SYMBOLS)]]
        for place, (_, scores) in enumerate((*rows, *theory)):
            shade = colour if place < len(rows) else "#8a8a8a"
            look: dict[str, Any] = {"color": shade, "marker": marker, "linestyle": "none", "capsize": 3}
            look |= {"label": matplotlib_text(title)} if place == 0 else {}
            axis.errorbar(scores[split][0], place, xerr=scores[split][1], **look)
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    axis.set_xlabel(f"{results.metric} (%)")
    axis.grid(axis="x", color="#e5e5e5", linewidth=0.8)
    axis.set_axisbelow(True)
    figure.legend(loc="outside upper center", ncols=min(4, len(results.splits)), frameon=False)
    return saved(figure, "png", dpi=min(150.0, _TALLEST / figure.get_figheight()))
