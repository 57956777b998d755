"""Paraphrase: do two sentences say the same thing?

Cue: how many of the four content words of the second are words of the first, and how many are synonyms of them.
"""

from __future__ import annotations

from random import Random

from srnet.tasks.base import LEVELS, Example
from srnet.tasks.synthetic.evidence import Draw
from srnet.tasks.synthetic.grammar import draw_scene, draw_surface, sentence, sharing
from srnet.tasks.synthetic.inference import retold, shared_words

LABELS = ("not_duplicate", "duplicate")


def example(rng: Random, id: str, draw: Draw) -> Example:
    scene = draw_scene(rng)
    own = draw_surface(rng, scene.concepts)
    kind, other = retold(rng, scene, draw)
    texts = [sentence(rng, scene, own), sentence(rng, other, sharing(rng, own, shared_words(draw)))]
    rng.shuffle(texts)
    text_a, text_b = (" ".join(words) for words in texts)
    return Example(id, text_a, text_b, draw.label, f"{draw.case}{LEVELS}{kind}")
