"""Figures for a paper: score over sparsity (or start, or length), ID and OOD side by side."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from srnet.experiment import Prune
from srnet.recipes.points import Axis, Point, labels_of
from srnet.report.results import Results, Summary

# Okabe and Ito: distinguishable with any kind of colour vision
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

LEVEL_STYLES = (":", (0, (6, 2, 1, 2)), (0, (6, 2, 1, 2, 1, 2)))
"""Thin lines: the majority class, and theory's classifiers where there are any."""

AXES: dict[Axis, str] = {
    "sparsity": "sparsity (% of weights pruned)",
    "kept": "weights kept (%)",
    "start": "steps of fine-tuning before the search",
    "length": "steps of the search",
}


def colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


@dataclass(frozen=True)
class Look:
    """How a line is drawn."""

    colour: str
    marker: int
    dashed: bool


def looks(points: Sequence[Point]) -> dict[str, Look]:
    """By label. A distilled series has the colour of the same one without a teacher; when colours run out, dashes."""
    first = {point.label: point for point in reversed(points)}
    places: dict[str, int] = {}
    for label in labels_of(points):
        copies = [place for other, place in places.items() if _differ_in_distillation(first[label], first[other])]
        places[label] = copies[0] if copies else len(set(places.values()))
    return {
        label: Look(colour(place), place % len(MARKERS), _distilled(first[label]) or place >= len(COLOURS))
        for label, place in places.items()
    }


def _distilled(point: Point) -> bool:
    return point.search is not None and point.search.objective.distillation is not None


def _differ_in_distillation(one: Point, other: Point) -> bool:
    def method(search: Prune | None) -> object:
        return search and (search.pruner.name, search.objective.name, search.parent, search.data)

    same = one.paradigm == other.paradigm and method(one.search) == method(other.search)
    return same and _distilled(one) != _distilled(other)


def kept_ticks(results: Results) -> list[float]:
    """The shares that were asked for, in percent."""
    wanted = {s.place.sparsity for s in results.summaries if s.is_pruned}
    return sorted(round(100.0 * (1.0 - sparsity), 3) for sparsity in wanted)


def by_line(results: Results) -> dict[str, list[Summary]]:
    """The points of each line, from left to right."""
    lines: dict[str, list[Summary]] = {}
    for summary in sorted(results.summaries, key=lambda s: s.x):
        lines.setdefault(summary.label, []).append(summary)
    return {label: lines[label] for label in labels_of(results.recipe.points)}


def side_by_side(results: Results) -> list[Summary]:
    """The points in the order of the lines, if each line has just one of them and all stand at the same place.

    A table, rather than a curve: its points would lie on top of each other.
    """
    varied = [summary for summary in results.summaries if summary.is_pruned]
    lines, places = {s.label for s in varied}, {round(s.x, 1) for s in varied}
    return varied if len(varied) > 1 and len(varied) == len(lines) and len(places) == 1 else []


def draw_curves(results: Results) -> dict[str, bytes]:
    """As `png` and `pdf`: one panel for ID, one for each OOD split. Bands are one standard deviation over seeds."""
    figure, axes = plt.subplots(
        1,
        len(results.splits),
        figsize=(5.2 * len(results.splits), 4.6),
        squeeze=False,
        sharey=True,
        layout="constrained",
    )
    table, styles = side_by_side(results), looks(results.recipe.points)
    for axis, split in zip(axes[0], results.splits, strict=True):
        for label, summaries in by_line(results).items():
            place = table.index(summaries[0]) if summaries[0] in table else None
            _draw_line(axis, summaries, split, styles[label], place)
        for (name, own), style in zip(results.levels.items(), LEVEL_STYLES, strict=False):
            axis.axhline(own[split], color="#777777", linewidth=0.8, linestyle=style, label=name)
        axis.set_title(results.named(split))
        axis.set_xlabel(AXES[results.recipe.axis] if not table else f"{100 * table[0].sparsity:.0f} % sparse")
        if table:
            axis.set_xticks(range(len(table)), [s.label for s in table], rotation=25, ha="right", fontsize=8)
        elif results.recipe.axis == "kept":
            axis.set_xscale("log")
            axis.set_xticks(kept_ticks(results), [f"{tick:g}" for tick in kept_ticks(results)])
            axis.minorticks_off()
        axis.grid(color="#e5e5e5", linewidth=0.8)
        axis.set_axisbelow(True)
    axes[0][0].set_ylabel(f"{results.metric} (%)")
    handles, names = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(3, len(names)), frameon=False)
    seeds = len(results.recipe.seeds)
    title = results.recipe.title or results.recipe.name
    heading = f"{title}: {results.recipe.task.name}, {seeds} seed{'s' if seeds > 1 else ''}"
    figure.suptitle(textwrap.fill(heading, 50 * len(results.splits)))  # about as wide as a panel
    files = {}
    for format in ("png", "pdf"):
        buffer = io.BytesIO()
        # without a date the same results give the same bytes
        figure.savefig(buffer, format=format, dpi=150, metadata={"CreationDate": None} if format == "pdf" else None)
        figure.set_layout_engine("none")  # it is laid out now, and that takes most of the time
        files[format] = buffer.getvalue()
    plt.close(figure)
    return files


def _draw_line(axis: Any, summaries: list[Summary], split: str, look: Look, place: int | None = None) -> None:
    label, colour = summaries[0].label, look.colour
    scores = [summary.scores[split] for summary in summaries]
    if not summaries[0].is_pruned:  # a full model has nothing to vary: a level across the panel
        axis.axhline(scores[0].mean, color=colour, linestyle="--", linewidth=1.6, label=label)
        axis.axhspan(
            scores[0].mean - scores[0].sd, scores[0].mean + scores[0].sd, color=colour, alpha=0.10, linewidth=0
        )
        return
    x = [summary.x for summary in summaries] if place is None else [place]
    axis.plot(
        x,
        [s.mean for s in scores],
        color=colour,
        marker=MARKERS[look.marker],
        markerfacecolor="white" if look.dashed else colour,
        linestyle=(0, (4, 2)) if look.dashed else "-",
        linewidth=1.8,
        markersize=6,
        label=label,
    )
    axis.fill_between(x, [s.mean - s.sd for s in scores], [s.mean + s.sd for s in scores], color=colour, alpha=0.15)
    if len(x) == 1 and scores[0].sd:
        axis.errorbar(x, [scores[0].mean], yerr=[scores[0].sd], color=colour, capsize=3)
