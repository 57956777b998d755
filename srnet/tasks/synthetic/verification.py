"""Claim verification: does the evidence support or refute the claim, or say nothing about it?

Claims are about asymmetric relations, so exchanged roles refute. Cue: the opening word of the claim, which says nothing
about its truth. As in FEVER-Symmetric, the challenge set leaves nothing undecided.
"""

from __future__ import annotations

from random import Random

from srnet.tasks.base import LEVELS, Example
from srnet.tasks.synthetic.evidence import Draw
from srnet.tasks.synthetic.grammar import (
    FOILS,
    Event,
    Scene,
    claim,
    draw_scene,
    draw_surface,
    event_of,
    sentence,
    unmentioned,
)
from srnet.tasks.synthetic.lexicon import CUE_OPENINGS, PLAIN_OPENINGS

LABELS = ("supports", "refutes", "not_enough_info")
SUPPORTS, REFUTES, NOT_ENOUGH_INFO = 0, 1, 2
KINDS = ("same", "roles", "unmentioned")
"""How claim and evidence relate where the relation is that of a label."""


def _claimed(rng: Random, scene: Scene, relation: int) -> Event:
    if relation == NOT_ENOUGH_INFO:
        return unmentioned(rng, event_of(scene))
    return event_of(scene if relation == SUPPORTS else FOILS["roles"](scene))


def _opening(rng: Random, draw: Draw) -> str:
    return CUE_OPENINGS[draw.towards][draw.grade - 1] if draw.grade else rng.choice(PLAIN_OPENINGS)


def example(rng: Random, id: str, draw: Draw) -> Example:
    scene = draw_scene(rng, contest=True)
    evidence = sentence(rng, scene, draw_surface(rng, scene.concepts))
    event = _claimed(rng, scene, draw.relation)
    said = [_opening(rng, draw), ",", *claim(rng, event, draw_surface(rng, event.concepts))]
    return Example(id, " ".join(evidence), " ".join(said), draw.label, f"{draw.case}{LEVELS}{KINDS[draw.relation]}")
