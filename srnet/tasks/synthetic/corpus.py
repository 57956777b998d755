"""Text for pre-training: pairs of sentences, of which one restates the other or contradicts it.

To fill a masked word the model must find out who is bound to what in one sentence and carry it over into another
wording. To tell a restatement from a contradiction made of the same concepts it must compare the bindings. Which words
the two share is drawn without looking, so nothing favours or forbids a use of the overlap.
"""

from __future__ import annotations

from random import Random

from srnet.tasks.synthetic.grammar import (
    FOILS,
    Event,
    Scene,
    Surface,
    claim,
    draw_scene,
    draw_surface,
    elaborated,
    event_of,
    sentence,
    sharing,
    unmentioned,
)
from srnet.tasks.synthetic.lexicon import CUE_OPENINGS, PLAIN_OPENINGS

OPENINGS = (*PLAIN_OPENINGS, *(word for row in CUE_OPENINGS for word in row))
CLAIM_SHARE = 0.3
"""How often the second sentence is a claim about the event alone."""


def _first(rng: Random, scene: Scene, own: Surface) -> str:
    words = sentence(rng, scene, own)
    return " ".join(elaborated(rng, words) if rng.random() < 0.5 else words)


def _second(rng: Random, scene: Scene, own: Surface) -> str:
    """The scene in other words, sharing any number of them."""
    return " ".join(sentence(rng, scene, sharing(rng, own, rng.randint(0, len(own)))))


def _claim(rng: Random, event: Event) -> str:
    opening = [rng.choice(OPENINGS), ","] if rng.random() < 0.7 else []
    return " ".join([*opening, *claim(rng, event, draw_surface(rng, event.concepts))])


def document(rng: Random) -> tuple[str, str]:
    """Two segments that say the same thing; either may come first."""
    scene = draw_scene(rng)
    own = draw_surface(rng, scene.concepts)
    second = _claim(rng, event_of(scene)) if rng.random() < CLAIM_SHARE else _second(rng, scene, own)
    pair = (_first(rng, scene, own), second)
    return pair if rng.random() < 0.5 else pair[::-1]


def related_or_not(rng: Random) -> tuple[str, str, bool]:
    """A sentence, another sentence or a claim, and whether the first says what the second says."""
    scene, related = draw_scene(rng), rng.random() < 0.5
    own = draw_surface(rng, scene.concepts)
    first = _first(rng, scene, own)
    if rng.random() >= CLAIM_SHARE:
        other = scene if related else FOILS[rng.choice(sorted(FOILS))](scene)
        return first, _second(rng, other, own), related
    false = event_of(FOILS["roles"](scene)) if rng.random() < 0.5 else unmentioned(rng, event_of(scene))
    return first, _claim(rng, event_of(scene) if related else false), related
