"""Paraphrase: do two sentences say the same thing?

Cue: how many of the content words of one are words of the other, and how many are synonyms of them.
"""

from __future__ import annotations

from random import Random

from srnet.tasks.splits import Example
from srnet.tasks.synthetic.evidence import Draw
from srnet.tasks.synthetic.scenes import with_evidence

LABELS = ("not_duplicate", "duplicate")


def example(rng: Random, id: str, draw: Draw) -> Example:
    """As in inference, but either sentence may come first."""
    first, second, sub_case = with_evidence(rng, draw)
    if rng.random() < 0.5:
        first, second = second, first
    return Example(id, first, second, draw.label, sub_case)
