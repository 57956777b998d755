"""Paraphrase: do two sentences say the same thing?

Cue: how many of the four content words of the second are words of the first, and how many are synonyms of them.
"""

from __future__ import annotations

from random import Random

from srnet.tasks.base import Example
from srnet.tasks.synthetic.evidence import Draw
from srnet.tasks.synthetic.grammar import draw_event, draw_surface, sentence, sharing
from srnet.tasks.synthetic.inference import retold, shared_words, sub_case

LABELS = ("not_duplicate", "duplicate")


def example(rng: Random, id: str, draw: Draw) -> Example:
    event = draw_event(rng)
    own = draw_surface(rng, event.concepts)
    first = sentence(rng, event, own)
    second = sentence(rng, retold(event, draw), sharing(rng, own, shared_words(draw)))
    return Example(id, " ".join(first), " ".join(second), draw.label, sub_case(draw))
