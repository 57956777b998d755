"""Text for pre-training: pairs of sentences, of which one restates the other or has other content.

To predict a masked word the model must represent who did what to whom in one sentence and apply it to another wording.
In the second phase, people and verbs are enough to distinguish a restatement from another sentence. In the last phase
pairs may differ in the roles alone, and the model must also count shared words, whose number is independent of the
content: it learns truth and overlap, and favours neither.
"""

from __future__ import annotations

from random import Random

from srnet.tasks.synthetic.grammar import (
    Sentence,
    Surface,
    Words,
    clause,
    draw_event,
    draw_sentence,
    draw_surface,
    replace_concepts,
)
from srnet.tasks.synthetic.lexicon import CLAIM_OPENINGS
from srnet.tasks.synthetic.scenes import MOST_SHARED, draw_scene, drawn_kind, retold


def _some_synonyms(rng: Random, sentence: Sentence) -> Surface:
    """The words of a sentence, some of them drawn again."""
    w = dict(sentence.surface)
    if rng.random() < 0.7:
        w |= draw_surface(rng, frozenset(concept for concept in w if rng.random() < 0.5))
    return w


def restatement(rng: Random, sentence: Sentence) -> Words:
    """Another wording of what `sentence` says, with some words exchanged for their synonyms."""
    w = _some_synonyms(rng, sentence)
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


def related_or_not(rng: Random) -> tuple[str, str, bool]:
    """A sentence, a clause, and whether the clause restates it. If not, at least one of its concepts differs."""
    sentence = draw_sentence(rng)
    while not sentence.facts:
        sentence = draw_sentence(rng)
    related = rng.random() < 0.5
    fact, w = rng.choice(sorted(sentence.facts)), _some_synonyms(rng, sentence)
    if not related and rng.random() < 0.5:
        fact = rng.choice(sorted(draw_sentence(rng).facts) or [draw_event(rng)])
    elif not related:
        fact = replace_concepts(rng, fact, sentence.mentioned, rng.randint(1, len(fact.concepts)))
    w |= draw_surface(rng, frozenset(fact.concepts) - w.keys())
    return sentence.text, " ".join(clause(rng, fact, w)), related


def retold_or_not(rng: Random) -> tuple[str, str, bool, int]:
    """A scene, two clauses, whether they say the same, and how many of the scene's words they share."""
    scene, related, shared = draw_scene(rng), rng.random() < 0.5, rng.randint(0, MOST_SHARED)
    words = retold(rng, scene, drawn_kind(rng, same=related), shared)
    return scene.text, " ".join(words), related, shared
