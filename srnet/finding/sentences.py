"""The first sentence on what a search found, in plain words: both models' scores, and how certain a gain is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from srnet.bias.shortcuts.base import parse_shortcut
from srnet.core.prose import listed
from srnet.evaluation.significance import Spread
from srnet.evaluation.verdict import FAILS, HOLDS, OPEN, Condition, Verdict, seeds_in_words, share_text
from srnet.tasks.shortcut import Shortcut

if TYPE_CHECKING:
    from srnet.finding.found import Found

LISTED = 3
"""OOD sets whose scores are listed. Of more there is the mean."""


def shortcut_name(shortcut: Shortcut) -> str:
    """A shortcut in plain words, as the subject of "misleads"."""
    parts = parse_shortcut(shortcut)
    return " with ".join((part.kind.noun or part.kind.about).format(part.argument) for part in parts)


def first_sentence(found: Found) -> str:
    """What the full model scores and what the chosen subnetwork scores, true whatever came out."""
    trained = f", trained{' on' if found.is_own else ''} as long as the search," if found.full_is_control else ""
    full = f"Your model{trained} scores {_with_places(found)}"
    if found.scores is None:
        return f"{full}; {_nothing_chosen(found)}."
    faster = f", is about {found.speedup:g} times as fast by estimate," if found.speedup else ""
    scores = _scores(found, found.scores)
    own = f"this one keeps {_kept(found.sparsity or 0.0)} of the weights{faster} and scores {scores}"
    doubt = _doubt(found)
    return f"{full}; {own}{doubt and f'; {doubt}'}."


def _nothing_chosen(found: Found) -> str:
    bar = f"none of its subnetworks keeps {share_text(found.keeps)} of {'the first score' if found.ood else 'that'}"
    if not found.tried:
        return bar
    densest = found.tried[0]
    return f"{bar}: the densest keeps {_kept(densest.sparsity)} of the weights and scores {densest.score:.1f}"


def _kept(sparsity: float) -> str:
    return f"{100.0 * (1.0 - sparsity):.4g} %"


# --- scores and where they are measured ----------------------------------------------------------------------------


def _split(found: Found, scores: Mapping[str, Spread]) -> tuple[float, list[float]]:
    """The ID score and those that are mentioned of the OOD sets."""
    first, others = next(iter(scores.values())).mean, [scores[split].mean for split in found.ood if split in scores]
    return first, others if len(others) <= LISTED else [sum(others) / len(others)]


def _scores(found: Found, scores: Mapping[str, Spread]) -> str:
    first, others = _split(found, scores)
    return listed([f"{each:.1f}" for each in (first, *others)])


def _with_places(found: Found) -> str:
    """The full model's scores, each with where it was measured."""
    first, others = _split(found, found.full_scores)
    return listed(
        [f"{first:.1f} on your data", *(f"{s:.1f}{at}" for s, at in zip(others, _places(found), strict=True))]
    )


def _places(found: Found) -> list[str]:
    """Where the scores on OOD sets are from. That the shortcut misleads is said if it does so on all of them."""
    misleads = f"where {shortcut_name(found.bias.shortcut)} misleads" if found.bias else ""
    misleads = misleads if set(found.misled) == {*found.ood} else ""
    if len(found.ood) == 1 and misleads:
        return [f" {misleads}"]
    if len(found.ood) > LISTED:
        return [f" on average over {len(found.ood)} other test sets{misleads and f', {misleads}'}"]
    places = [f" on {split}" for split in found.ood]
    return [*places[:-1], f"{places[-1]}{misleads and f', {misleads}'}"] if places else []


# --- what is not certain -------------------------------------------------------------------------------------------


def _doubt(found: Found) -> str:
    """What a reader must not conclude; empty if the subnetwork certainly keeps the ID score and gains elsewhere."""
    if found.verdict is None:
        if found.bias is None:
            return "no shortcut was found, so nothing is claimed about robustness"
        return "whether it is more robust is not known without other test data"
    if found.verdict.answer == "yes":
        return ""
    if found.verdict.answer == "no verdict":
        return f"with {seeds_in_words(found.verdict.seeds)} none of the differences is certain"
    return _uncertain(found.verdict)


def _uncertain(verdict: Verdict) -> str:
    kept, *gains = verdict.conditions
    doubts = [] if kept.answer == HOLDS else [_about_id(kept, verdict)]
    for answer, text in _GAINS:
        names = [each.what.removeprefix("OOD ") for each in gains if _kind(each) == answer]
        doubts += [f"{text} on {listed(names)}" if len(gains) > 1 else text] if names else []
    return listed(doubts) if doubts else "the gain is not certain, corrected for the number of tests"


_NONE = "no gain"
_GAINS = ((FAILS, "it is certainly worse"), (_NONE, "no gain was measured"), (OPEN, "the gain may be chance"))


def _kind(gain: Condition) -> str:
    return _NONE if gain.answer == OPEN and gain.interval.difference <= 0.0 else gain.answer


def _about_id(kept: Condition, verdict: Verdict) -> str:
    bar = f"{share_text(verdict.keeps)} of the first score"
    return f"it certainly keeps less than {bar}" if kept.answer == FAILS else f"it may keep less than {bar}"
