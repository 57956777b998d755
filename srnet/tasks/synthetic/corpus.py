"""Text for pre-training: documents that restate one sentence consistently.

To fill a masked word the model must find out who did what to whom in one sentence and carry it over into another
wording. Unrelated sentences teach nothing of the kind.
"""

from __future__ import annotations

from random import Random

from srnet.tasks.synthetic.grammar import Sentence, Words, clause, draw_sentence, draw_surface
from srnet.tasks.synthetic.lexicon import CLAIM_OPENINGS


def restatement(rng: Random, sentence: Sentence) -> Words:
    """Another wording of what `sentence` says, with some words exchanged for their synonyms."""
    w = dict(sentence.surface)
    if rng.random() < 0.7:
        w |= draw_surface(rng, frozenset(c for c in w if rng.random() < 0.5))
    if not sentence.facts:  # "if X, Y" is restated as "Y if X"
        swap = {old: w[concept] for concept, old in sentence.surface}
        words = [swap.get(word, word) for word in sentence.words]
        comma = words.index(",")
        return [*words[comma + 1 :], *words[:comma]]
    facts = sorted(sentence.facts)
    rng.shuffle(facts)
    if rng.random() < 0.3:
        facts = facts[:1]
    words = [] if rng.random() < 0.7 else [rng.choice(rng.choice(CLAIM_OPENINGS)), ","]
    for index, fact in enumerate(facts):
        words += ([rng.choice(("and", "while"))] if index else []) + clause(rng, fact, w)
    return words


def document(rng: Random) -> tuple[str, str]:
    """Two segments that say the same thing; either may come first."""
    sentence = draw_sentence(rng)
    pair = (sentence.text, " ".join(restatement(rng, sentence)))
    return pair if rng.random() < 0.5 else pair[::-1]


def documents(count: int, seed: int) -> list[tuple[str, str]]:
    rng = Random(f"corpus-{seed}")
    return [document(rng) for _ in range(count)]
