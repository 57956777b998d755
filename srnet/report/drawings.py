"""Pictures as files, drawn with matplotlib: the curves of the page for a paper, and the mosaic of a mask."""

from __future__ import annotations

import io
import re
import textwrap
from html import unescape
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from srnet.errors import shortened
from srnet.masks import Mask
from srnet.report.panels import SYMBOLS, curves
from srnet.report.pictures import Picture
from srnet.report.results import Results

MARKERS = dict(zip(("", *SYMBOLS), ("", "o", "s", "^", "D", "v", "P", "X"), strict=True))
BLOCKS = 32
"""A matrix is drawn as at most so many blocks in each direction."""
DASHES: dict[str, Any] = {
    "solid": "-", "dash": (0, (4, 2)), "dot": ":", "dashdot": (0, (6, 2, 1, 2)), "longdashdot": (0, (6, 2, 1, 2, 1, 2)),
}  # fmt: skip


def draw_curves(results: Results) -> dict[str, bytes]:
    """As `png` and `pdf`: one panel for ID, one for each OOD split. Bands are one standard deviation over seeds."""
    pictures, recipe, seeds = curves(results), results.recipe, len(results.recipe.seeds)
    figure = Figure(figsize=(5.2 * len(pictures), 4.6), layout="constrained")
    (axes,) = figure.subplots(1, len(pictures), squeeze=False, sharey=True)
    handles, *_ = (_draw(axis, picture) for axis, picture in zip(axes, pictures, strict=True))
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=min(3, len(handles)), frameon=False)
    axes[0].set_ylabel(f"{results.metric} (%)")
    heading = f"{recipe.title or recipe.name}: {recipe.task.name}, {seeds} seed{'s' if seeds > 1 else ''}"
    figure.suptitle(textwrap.fill(_literal(heading), 50 * len(pictures)))  # about as wide as a panel
    png = _saved(figure, "png", dpi=150)
    figure.set_layout_engine("none")  # it is laid out now, and that takes most of the time
    # without a date the same results give the same bytes
    return {"png": png, "pdf": _saved(figure, "pdf", metadata={"CreationDate": None})}


def _saved(figure: Figure, format: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=format, **options)
    return buffer.getvalue()


def _literal(text: str) -> str:
    """Text that matplotlib shows unchanged: what is between two dollar signs would be parsed as a formula."""
    return shortened(unescape(text)).replace("$", r"\$")


def _draw(axis: Any, picture: Picture) -> dict[str, Any]:
    """What the legend needs: the lines, by label."""
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
        handles[_literal(trace["name"])] = axis.errorbar(trace["x"], trace["y"], sd, **look)
    axis.set_title(_literal(picture["layout"]["title"]["text"]))
    axis.set_xlabel(x_axis["title"]["text"])
    axis.margins(x=0.0)  # the levels reach beyond the points
    axis.set_xscale(x_axis.get("type", "linear"))
    if "tickvals" in x_axis:
        turned = {} if x_axis.get("type") == "log" else {"rotation": 25, "ha": "right", "fontsize": 8}
        axis.set_xticks(x_axis["tickvals"], map(_literal, x_axis["ticktext"]), **turned)
        axis.minorticks_off()
    axis.grid(color="#e5e5e5", linewidth=0.8)
    axis.set_axisbelow(True)
    return handles


def short_name(name: str) -> str:
    """bert.encoder.layer.0.attention.self.query.weight -> 0 attention.self.query"""
    found = re.search(r"\.(\d+)\.(.+)\.weight$", name)
    return f"{found[1]} {found[2]}" if found else name.removesuffix(".weight")


def draw_mosaic(mask: Mask, columns: int = 6) -> bytes:
    """Every matrix of a mask as a small picture: the darker a block, the more of its weights are kept."""
    cell, gap = BLOCKS + 4, 8
    rows = -(-len(mask) // columns)
    canvas = np.full((rows * (cell + gap), columns * cell), np.nan)
    figure = Figure(figsize=(1.7 * columns + 1.0, 1.7 * rows * (cell + gap) / cell))
    axis = figure.add_axes((0.01, 0.01, 0.9, 0.98))
    axis.set_axis_off()
    for index, (name, tensor) in enumerate(mask.items()):
        top, left = (index // columns) * (cell + gap) + gap, (index % columns) * cell
        drawn = blocks(tensor)
        canvas[top : top + drawn.shape[0], left : left + drawn.shape[1]] = drawn
        axis.text(left, top - 2.5, short_name(name), fontsize=6.5, va="center", parse_math=False)
    image = axis.imshow(canvas, cmap="viridis_r", vmin=0.0, vmax=float(np.nanmax(canvas)), interpolation="nearest")
    figure.colorbar(image, cax=figure.add_axes((0.925, 0.25, 0.015, 0.5)), label="share kept")
    return _saved(figure, "png", dpi=110)


def blocks(matrix: torch.Tensor, most: int = BLOCKS) -> np.ndarray:
    """The share kept in each block of a matrix."""
    kept = matrix.to(torch.float32)[None, None]
    rows, columns = (min(most, side) for side in matrix.shape)
    return np.asarray(torch.nn.functional.adaptive_avg_pool2d(kept, (rows, columns))[0, 0])
