"""What a report says about language models: the first sentence, and warnings about doubtful gains."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from srnet.core.prose import listed
from srnet.evaluation import MIN_SEEDS
from srnet.evaluation.language import Balanced, perplexity_kept
from srnet.evaluation.verdict import Verdict, seeds_in_words
from srnet.tasks.splits import LEVELS

if TYPE_CHECKING:
    from srnet.report.evidence import RecipeEvidence, Summary
    from srnet.report.results import Results

_NAMED = 3
"""How many models a warning names."""


def conclude(results: Results, best: Summary, verdict: Verdict) -> str:
    """The scores of the best subnetwork beside the full model's, and how certain the verdict is."""
    kept = f"{100 * (1 - best.sparsity):.1f}".removesuffix(".0")
    who = f"a subnetwork with {kept} % of its weights, {best.label}"
    if isinstance(verdict, Balanced):
        shown = {column.split: name for name, column in results.columns.items() if column.metric == "ss"}
        tests = {split: shown[split] for split in verdict.gains}
        ours = listed([f"{best.scores[name].mean:.1f} % on {split}" for split, name in tests.items()])
        theirs = listed([f"{results.full[name]:.1f} %" for name in tests.values()])
        text = f"Of pairs, {who}, prefers the stereotype in {ours}; the full model in {theirs}; 50 % is ideal."
        text += f" It keeps {verdict.language}."
    else:
        ratios = listed([f"{verdict.kept_percent} on ID dev", *verdict.gain_lines])
        text = f"Against the full model, {who}, has {ratios}."
    return f"{text} {_certainty(verdict)}"


def _certainty(verdict: Verdict) -> str:
    if verdict.seeds < MIN_SEEDS:
        return f"With {seeds_in_words(verdict.seeds)} this may be luck; {MIN_SEEDS} are needed for a verdict."
    if not isinstance(verdict, Balanced):
        answers = {"yes": "It certainly keeps the language.", "no": "No subnetwork keeps the language."}
        return answers.get(verdict.answer, "It is not certain that it keeps the language.")
    if verdict.answer == "yes":
        return f"It certainly keeps the language, and prefers the stereotype less on {listed(verdict.moved)}."
    goal = "keeps the language and prefers the stereotype less"
    return f"No subnetwork certainly {goal}." if verdict.answer == "no" else f"It is not certain that it {goal}."


def warnings(evidence: RecipeEvidence) -> list[str]:
    """Reasons to doubt what was gained."""
    judged = [summary for summary in evidence.summaries if isinstance(summary.verdict, Balanced)]
    if len(evidence.recipe.seeds) < MIN_SEEDS:
        return []
    problems = {
        "the language broke": [s.name for s in judged if _language_broke(evidence, s)],
        "the change is certain on the trained type alone": [s.name for s in judged if _only_trained_type(evidence, s)],
    }
    found = [f"{_names(names)}: {problem}" for problem, names in problems.items() if names]
    for split in evidence.ood:
        passed = [summary.name for summary in judged if _passed(evidence, summary, split)]
        found += [f"{_names(passed)}: ss moved past 50 to the other side on {split}"] if passed else []
    return found


def _names(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{'; '.join(names[:_NAMED])}{more}"


def _language_broke(evidence: RecipeEvidence, summary: Summary) -> bool:
    """Whether the perplexity of a text, or `lms` of a test set, is certainly beyond its bar."""
    full, kind = evidence.full_models(summary.models), evidence.task.answer_kind
    for split in evidence.task.scored:
        measured = kind.measured(("lms", "nll"), evidence.task.splits[split].labels)
        if "nll" in measured:
            below = perplexity_kept(evidence, summary.models, full, split)
        elif "lms" in measured:
            below = evidence.difference(summary.models, full, split, evidence.keeps, "lms")
        else:
            continue
        if below.p_below() < evidence.alpha:
            return True
    return False


def _passed(evidence: RecipeEvidence, summary: Summary, split: str) -> bool:
    """Whether the preference is certainly on the other side than the full model's."""
    full = evidence.full_models(summary.models)
    theirs, ours = (evidence.contrast((1.0, side, split), metric="ss") for side in (full, summary.models))
    certain = min(ours.p_above(50.0), ours.p_below(50.0)) < evidence.alpha
    return certain and (theirs.difference - 50.0) * (ours.difference - 50.0) < 0.0


def _only_trained_type(evidence: RecipeEvidence, summary: Summary) -> bool:
    """Whether |ss - 50| is smaller on pairs of the trained types alone, though there are others."""
    verdict, trained = summary.verdict, _types(evidence.task.train.groups)
    assert isinstance(verdict, Balanced)
    others = [split for split in evidence.ood if not _types(evidence.task.splits[split].groups) <= trained]
    return bool(verdict.moved) and bool(others) and not set(others) & set(verdict.moved)


def _types(groups: Iterable[str]) -> set[str]:
    """The types of bias, the first level of sub-cases."""
    return {group.split(LEVELS)[0] for group in groups}
