"""Score over sparsity, ID and OOD side by side."""

from __future__ import annotations

import io
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from srnet.report.results import Results, Summary

# Okabe and Ito: distinguishable with any kind of colour vision
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def draw_curves(results: Results) -> bytes:
    """A PNG: one panel for ID, one for each OOD split. Bands are one standard deviation over seeds."""
    splits = (results.id_split, *results.ood_splits)
    figure, axes = plt.subplots(
        1, len(splits), figsize=(5.2 * len(splits), 4.6), squeeze=False, sharey=True, layout="constrained"
    )
    labels = list(dict.fromkeys(s.line.label for s in results.summaries))
    style = {label: (COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]) for i, label in enumerate(labels)}
    for axis, split in zip(axes[0], splits, strict=True):
        for label in labels:
            _draw_line(axis, [s for s in results.summaries if s.line.label == label], split, style[label])
        kind = "ID" if split == results.id_split else "OOD"
        axis.axhline(results.majority[split], color="#999999", linewidth=1, linestyle=":", label="majority class")
        axis.set_title(f"{kind}: {split}")
        axis.set_xlabel("sparsity (% of weights pruned)")
        axis.grid(color="#e5e5e5", linewidth=0.8)
        axis.set_axisbelow(True)
    axes[0][0].set_ylabel(f"{results.metric} (%)")
    handles, names = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(4, len(names)), frameon=False)
    seeds = len(results.recipe.seeds)
    figure.suptitle(f"{results.recipe.name}: {results.recipe.task.name}, {seeds} seed{'s' if seeds > 1 else ''}")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    plt.close(figure)
    return buffer.getvalue()


def _draw_line(axis: Any, summaries: list[Summary], split: str, style: tuple[str, str]) -> None:
    colour, marker = style
    label = summaries[0].line.label
    summaries = sorted(summaries, key=lambda summary: summary.sparsity)
    scores = [summary.scores[split] for summary in summaries]
    if summaries[0].line.pruner is None:  # a full model has no sparsity to vary: a level across the panel
        axis.axhline(scores[0].mean, color=colour, linestyle="--", linewidth=1.6, label=label)
        axis.axhspan(
            scores[0].mean - scores[0].sd, scores[0].mean + scores[0].sd, color=colour, alpha=0.10, linewidth=0
        )
        return
    x = [100 * summary.sparsity for summary in summaries]
    axis.plot(x, [s.mean for s in scores], color=colour, marker=marker, linewidth=1.8, markersize=6, label=label)
    axis.fill_between(x, [s.mean - s.sd for s in scores], [s.mean + s.sd for s in scores], color=colour, alpha=0.15)
