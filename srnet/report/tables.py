"""The tables of a report, for the terminal, Markdown and the page; the verdict in one line."""

from __future__ import annotations

from collections.abc import Sequence

from srnet.core.tables import Table
from srnet.evaluation import MIN_SEEDS
from srnet.evaluation.verdict import ALPHA, Verdict, seeds_in_words, share_text
from srnet.report.claims import Finding
from srnet.report.evidence import Summary
from srnet.report.results import Results


def score_table(results: Results, names: Sequence[str] = ()) -> Table:
    """One row per model, then the baselines. `names` are shorter names of the models."""
    columns = _compared(results)
    rows = []
    for summary, name in zip(results.summaries, names or [s.name for s in results.summaries], strict=True):
        scores = [str(summary.scores[split]) for split in results.splits]
        compared = [""] * len(columns)
        if (verdict := summary.verdict) is not None:
            compared = [verdict.kept_percent, str(verdict.id_kept), "\n".join(verdict.gain_lines), verdict.short]
        elif summary.id_gain is not None:
            compared = [str(summary.id_gain)]
        rows.append([name, f"{100 * summary.sparsity:.2f} %", *scores, *compared, f"{summary.steps:,.0f}"])
    for name, own in (results.constant | results.bias_models | results.theory).items():
        rows.append([name, "", *(f"{own[split]:.1f}" for split in results.splits), *[""] * (len(columns) + 1)])
    header = ["model", "sparsity", *results.splits.values(), *columns, "training steps"]
    return Table(header, rows, soft=range(len(results.summaries), len(rows)))


def _compared(results: Results) -> list[str]:
    """The columns that compare a subnetwork with the full CE model. Without OOD data nothing is an SRNet."""
    if not results.ood_splits:
        return ["ID minus full CE model [95 %]"]
    kept = f"ID minus {share_text(results.recipe.keeps)} of full CE model [95 %]"
    return ["ID kept", kept, "OOD minus full CE model [95 %]", "SRNet?"]


def results_table(results: Results) -> Table:
    """The scores without the intervals, for which a terminal is too narrow."""
    by_sparsity = results.recipe.axis in ("sparsity", "kept")  # which has a column of its own
    table = score_table(results, [s.label for s in results.summaries] if by_sparsity else ())
    shown = [*range(2 + len(results.splits)), -2]
    return Table(
        [table.columns[column] for column in shown],
        [[row[column] for column in shown] for row in table.rows],
        f"{results.recipe.name}: {results.recipe.task.name}, {results.metric} (%)",
        texts=(0, len(shown) - 1),
        soft=table.soft,
    )


def findings_table(findings: Sequence[Finding]) -> Table:
    """Every claim with its answer and the differences that it rests on."""
    levels = {finding.alpha for finding in findings if finding.conditions} - {ALPHA}
    tested = f"Answers are tested at a one-sided level of {min(levels):.2g}; intervals are of 95 %." if levels else ""
    rows = []
    for finding in findings:
        seeds = [f"{finding.seeds} seeds"] if finding.seeds > 1 else []
        statement = f"{finding.claim.name}: {finding.claim.sentence}"
        rows.append((finding.task, statement, finding.answer, "\n".join([*seeds, *finding.details])))
    return Table(("task", "claim", "answer", "figures"), rows, note=tested, texts=range(4))


def verdict_line(results: Results) -> str:
    """The SRNet that gains most and the sparsest one, or a sentence that there is none."""
    judged = [(summary, summary.verdict) for summary in results.summaries if summary.verdict is not None]
    if not results.ood_splits:
        return "No verdict: without an OOD set nothing can be called robust."
    if not judged:
        return "No verdict: there is no subnetwork to judge."
    seeds = max(verdict.seeds for _, verdict in judged)
    judged = [pair for pair in judged if pair[1].seeds == seeds]  # others were tried with the first seed only
    if seeds < MIN_SEEDS:
        return (
            f"No verdict: {seeds_in_words(seeds)} cannot tell a gain from luck; at least {MIN_SEEDS} seeds are needed."
        )
    if certain := [(summary, verdict) for summary, verdict in judged if verdict.is_srnet]:
        return _found(certain, len(judged))
    undecided = [(summary, verdict) for summary, verdict in judged if verdict.answer != "no"]
    if not undecided:
        return (
            f"Verdict: no subnetwork is an SRNet. Each certainly keeps less than {share_text(results.recipe.keeps)} of "
            "the full CE model's ID score or falls below it out of distribution."
        )
    nearest, verdict = min(undecided, key=lambda pair: pair[1].p_value)
    refuted = len(judged) - len(undecided)
    nots = f" and {refuted} certainly {'is' if refuted == 1 else 'are'} not" if refuted else ""
    return (
        f"Verdict: not certain. Of {len(judged)} subnetworks none certainly is an SRNet{nots}. "
        f"The nearest is {nearest.name}: {verdict.explained}."
    )


def _found(certain: list[tuple[Summary, Verdict]], of: int) -> str:
    best, verdict = max(certain, key=lambda pair: min(gain.difference for gain in pair[1].gains.values()))
    sparsest, _ = max(certain, key=lambda pair: pair[0].sparsity)
    line = f"Verdict: {best.label} at {100 * best.sparsity:.1f} % sparsity. {verdict}."
    others = f" {len(certain)} of {of} subnetworks certainly {'is an SRNet' if len(certain) == 1 else 'are SRNets'}"
    is_best = sparsest.point.place.sparsity <= best.point.place.sparsity
    return f"{line}{others}{'' if is_best else f'; the sparsest is {sparsest.name}'}."
