"""Claim verification: does the evidence support or refute the claim, or say nothing about it?

Claims are about asymmetric relations, so exchanged roles refute. Cue: the opening word of the claim, which says nothing
about its truth. As in FEVER-Symmetric, the challenge set leaves nothing undecided.
"""

from __future__ import annotations

from random import Random

from srnet.tasks.base import LEVELS, Example
from srnet.tasks.synthetic.evidence import Draw
from srnet.tasks.synthetic.grammar import Event, claim, draw_event, draw_surface, elaborated, replaced, sentence
from srnet.tasks.synthetic.lexicon import CUE_OPENINGS, PLAIN_OPENINGS

LABELS = ("supports", "refutes", "not_enough_info")
SUPPORTS, REFUTES, NOT_ENOUGH_INFO = 0, 1, 2
KINDS = ("same", "roles", "unmentioned")
"""How claim and evidence relate where the relation is that of a label."""


def _claimed(rng: Random, event: Event, relation: int) -> Event:
    if relation == NOT_ENOUGH_INFO:
        return replaced(rng, event)
    return event if relation == SUPPORTS else event.swapped()


def _opening(rng: Random, draw: Draw) -> str:
    return CUE_OPENINGS[draw.towards][draw.grade - 1] if draw.grade else rng.choice(PLAIN_OPENINGS)


def example(rng: Random, id: str, draw: Draw) -> Example:
    event = draw_event(rng, contest=True)
    evidence = elaborated(rng, event, sentence(rng, event, draw_surface(rng, event.concepts)))
    claimed = _claimed(rng, event, draw.relation)
    said = [_opening(rng, draw), ",", *claim(rng, claimed, draw_surface(rng, claimed.concepts))]
    return Example(id, " ".join(evidence), " ".join(said), draw.label, f"{draw.case}{LEVELS}{KINDS[draw.relation]}")
