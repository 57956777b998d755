"""The same results as plain Markdown, for a repository or a mail."""

from __future__ import annotations

from collections.abc import Sequence

from srnet import __version__
from srnet.report.claims import Finding
from srnet.report.page import Page, Section
from srnet.report.results import Results
from srnet.report.table import comparison, verdict_line
from srnet.tasks.splits import LEVELS


def render_markdown(page: Page) -> str:
    parts = [f"# {page.title}", f"Made by `{page.command}` with srnet {__version__}."]
    if page.findings:
        parts += ["## Claims", _claims(page.findings)]
    for section in page.sections:
        parts += [f"## {section.title}", *_section(section)]
    return "\n\n".join(parts) + "\n"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def _claims(findings: Sequence[Finding]) -> str:
    rows = [
        [
            finding.task,
            f"{finding.claim.statement} ({finding.claim.source})",
            f"**{finding.answer}**",
            str(finding.seeds or ""),
            "<br>".join([str(part) for part in finding.parts] + [finding.note][: bool(finding.note)]),
        ]
        for finding in findings
    ]
    return _table(("task", "claim", "answer", "seeds", "difference in points [95 % interval]"), rows)


def _section(section: Section) -> list[str]:
    results = section.results
    scores = [results.named(split) for split in results.splits]
    rows = []
    for summary in results.summaries:
        rows.append([
            summary.name,
            f"{100 * summary.sparsity:.2f} %",
            *(str(summary.scores[split]) for split in results.splits),
            *("<br>".join(lines) for lines in comparison(results, summary).values()),
            f"{summary.steps:,.0f}",
        ])  # fmt: skip
    compared = list(comparison(results, results.summaries[0]))
    for name, own in results.baselines.items():
        rows.append([name, "", *(f"{own[split]:.1f}" for split in results.splits), *[""] * len(compared), ""])
    header = ("model", "sparsity", *scores, *compared, "training steps")
    return [
        f"`{section.command}`, {results.metric} in percent.",
        _table(header, rows),
        verdict_line(results),
        *(f"Warning: {warning}." for warning in results.warnings),
        *results.notes,
        *_sub_cases(results),
    ]


def _sub_cases(results: Results) -> list[str]:
    """Accuracy by sub-case where they have levels (HANS: heuristic and label); the deepest level is in the csv."""
    parts = []
    for split in results.splits:
        cases = [g for g in results.summaries[0].groups[split] if g.count(LEVELS) == 1]
        if cases:
            rows = [[s.name, *(str(s.groups[split][case]) for case in cases)] for s in results.summaries]
            parts += [f"{results.named(split)}: accuracy by sub-case.", _table(("model", *cases), rows)]
    return parts
