"""The first sentences of a report, from its verdicts, for a reader who knows none of its terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from srnet.core.prose import listed
from srnet.evaluation import MIN_SEEDS
from srnet.evaluation.verdict import FAILS, HOLDS, Verdict, seeds_in_words, share_text
from srnet.report import language
from srnet.report.claims import Finding
from srnet.report.evidence import Summary
from srnet.report.results import Results
from srnet.report.tables import best_subnetwork, verdict_line

NAMED = 3
"""How many figures a sentence names."""


def conclude(results: Sequence[Results], findings: Sequence[Finding] = ()) -> tuple[str, ...]:
    """What was found: on one figure the scores of its best subnetwork, on several how many claims hold."""
    return (_about_figure(results[0]),) if len(results) == 1 else tuple(_about_figures(results, findings))


def _about_figure(results: Results) -> str:
    if results.is_of_language and not results.can_judge:
        return verdict_line(results)
    dev = next(iter(results.splits))
    gains = {summary: summary.id_gain for summary in results.summaries if summary.id_gain is not None}
    if gains and not results.can_judge:
        best = max(gains, key=lambda summary: summary.scores[dev].mean)
        without = "There is no OOD set, so that nothing is said about robustness."
        return f"{_scores(results, best, {dev: gains[best].difference})} {without}"
    chosen = best_subnetwork(results)
    if chosen is None:
        return verdict_line(results)
    best, verdict = chosen
    if results.is_of_language:
        return language.conclude(results, best, verdict)
    lost = best.scores[dev].mean - verdict.full_id
    gained = {split: gain.difference for split, gain in verdict.gains.items()}
    return f"{_scores(results, best, {dev: lost, **gained})} {_certainty(verdict)}"


def _scores(results: Results, best: Summary, differences: Mapping[str, float]) -> str:
    """The full model's scores and those of a subnetwork, which differ by these points."""
    own = {split: best.scores[split].mean for split in differences}
    before = listed([f"{own[split] - points:.1f} on {results.splits[split]}" for split, points in differences.items()])
    after = listed([f"{score:.1f}" for score in own.values()])
    kept = f"{100 * (1 - best.sparsity):.1f}".removesuffix(".0")
    return f"The full model scores {before}; a subnetwork with {kept} % of its weights, {best.label}, scores {after}."


def _certainty(verdict: Verdict) -> str:
    if not verdict.has_shortcut:
        return "The suspected shortcut does not predict the label, so that nothing is claimed about robustness."
    if verdict.seeds < MIN_SEEDS:
        return f"With {seeds_in_words(verdict.seeds)} this may be luck; {MIN_SEEDS} are needed for a verdict."
    goal = f"at least {share_text(verdict.keeps)} of the ID score and beats the full model out of distribution"
    if verdict.is_srnet:
        return f"It certainly keeps {goal}."
    return f"No subnetwork keeps {goal}." if verdict.answer == "no" else f"It is not certain that it keeps {goal}."


def _about_figures(results: Sequence[Results], findings: Sequence[Finding]) -> list[str]:
    found = []
    if findings:
        answers = Counter(finding.answer for finding in findings)
        open_ones = len(findings) - answers[HOLDS] - answers[FAILS]
        counts = f"{answers[HOLDS]} hold, {answers[FAILS]} do not, and {open_ones} need more evidence"
        found.append(f"Of {len(findings)} claims of the paper {counts}.")
    best = {each.recipe.name + " on " + each.recipe.task.name: best_subnetwork(each) for each in results}
    certain = [name for name, chosen in best.items() if chosen is not None and chosen[1].is_srnet]
    where = f": {listed(certain, NAMED)}" if certain else ""
    found.append(f"{len(certain)} of {len(best)} figures have a subnetwork that certainly is sparse and robust{where}.")
    return found
