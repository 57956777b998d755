"""Text for pre-training: pairs of sentences, of which one restates the other or contradicts it.

To fill a masked word the model must find out who did what in one sentence and carry it over into another wording. To
tell a restatement from a contradiction made of the same concepts it must compare the roles. Which words the two share
is drawn without looking, so nothing favours or forbids a use of the overlap.
"""

from __future__ import annotations

from random import Random

from srnet.tasks.synthetic.grammar import (
    Event,
    Surface,
    claim,
    draw_event,
    draw_surface,
    elaborated,
    replaced,
    sentence,
    sharing,
)
from srnet.tasks.synthetic.lexicon import CUE_OPENINGS, PLAIN_OPENINGS

OPENINGS = (*PLAIN_OPENINGS, *(word for row in CUE_OPENINGS for word in row))


def _first(rng: Random, event: Event, own: Surface) -> str:
    words = sentence(rng, event, own)
    return " ".join(elaborated(rng, event, words) if rng.random() < 0.5 else words)


def _second(rng: Random, event: Event, own: Surface) -> str:
    """The event in other words, sharing any number of them; or a claim about it, in any words."""
    if rng.random() < 0.3:
        opening = [rng.choice(OPENINGS), ","] if rng.random() < 0.7 else []
        return " ".join([*opening, *claim(rng, event, draw_surface(rng, event.concepts))])
    words = draw_surface(rng, event.concepts) | {concept: own[concept] for concept in event.concepts if concept in own}
    return " ".join(sentence(rng, event, sharing(rng, words, rng.randint(0, len(words)))))


def document(rng: Random) -> tuple[str, str]:
    """Two segments that say the same thing; either may come first."""
    event = draw_event(rng)
    own = draw_surface(rng, event.concepts)
    pair = (_first(rng, event, own), _second(rng, event, own))
    return pair if rng.random() < 0.5 else pair[::-1]


def related_or_not(rng: Random) -> tuple[str, str, bool]:
    """A sentence, another one, and whether the first says what the second says.

    Half of the contradictions name another concept, which is easy to see and teaches to compare; the rest exchange the
    roles.
    """
    event, related = draw_event(rng), rng.random() < 0.5
    own = draw_surface(rng, event.concepts)
    other = event if related else replaced(rng, event) if rng.random() < 0.5 else event.swapped()
    return _first(rng, event, own), _second(rng, other, own), related
