"""Reports on results: tables, curves, the paper's claims, one page."""

from __future__ import annotations

from pathlib import Path

from srnet.files import write_bytes
from srnet.report.claims import CLAIMS, Finding, answer_claims
from srnet.report.drawings import draw_curves
from srnet.report.evidence import Evidence
from srnet.report.masks import mask_pictures
from srnet.report.page import SPEED, Page, Section, render_markdown, render_page, section_id
from srnet.report.results import Results, csv_text
from srnet.report.tables import findings_table, results_table, verdict_line

__all__ = [
    "CLAIMS",
    "Evidence",
    "Finding",
    "Page",
    "Results",
    "Section",
    "answer_claims",
    "findings_table",
    "mask_pictures",
    "report_files",
    "results_table",
    "section_id",
    "verdict_line",
    "write_report",
]


def report_files(*sections: str) -> list[str]:
    """What `write_report` writes for sections with these ids."""
    figures = [f"{section}.{format}" for section in sections for format in ("png", "pdf")]
    return ["report.html", "report.md", "results.csv", SPEED, *figures]


def write_report(page: Page, out: Path) -> None:
    """report.html, report.md, results.csv, speed.png if it was measured, each figure as PNG and PDF, in `out`."""
    texts = {
        "results.csv": csv_text([section.results for section in page.sections]),
        "report.md": render_markdown(page),
        "report.html": render_page(page),
    }
    for name, text in texts.items():  # a lone surrogate, as in the name of a file that is not UTF-8, becomes a "?"
        write_bytes(out / name, text.encode(errors="replace"))
    if page.speed:
        write_bytes(out / SPEED, page.speed)
    for section in page.sections:
        for format, data in draw_curves(section.results).items():
            write_bytes(out / f"{section.id}.{format}", data)
