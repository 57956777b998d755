"""The same tables for the terminal, for Markdown and for the page; the verdict in one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.table import Table as TerminalTable
from rich.text import Text

from srnet.evaluation import ALPHA, MIN_SEEDS, Verdict, seeds_in_words
from srnet.report.claims import Finding
from srnet.report.evidence import Summary
from srnet.report.results import Results


class Table(NamedTuple):
    """Plain text. A cell may have several lines."""

    header: list[str]
    rows: list[list[str]]


def score_table(results: Results) -> Table:
    """One row a model, then what to compare with beside the models."""
    compared = [_comparison(results, summary) for summary in results.summaries]
    header = ["model", "sparsity", *results.splits.values(), *compared[0], "training steps"]
    rows = []
    for summary, comparison in zip(results.summaries, compared, strict=True):
        scores = [str(summary.scores[split]) for split in results.splits]
        sparsity, steps = f"{100 * summary.sparsity:.2f} %", f"{summary.steps:,.0f}"
        rows.append([summary.name, sparsity, *scores, *comparison.values(), steps])
    for name, own in (results.constant | results.bias_models | results.theory).items():
        rows.append([name, "", *(f"{own[split]:.1f}" for split in results.splits), *[""] * len(compared[0]), ""])
    return Table(header, rows)


def _comparison(results: Results, summary: Summary) -> dict[str, str]:
    """How a subnetwork compares with the full CE model, by column. Without OOD data nothing is an SRNet."""
    verdict = summary.verdict
    if not results.ood_splits:
        return {"ID minus full CE model [95 %]": str(summary.id_gain or "")}
    return {
        "ID kept": verdict.kept_percent if verdict else "",
        "ID minus 95 % of full CE model [95 %]": str(verdict.id_kept) if verdict else "",
        "OOD minus full CE model [95 %]": "\n".join(verdict.gain_lines) if verdict else "",
        "SRNet?": verdict.short if verdict else "",
    }


def results_table(results: Results) -> TerminalTable:
    """Without the intervals, for which a terminal is too narrow, and without the sparsity in the names of models."""
    title = f"{results.recipe.name}: {results.recipe.task.name}, {results.metric} (%)"
    table = TerminalTable(title=Text(title), title_justify="left")
    header, rows = score_table(results)
    columns = [*range(2 + len(results.splits)), -2]
    for column in columns:
        table.add_column(Text(header[column]), justify="left" if column in (0, -2) else "right")
    labels = [s.label for s in results.summaries] if results.recipe.axis in ("sparsity", "kept") else []
    for index, row in enumerate(rows):
        cells = [*labels[index : index + 1], row[0]][:1] + [row[column] for column in columns[1:]]
        table.add_row(*map(Text, cells), style="dim" if index >= len(results.summaries) else None)
    return table


def findings_table(findings: Sequence[Finding]) -> TerminalTable:
    levels = {finding.alpha for finding in findings if finding.parts} - {ALPHA}
    tested = f"Answers are tested at a one-sided level of {min(levels):.2g}; intervals are of 95 %." if levels else None
    table = TerminalTable("task", "claim", "answer", "figures", show_lines=True, caption=tested, caption_justify="left")
    for finding in findings:
        seeds = [f"{finding.seeds} seeds"] if finding.seeds > 1 else []
        statement, figures = f"{finding.claim.name}: {finding.claim.sentence}", "\n".join([*seeds, *finding.details])
        table.add_row(*map(Text, (finding.task, statement, finding.answer, figures)))
    return table


def verdict_line(results: Results) -> str:
    """The SRNet that gains most and the sparsest one, or a sentence that there is none."""
    judged = [(summary, summary.verdict) for summary in results.summaries if summary.verdict is not None]
    if not results.ood_splits:
        return "No verdict: without an OOD set nothing can be called robust."
    if not judged:
        return "No verdict: there is no subnetwork to judge."
    if (seeds := judged[0][1].seeds) < MIN_SEEDS:
        few = seeds_in_words(seeds)
        return f"No verdict: {few} cannot tell a gain from luck; at least {MIN_SEEDS} seeds are needed."
    if certain := [(summary, verdict) for summary, verdict in judged if verdict.is_srnet]:
        return _found(certain, len(judged))
    undecided = [(summary, verdict) for summary, verdict in judged if verdict.answer != "no"]
    if not undecided:
        return (
            "Verdict: no subnetwork is an SRNet. Each certainly keeps less than 95 % of the full CE model's ID score "
            "or falls below it out of distribution."
        )
    nearest, verdict = min(undecided, key=lambda pair: pair[1].p_value)
    refuted = len(judged) - len(undecided)
    return (
        f"Verdict: not certain. Of {len(judged)} subnetworks none certainly is an SRNet and {refuted} certainly "
        f"{'is' if refuted == 1 else 'are'} not. The nearest is {nearest.name}: {verdict.figures}."
    )


def _found(certain: list[tuple[Summary, Verdict]], of: int) -> str:
    best, verdict = max(certain, key=lambda pair: min(gain.difference for gain in pair[1].gains.values()))
    sparsest, _ = max(certain, key=lambda pair: pair[0].sparsity)
    line = f"Verdict: {best.label} at {100 * best.sparsity:.1f} % sparsity. {verdict}."
    others = f" {len(certain)} of {of} subnetworks certainly {'is an SRNet' if len(certain) == 1 else 'are SRNets'}"
    is_best = sparsest.point.place.sparsity <= best.point.place.sparsity
    return f"{line}{others}{'' if is_best else f'; the sparsest is {sparsest.name}'}."
