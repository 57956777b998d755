"""What a person looks at: the table, the curves, the page."""

from __future__ import annotations

from pathlib import Path

from srnet.files import write_bytes, write_text
from srnet.report.curves import draw_curves
from srnet.report.page import render_page
from srnet.report.results import Results, collect, nodes_of
from srnet.report.table import results_table, verdict_line

__all__ = ["Results", "collect", "nodes_of", "results_table", "verdict_line", "write_report"]


def write_report(results: Results, out: Path) -> None:
    """results.csv, curves.png and report.html in `out`."""
    picture = draw_curves(results)
    write_text(out / "results.csv", results.csv())
    write_bytes(out / "curves.png", picture)
    write_text(out / "report.html", render_page(results, picture))
