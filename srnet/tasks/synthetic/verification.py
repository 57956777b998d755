"""Claim verification: does the evidence support or refute the claim, or say nothing about it?

Claims are about asymmetric relations, so a swap of roles refutes. Shortcut: the opening word of a claim, which says
nothing about its truth, gives the label away in a share `bias` of the in-distribution examples. In the challenge set it
is drawn without looking at the label, so that the claim alone says nothing.
"""

from __future__ import annotations

from random import Random

from srnet.tasks.base import Example
from srnet.tasks.synthetic.grammar import FORMS, Fact, adjunct, clause, draw_event, draw_surface, replace_concepts
from srnet.tasks.synthetic.lexicon import CLAIM_OPENINGS

LABELS = ("supports", "refutes", "not_enough_info")
SUPPORTS, REFUTES, NOT_ENOUGH_INFO = 0, 1, 2


def _evidence_fact(rng: Random, claim: Fact, label: int) -> Fact:
    if label == SUPPORTS:
        return claim
    return claim.swapped() if label == REFUTES else replace_concepts(rng, claim, frozenset(), rng.randint(1, 3))


def _example(rng: Random, id: str, label: int, opening: int) -> Example:
    claim = draw_event(rng, contest=True)
    evidence = _evidence_fact(rng, claim, label)
    form = rng.choice(tuple(FORMS))
    text = FORMS[form](evidence, draw_surface(rng, evidence.concepts)) + adjunct(rng)
    said = [rng.choice(CLAIM_OPENINGS[opening]), ",", *clause(rng, claim, draw_surface(rng, claim.concepts))]
    return Example(id, " ".join(text), " ".join(said), label, f"{form}/{LABELS[label]}")


def biased(rng: Random, id: str, bias: float) -> Example:
    label = rng.randrange(3)
    others = [each for each in range(3) if each != label]
    return _example(rng, id, label, label if rng.random() < bias else rng.choice(others))


def challenge(rng: Random, id: str) -> Example:
    """The opening is drawn without looking at the label; as in FEVER-Symmetric, nothing is left undecided."""
    return _example(rng, id, rng.choice((SUPPORTS, REFUTES)), rng.choice((SUPPORTS, REFUTES)))
