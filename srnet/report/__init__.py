"""What a person looks at: the table, the curves, the claims, the page."""

from __future__ import annotations

from pathlib import Path

from srnet.files import write_bytes, write_text
from srnet.report.claims import CLAIMS, Finding, answer_claims, check_claims
from srnet.report.curves import draw_curves
from srnet.report.evidence import Evidence
from srnet.report.markdown import render_markdown
from srnet.report.masks import mask_pictures
from srnet.report.page import Page, Section, render_page
from srnet.report.results import Results, collect, csv_text, results_of
from srnet.report.table import findings_table, results_table, verdict_line

__all__ = [
    "CLAIMS",
    "Evidence",
    "Finding",
    "Page",
    "Results",
    "Section",
    "answer_claims",
    "check_claims",
    "collect",
    "findings_table",
    "mask_pictures",
    "results_of",
    "results_table",
    "verdict_line",
    "write_report",
]


def write_report(page: Page, out: Path) -> None:
    """report.html, report.md, results.csv, and each figure as PNG and PDF, in `out`."""
    write_text(out / "results.csv", csv_text([section.results for section in page.sections]))
    for section in page.sections:
        for format, data in draw_curves(section.results).items():
            write_bytes(out / f"{section.id}.{format}", data)
    write_text(out / "report.md", render_markdown(page))
    write_text(out / "report.html", render_page(page))
