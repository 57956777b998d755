"""The tables of a report, for the terminal, Markdown and the page; the verdict in one line."""

from __future__ import annotations

from collections.abc import Sequence

from srnet.core.tables import Table
from srnet.evaluation import MIN_SEEDS
from srnet.evaluation.significance import Spread
from srnet.evaluation.verdict import ALPHA, Verdict, seeds_in_words
from srnet.report.claims import Finding
from srnet.report.evidence import Column, Summary
from srnet.report.groups import group_table
from srnet.report.results import Results

Judged = tuple[Summary, Verdict]
"""A subnetwork with its verdict."""


def score_table(results: Results, names: Sequence[str] = ()) -> Table:
    """One row per model, then the baselines; the verdict is the third column. `names` are shorter names of the models.

    An interval is on a line of its own in its cell: beside its difference it would make the table too wide for a page.
    """
    judged, compared, columns = _verdict_column(results), _compared(results), _in_table(results)
    rows = []
    for summary, name in zip(results.summaries, names or [s.name for s in results.summaries], strict=True):
        verdict = [summary.answer] * len(judged)
        scores = [_score(summary.scores[name], column) for name, column in columns.items()]
        sparsity, steps = f"{100 * summary.sparsity:.2f} %", f"{summary.steps:,.0f}"
        rows.append([name, sparsity, *verdict, *scores, *_comparison(summary, len(compared)), steps])
    for name, own in (results.constant | results.bias_models | results.theory).items():
        scores = [f"{own[column]:.1f}" if column in own else "" for column in columns]
        rows.append([name, "", *[""] * len(judged), *scores, *[""] * (len(compared) + 1)])
    titles = [column.title for column in columns.values()]
    header = ["model", "sparsity", *judged, *titles, *compared, "training steps"]
    return Table(header, rows, soft=range(len(results.summaries), len(rows)))


def _in_table(results: Results) -> dict[str, Column]:
    return {name: column for name, column in results.columns.items() if column.in_table}


def _score(score: Spread, column: Column) -> str:
    """The mean and its standard deviation; two more digits where scores are no percentages and below 10."""
    return str(score) if column.is_percentage or score.mean >= 10.0 else score.rounded(3)


def _verdict_column(results: Results) -> list[str]:
    """Without OOD data nothing is an SRNet."""
    return [results.criterion.question] if results.can_judge else []


def _compared(results: Results) -> list[str]:
    """The columns that compare a subnetwork with the full CE model."""
    if not results.can_judge:
        return [] if results.is_of_language else ["ID minus full CE model [95 %]"]
    return results.criterion.columns(results.recipe.keeps)


def _comparison(summary: Summary, columns: int) -> list[str]:
    """The cells of these columns, empty for a full model."""
    if summary.verdict is not None:
        return verdict_cells(summary.verdict)
    return [_two_lines(summary.id_gain)] if summary.id_gain is not None and columns else [""] * columns


def verdict_cells(verdict: Verdict) -> list[str]:
    """What is kept, and the differences that decide."""
    return ["\n".join(map(_two_lines, lines)) for lines in verdict.cells]


def _two_lines(difference: object) -> str:
    return str(difference).replace(" [", "\n[", 1)


def results_table(results: Results) -> Table:
    """The scores without the intervals, for which a terminal is too narrow."""
    by_sparsity = results.recipe.axis in ("sparsity", "kept")  # which has a column of its own
    table = score_table(results, [s.label for s in results.summaries] if by_sparsity else ())
    judged = len(_verdict_column(results))
    scores = [2 + judged + place for place, column in enumerate(_in_table(results).values()) if column.is_brief]
    shown = [*range(2 + judged), *scores, *([-2] if _compared(results) and not judged else [])]
    return Table(
        [table.columns[column] for column in shown],
        [[row[column].replace("\n", " ") for column in shown] for row in table.rows],
        f"{results.recipe.name}: {results.recipe.task.name}, {results.units}",
        texts=(0, 2) if judged else (0,),
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


def worst_groups(results: Results) -> Table:
    """Worst-group and pair accuracy; without rows where the task has neither groups nor pairs."""
    return group_table(results.group_rows, "full CE model", results.left_out)


def verdict_line(results: Results) -> str:
    """The SRNet that gains most and the sparsest one, or a sentence that there is none."""
    judged, chosen = judged_subnetworks(results), best_subnetwork(results)
    if not results.can_judge:
        return f"No verdict: {results.criterion.needs}."
    if chosen is None:
        if any(summary.point.is_control for summary in results.summaries):
            return "No verdict: every subnetwork is a control, and these are never chosen."
        return "No verdict: there is no subnetwork to judge."
    best, verdict = chosen
    if not verdict.has_shortcut:
        return "No shortcut: the bias model does not predict the labels of ID dev, so there is nothing to be robust to."
    if verdict.seeds < MIN_SEEDS:
        seeds = seeds_in_words(verdict.seeds)
        return f"No verdict: {seeds} cannot tell a gain from luck; at least {MIN_SEEDS} seeds are needed."
    if verdict.is_srnet:
        return _found(best, verdict, judged)
    if verdict.answer == "no":
        return f"Verdict: no subnetwork is {verdict.a_name}. {verdict.refuted(results.recipe.keeps)}"
    refuted = sum(each.answer == "no" for _, each in judged)
    nots = f" and {refuted} certainly {'is' if refuted == 1 else 'are'} not" if refuted else ""
    return (
        f"Verdict: not certain. Of {len(judged)} subnetworks none certainly is {verdict.a_name}{nots}. "
        f"The nearest is {best.name}: {verdict.explained}."
    )


def judged_subnetworks(results: Results) -> list[Judged]:
    """Those with a verdict and with all seeds: others were only tried. Baselines and controls are not searched for."""
    own = [each for each in results.summaries if not (each.point.is_baseline or each.point.is_control)]
    judged = [(summary, summary.verdict) for summary in own if summary.verdict is not None]
    seeds = max((verdict.seeds for _, verdict in judged), default=0)
    return [pair for pair in judged if pair[1].seeds == seeds]


def best_subnetwork(results: Results) -> Judged | None:
    """The SRNet that gains most; without one the nearest that is not refuted, else the nearest."""
    judged = judged_subnetworks(results)
    if certain := [pair for pair in judged if pair[1].is_srnet]:
        return max(certain, key=lambda pair: (pair[1].rank, pair[0].sparsity))
    return min(judged, key=lambda pair: (pair[1].answer == "no", pair[1].p_value), default=None)


def _found(best: Summary, verdict: Verdict, judged: Sequence[Judged]) -> str:
    certain = [summary for summary, each in judged if each.is_srnet]
    sparsest = max(certain, key=lambda summary: summary.sparsity)
    line = f"Verdict: {best.label} at {100 * best.sparsity:.1f} % sparsity. {verdict}."
    others = f" {len(certain)} of {len(judged)} subnetworks certainly "
    others += f"is {verdict.a_name}" if len(certain) == 1 else f"are {verdict.plural}"
    is_best = sparsest.point.place.sparsity <= best.point.place.sparsity
    return f"{line}{others}{'' if is_best else f'; the sparsest is {sparsest.name}'}."
