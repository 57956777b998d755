"""The curves of the page as files for a paper: ID and OOD side by side, drawn with matplotlib."""

from __future__ import annotations

import io
import textwrap
from html import unescape
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from srnet.errors import shortened
from srnet.report.panels import SYMBOLS, curves
from srnet.report.pictures import Picture
from srnet.report.results import Results

MARKERS = dict(zip(SYMBOLS, ("o", "s", "^", "D", "v", "P", "X"), strict=True))
DASHES: dict[str, Any] = {
    "solid": "-", "dash": (0, (4, 2)), "dot": ":", "dashdot": (0, (6, 2, 1, 2)), "longdashdot": (0, (6, 2, 1, 2, 1, 2)),
}  # fmt: skip


def draw_curves(results: Results) -> dict[str, bytes]:
    """As `png` and `pdf`: one panel for ID, one for each OOD split. Bands are one standard deviation over seeds."""
    pictures, recipe = curves(results), results.recipe
    size = (5.2 * len(pictures), 4.6)
    figure, (axes,) = plt.subplots(1, len(pictures), figsize=size, squeeze=False, sharey=True, layout="constrained")
    handles, *_ = (_draw(axis, picture) for axis, picture in zip(axes, pictures, strict=True))
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=min(3, len(handles)), frameon=False)
    axes[0].set_ylabel(f"{results.metric} (%)")
    heading = (
        f"{recipe.title or recipe.name}: {recipe.task.name}, {len(recipe.seeds)} seed{'s' * (len(recipe.seeds) > 1)}"
    )
    figure.suptitle(textwrap.fill(_literal(heading), 50 * len(pictures)))  # about as wide as a panel
    files = {}
    for format in ("png", "pdf"):
        buffer = io.BytesIO()
        # without a date the same results give the same bytes
        figure.savefig(buffer, format=format, dpi=150, metadata={"CreationDate": None} if format == "pdf" else None)
        figure.set_layout_engine("none")  # it is laid out now, and that takes most of the time
        files[format] = buffer.getvalue()
    plt.close(figure)
    return files


def _literal(text: str) -> str:
    """Text that matplotlib shows as it is: between two dollar signs it would look for a formula."""
    return shortened(unescape(text)).replace("$", r"\$")


def _draw(axis: Any, picture: Picture) -> dict[str, Any]:
    """What the legend needs: the lines, by label."""
    x_axis, handles = picture["layout"]["xaxis"], {}
    for trace in picture["data"]:
        if "fill" in trace:
            axis.fill(trace["x"], trace["y"], color=trace["fillcolor"], linewidth=0.0)
            continue
        symbol, style = trace["marker"]["symbol"], trace["line"]
        marker = MARKERS[symbol.removesuffix("-open")] if "markers" in trace["mode"] else ""
        look = {"color": style["color"], "linestyle": DASHES[style["dash"]], "linewidth": 0.9 * style["width"]}
        hollow = {"markerfacecolor": "white"} if symbol.endswith("-open") else {}
        spread = trace.get("error_y", {}).get("array")
        handles[_literal(trace["name"])] = axis.errorbar(
            trace["x"], trace["y"], spread, marker=marker, capsize=3, **look, **hollow
        )
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
