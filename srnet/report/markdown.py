"""The same results as plain Markdown, for a repository or a mail."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from srnet import __version__
from srnet.report.claims import Finding
from srnet.report.page import Page, Section
from srnet.report.tables import score_table, verdict_line
from srnet.tasks.splits import LEVELS


def render_markdown(page: Page) -> str:
    parts = [f"# {literal(page.title)}", f"Made by {_code(page.command)} with srnet {__version__}."]
    if page.findings:
        header = ("task", "claim", "answer", "seeds", "difference in points [95 % interval]")
        parts += ["## Claims", _table(header, map(_claim_row, page.findings), bold="answer")]
    for section in page.sections:
        parts += [f"## {literal(section.title)}", *_section(section)]
    return "\n\n".join(parts) + "\n"


def literal(text: str) -> str:
    """Text that is shown as it is: in names that users choose nothing is markup. Line ends stay line ends."""
    return re.sub(r"[\\`*|]|\b_|_\b|\](?=\()", r"\\\g<0>", text).replace("&", "&amp;").replace("<", "&lt;")


def _code(text: str) -> str:
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence} {text} {fence}" if "`" in text else f"`{text}`"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], bold: str = "") -> str:
    """`bold` is the column that is printed in bold."""
    lines = [[*map(literal, header)], ["---"] * len(header)]
    for row in rows:
        cells = zip(header, (literal(cell).replace("\n", "<br>") for cell in row), strict=True)
        lines.append([f"**{cell}**" if column == bold else cell for column, cell in cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _claim_row(finding: Finding) -> list[str]:
    statement = f"{finding.claim.statement} ({finding.claim.source})"
    return [finding.task, statement, finding.answer, str(finding.seeds or ""), "\n".join(finding.figures)]


def _section(section: Section) -> list[str]:
    """Of sub-cases those with one level above them (HANS: heuristic and label); the deepest level is in the csv."""
    results = section.results
    parts = [f"{_code(section.command)}, {results.metric} in percent.", _table(*score_table(results))]
    texts = [verdict_line(results), *(f"Warning: {warning}." for warning in results.warnings), *results.notes]
    parts += map(literal, texts)
    for split, title in results.splits.items():
        cases = [case for case in results.summaries[0].groups[split] if case.count(LEVELS) == 1]
        if cases:
            rows = [[s.name, *(str(s.groups[split][case]) for case in cases)] for s in results.summaries]
            parts += [f"{title}: accuracy by sub-case.", _table(["model", *cases], rows)]
    return parts
