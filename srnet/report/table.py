"""The results as a table in the terminal, and the verdict in one line."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from srnet.report.claims import Finding
from srnet.report.results import Results, Summary

MINUS_FULL = "ID minus full CE model [95 %]"


def results_table(results: Results) -> Table:
    table = Table(
        title=f"{results.recipe.name}: {results.recipe.task.name}, {results.metric} (%)", title_justify="left"
    )
    table.add_column("model")
    for name in ("sparsity", *map(results.named, results.splits)):
        table.add_column(name, justify="right")
    table.add_column(list(comparison(results, results.summaries[0]))[-1])
    splits = results.splits
    for summary in results.summaries:
        scores = [str(summary.scores[split]) for split in splits]
        table.add_row(_name(results, summary), f"{100 * summary.sparsity:.2f} %", *scores, _said(results, summary))
    table.add_row(results.floor, "", *(f"{results.majority[split]:.1f}" for split in splits), "", style="dim")
    for name, own in results.bias_scores.items():
        table.add_row(name, "", *(f"{own[split]:.1f}" for split in splits), "", style="dim")
    return table


def _said(results: Results, summary: Summary) -> str:
    return "".join(list(comparison(results, summary).values())[-1])


def comparison(results: Results, summary: Summary) -> dict[str, list[str]]:
    """How a subnetwork compares with the full CE model: lines by column. Without OOD data nothing is an SRNet."""
    verdict = summary.verdict
    if not results.ood_splits:
        return {MINUS_FULL: [] if summary.id_gain is None else [str(summary.id_gain)]}
    return {
        "ID kept": [] if verdict is None else [verdict.kept_percent],
        "OOD minus full CE model [95 %]": [] if verdict is None else verdict.gains,
        "SRNet?": [answer(summary)],
    }


def _name(results: Results, summary: Summary) -> str:
    """The line; where the sparsity is not what varies, also what does."""
    return summary.line.label if results.recipe.axis in ("sparsity", "kept") else summary.name


def answer(summary: Summary) -> str:
    if summary.verdict is None:
        return ""
    if not summary.verdict.is_srnet:
        return "no"
    return "yes" if summary.verdict.certain else "yes, not certain"


def verdict_line(results: Results) -> str:
    """The SRNet that gains most and the sparsest one, or the honest absence of any."""
    if not results.ood_splits:
        return "No verdict: without an OOD set nothing can be called robust."
    judged = [(s, s.verdict) for s in results.summaries if s.verdict is not None]
    found = [(s, verdict) for s, verdict in judged if verdict.is_srnet]
    if not found:
        return "Verdict: no subnetwork keeps 95 % of the full CE model's ID score and beats it out of distribution."
    certain = [(s, verdict) for s, verdict in found if verdict.certain] or found
    best, verdict = max(certain, key=lambda pair: min(pair[1].ood_gain.values()))
    sparsest, _ = max(certain, key=lambda pair: pair[0].sparsity)
    line = f"Verdict: {best.line.label} at {100 * best.sparsity:.1f} % sparsity. {verdict}."
    others = f" {len(found)} of {len(judged)} subnetworks are SRNets"
    return line + (
        others + "."
        if sparsest.sparsity_target <= best.sparsity_target
        else f"{others}; the sparsest is {sparsest.name}."
    )


def findings_table(findings: Sequence[Finding]) -> Table:
    table = Table(show_lines=True)
    for name in ("task", "claim", "answer", "figures"):
        table.add_column(name)
    for finding in findings:
        parts = [str(part) for part in finding.parts]
        said = [f"{finding.seeds} seeds"] * (finding.seeds > 1) + parts + [finding.note] * bool(finding.note)
        statement = f"{finding.claim.name}: {finding.claim.statement} ({finding.claim.source})"
        table.add_row(finding.task, statement, finding.answer, "\n".join(said))
    return table
