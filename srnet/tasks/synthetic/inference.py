"""Inference: does the premise entail the hypothesis?

The premise says a little more than the hypothesis. Cue: how many of the hypothesis' four content words are the
premise's own words, and how many are synonyms of them.
"""

from __future__ import annotations

from random import Random

from srnet.tasks.base import LEVELS, Example
from srnet.tasks.synthetic.evidence import Draw
from srnet.tasks.synthetic.grammar import Event, draw_event, draw_surface, elaborated, sentence, sharing

LABELS = ("not_entailment", "entailment")


def shared_words(draw: Draw) -> int:
    """None of four where the cue is strongest against, two where there is none, all where it is strongest for."""
    return 2 + (draw.grade if draw.towards else -draw.grade)


def retold(event: Event, draw: Draw) -> Event:
    """What the second text says: the same if the relation holds, and if not the same with exchanged roles."""
    return event if draw.relation else event.swapped()


def sub_case(draw: Draw) -> str:
    return f"{draw.case}{LEVELS}{'same' if draw.relation else 'roles'}"


def example(rng: Random, id: str, draw: Draw) -> Example:
    event = draw_event(rng)
    own = draw_surface(rng, event.concepts)
    premise = elaborated(rng, event, sentence(rng, event, own))
    hypothesis = sentence(rng, retold(event, draw), sharing(rng, own, shared_words(draw)))
    return Example(id, " ".join(premise), " ".join(hypothesis), draw.label, sub_case(draw))
