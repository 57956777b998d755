"""The results as a table in the terminal, and the verdict in one line."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from srnet.evaluation import ALPHA, MIN_SEEDS, Verdict, seeds_in_words
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
    for name, own in results.baselines.items():
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
        "ID minus 95 % of full CE model [95 %]": [] if verdict is None else [str(verdict.id_kept)],
        "OOD minus full CE model [95 %]": [] if verdict is None else verdict.gain_lines,
        "SRNet?": [] if verdict is None else [verdict.short],
    }


def _name(results: Results, summary: Summary) -> str:
    """The line; where the sparsity is not what varies, also what does."""
    return summary.label if results.recipe.axis in ("sparsity", "kept") else summary.name


Judged = list[tuple[Summary, Verdict]]


def judged(results: Results) -> Judged:
    return [(summary, summary.verdict) for summary in results.summaries if summary.verdict is not None]


def has_srnet(results: Results) -> bool:
    """Whether any subnetwork certainly is one."""
    return any(verdict.is_srnet for _, verdict in judged(results))


def verdict_line(results: Results) -> str:
    """The SRNet that gains most and the sparsest one, or a sentence that there is none."""
    if not results.ood_splits:
        return "No verdict: without an OOD set nothing can be called robust."
    every = judged(results)
    if not every:
        return "No verdict: there is no subnetwork to judge."
    if every[0][1].seeds < MIN_SEEDS:
        return (
            f"No verdict: {seeds_in_words(every[0][1].seeds)} cannot tell a gain from luck; "
            f"at least {MIN_SEEDS} seeds are needed."
        )
    certain = [(summary, verdict) for summary, verdict in every if verdict.is_srnet]
    return _found(certain, len(every)) if certain else _nothing_found(every)


def _found(certain: Judged, of: int) -> str:
    best, verdict = max(certain, key=lambda pair: min(gain.difference for gain in pair[1].gains.values()))
    sparsest, _ = max(certain, key=lambda pair: pair[0].sparsity)
    line = f"Verdict: {best.label} at {100 * best.sparsity:.1f} % sparsity. {verdict}."
    others = f" {len(certain)} of {of} subnetworks certainly {'is an SRNet' if len(certain) == 1 else 'are SRNets'}"
    named = "" if sparsest.place.sparsity <= best.place.sparsity else f"; the sparsest is {sparsest.name}"
    return f"{line}{others}{named}."


def _nothing_found(every: Judged) -> str:
    open_ones = [(summary, verdict) for summary, verdict in every if verdict.answer != "no"]
    if not open_ones:
        return (
            "Verdict: no subnetwork is an SRNet. Each certainly keeps less than 95 % of the full CE model's ID score "
            "or falls below it out of distribution."
        )
    nearest, verdict = min(open_ones, key=lambda pair: pair[1].p_value)
    return (
        f"Verdict: not certain. Of {len(every)} subnetworks none certainly is an SRNet and "
        f"{len(every) - len(open_ones)} certainly {'is' if len(every) - len(open_ones) == 1 else 'are'} not. "
        f"The nearest is {nearest.name}: {verdict.figures}."
    )


def findings_table(findings: Sequence[Finding]) -> Table:
    levels = {finding.alpha for finding in findings if finding.parts} - {ALPHA}
    tested = f"Answers are tested at a one-sided level of {min(levels):.2g}; intervals are of 95 %." if levels else None
    table = Table(show_lines=True, caption=tested, caption_justify="left")
    for name in ("task", "claim", "answer", "figures"):
        table.add_column(name)
    for finding in findings:
        parts = [str(part) for part in finding.parts]
        said = [f"{finding.seeds} seeds"] * (finding.seeds > 1) + parts + [finding.note] * bool(finding.note)
        statement = f"{finding.claim.name}: {finding.claim.statement} ({finding.claim.source})"
        table.add_row(finding.task, statement, finding.answer, "\n".join(said))
    return table
