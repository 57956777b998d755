"""Inference: does the premise entail the hypothesis?

The premise says a little more than the hypothesis. Cue: how many of the hypothesis' four content words are the
premise's own words, and how many are synonyms of them.
"""

from __future__ import annotations

from random import Random

from srnet.tasks.base import LEVELS, Example
from srnet.tasks.synthetic.evidence import Draw
from srnet.tasks.synthetic.grammar import FOILS, Scene, draw_scene, draw_surface, elaborated, sentence, sharing

LABELS = ("not_entailment", "entailment")


def shared_words(draw: Draw) -> int:
    """None of four where the cue is strongest against, two where there is none, all where it is strongest for."""
    return 2 + (draw.grade if draw.towards else -draw.grade)


def retold(rng: Random, scene: Scene, draw: Draw) -> tuple[str, Scene]:
    """What the second text says: the same scene if the relation holds, one of its foils if not; and which."""
    if draw.relation:
        return "same", scene
    kind = rng.choice(sorted(FOILS))
    return kind, FOILS[kind](scene)


def example(rng: Random, id: str, draw: Draw) -> Example:
    scene = draw_scene(rng)
    own = draw_surface(rng, scene.concepts)
    premise = elaborated(rng, sentence(rng, scene, own))
    kind, other = retold(rng, scene, draw)
    hypothesis = sentence(rng, other, sharing(rng, own, shared_words(draw)))
    return Example(id, " ".join(premise), " ".join(hypothesis), draw.label, f"{draw.case}{LEVELS}{kind}")
