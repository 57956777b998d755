"""Claim verification: does the evidence support or refute the claim, or say nothing about it?

The evidence is one event between two people. A claim with another verb or with exchanged roles is refuted. For a claim
about another person there is not enough information. Cue: the opening word of the claim, which is independent of its
truth. So is the rest of a claim: people, verbs and forms have the same distribution for every relation. As in
FEVER-Symmetric, the challenge set has no undecided claims.
"""

from __future__ import annotations

from random import Random

from srnet.tasks.splits import LEVELS, Example
from srnet.tasks.synthetic.evidence import Draw
from srnet.tasks.synthetic.grammar import (
    FORMS,
    Fact,
    adjunct,
    clause,
    draw_event,
    draw_surface,
    draw_verb,
    other_concept,
)
from srnet.tasks.synthetic.lexicon import CLAIM_OPENINGS

LABELS = ("supports", "refutes", "not_enough_info")
SUPPORTS, REFUTES, NOT_ENOUGH_INFO = 0, 1, 2
KINDS = (("same",), ("verb", "roles"), ("person",))
"""What differs between claim and evidence, by relation."""


def _claimed(rng: Random, event: Fact, kind: str) -> Fact:
    if kind == "verb":
        return Fact(event.agent, _other_verb(rng, event.verb), event.patient)
    if kind == "roles":
        return event.swapped()
    if kind == "same":
        return event
    slot = rng.choice(("agent", "patient"))
    parts = dict(zip(("agent", "verb", "patient"), event.concepts, strict=True))
    return Fact(**parts | {slot: other_concept(rng, parts[slot], frozenset(event.concepts))})


def _other_verb(rng: Random, verb: str) -> str:
    """From the verbs that occur in evidence, so that the claim alone does not reveal the replacement."""
    while (other := draw_verb(rng, transitive=True, contest=True)) == verb:
        pass
    return other


def _opening(rng: Random, draw: Draw) -> list[str]:
    """None without a cue; a weak cue is one of the first two words of its label's row, a strong one of the others."""
    row = CLAIM_OPENINGS[draw.towards]
    return [rng.choice(row[:2] if draw.grade == 1 else row[2:]), ","] if draw.grade else []


def example(rng: Random, id: str, draw: Draw) -> Example:
    event = draw_event(rng, contest=True)
    evidence = FORMS[rng.choice(tuple(FORMS))](event, draw_surface(rng, event.concepts)) + adjunct(rng)
    kind = rng.choice(KINDS[draw.relation])
    claimed = _claimed(rng, event, kind)
    claim = [*_opening(rng, draw), *clause(rng, claimed, draw_surface(rng, claimed.concepts))]
    return Example(id, " ".join(evidence), " ".join(claim), draw.label, f"{draw.case}{LEVELS}{kind}")
