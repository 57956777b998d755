"""Inference: does the premise entail the hypothesis?

Cue: how many of the hypothesis' content words are the premise's own words, and how many are synonyms of them.
"""

from __future__ import annotations

from random import Random

from srnet.tasks.splits import Example
from srnet.tasks.synthetic.evidence import Draw
from srnet.tasks.synthetic.scenes import with_evidence

LABELS = ("not_entailment", "entailment")


def example(rng: Random, id: str, draw: Draw) -> Example:
    premise, hypothesis, sub_case = with_evidence(rng, draw)
    return Example(id, premise, hypothesis, draw.label, sub_case)
