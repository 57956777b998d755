"""Pairs of texts with a given relation that share a given number of words.

A scene is a sentence about two people: what one did to the other, and what one of them did besides. It has four content
words. Its retelling has two clauses. It says the same, or one concept is replaced, or the roles are exchanged. A given
number of its content words are the scene's own words, the others are synonyms. So truth and overlap are independent.
"""

from __future__ import annotations

from random import Random

from srnet.tasks.splits import LEVELS
from srnet.tasks.synthetic.evidence import Draw
from srnet.tasks.synthetic.grammar import (
    CONSTRUCTIONS,
    FORMS,
    Fact,
    Sentence,
    Surface,
    Words,
    active,
    draw_surface,
    other_concept,
    other_words,
)


def draw_scene(rng: Random) -> Sentence:
    return CONSTRUCTIONS[rng.choice(("subject_relative", "object_relative"))](rng)


KINDS = ("same", "changed", "roles")
MOST_SHARED = 3
"""All four words would reveal that no concept was changed."""


def retold(rng: Random, scene: Sentence, kind: str, shared: int) -> Words:
    """Two clauses with the relation `kind` to the scene, and `shared` of its content words."""
    own = dict(scene.surface)
    synonyms = other_words(own)
    event, act = sorted(scene.facts, key=lambda fact: fact.patient is None)
    new: dict[str, str] = {}
    if kind == "changed":
        old = rng.choice(sorted(own))
        new[old] = other_concept(rng, old, scene.mentioned)
    if kind == "roles":
        event = event.swapped()
    unchanged = sorted(own.keys() - new.keys())
    kept = rng.sample(unchanged, shared)
    w: Surface = draw_surface(rng, tuple(new.values()))
    w |= {concept: own[concept] if concept in kept else synonyms[concept] for concept in unchanged}
    clauses = [_event(rng, _exchanged(event, new), w), active(_exchanged(act, new), w)]
    rng.shuffle(clauses)
    return [*clauses[0], "and", *clauses[1]]


def _event(rng: Random, fact: Fact, w: Surface) -> Words:
    return FORMS[rng.choice(("active", "passive"))](fact, w)


def _exchanged(fact: Fact, new: dict[str, str]) -> Fact:
    return Fact(*(new.get(concept, concept) for concept in fact.concepts))


def drawn_kind(rng: Random, *, same: bool) -> str:
    return "same" if same else rng.choice(("changed", "roles"))


def with_evidence(rng: Random, draw: Draw) -> tuple[str, str, str]:
    """A scene, its retelling according to `draw`, and the sub-case."""
    scene, kind = draw_scene(rng), drawn_kind(rng, same=bool(draw.relation))
    # none where the cue is strong against, one where it is weak; two where it is weak in favour, three where strong
    shared = 1 + draw.grade if draw.towards else 2 - draw.grade
    return scene.text, " ".join(retold(rng, scene, kind, shared)), f"{draw.case}{LEVELS}{kind}"
