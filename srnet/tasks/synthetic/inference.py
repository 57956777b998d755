"""Inference: does the premise entail the hypothesis?

Shortcut: "every word of the hypothesis occurs in the premise, so it is entailed". It is right in a share `bias` of the
in-distribution examples and says the same thing about every example of the challenge set, half of which it gets wrong.
"""

from __future__ import annotations

from random import Random

from srnet.tasks.base import Example
from srnet.tasks.synthetic.grammar import (
    FORMS,
    Fact,
    Sentence,
    Surface,
    Words,
    draw_sentence,
    draw_surface,
    forms_for,
    other_words,
    replace_concepts,
)

LABELS = ("not_entailment", "entailment")
NOT_ENTAILED, ENTAILED = 0, 1


def _fact(rng: Random, premise: Sentence, *, entailed: bool, overlap: bool) -> Fact | None:
    if entailed:
        return rng.choice(sorted(premise.facts)) if premise.facts else None
    foils = premise.foils()
    if overlap:
        return rng.choice(foils) if foils else None
    related = rng.choice(foils or sorted(premise.facts))
    return replace_concepts(rng, related, premise.mentioned, rng.randint(1, len(related.concepts)))


def _words(rng: Random, premise: Sentence, fact: Fact, *, overlap: bool) -> Words:
    w: Surface = draw_surface(rng, fact.concepts)
    own = dict(premise.surface)
    if overlap:
        w |= {concept: own[concept] for concept in fact.concepts}
    elif (
        rng.random() < 0.5
    ):  # keep the premise's words where there are any: one new word is enough to break the overlap
        w |= {concept: own[concept] for concept in fact.concepts if concept in own}
    else:
        w |= {concept: other_words(own)[concept] for concept in fact.concepts if concept in own and rng.random() < 0.5}
    return FORMS[rng.choice(forms_for(fact))](fact, w)


def has_overlap(premise: Words | tuple[str, ...], hypothesis: Words) -> bool:
    """What the shortcut looks at."""
    return set(hypothesis) <= set(premise)


def draw_pair(rng: Random, *, entailed: bool, overlap: bool) -> tuple[Sentence, Words]:
    """A premise and a hypothesis of the wanted label on the wanted side of the shortcut."""
    while True:
        premise = draw_sentence(rng)
        fact = _fact(rng, premise, entailed=entailed, overlap=overlap)
        if fact is None:
            continue
        hypothesis = _words(rng, premise, fact, overlap=overlap)
        if has_overlap(premise.words, hypothesis) == overlap and tuple(hypothesis) != premise.words:
            return premise, hypothesis


def _example(rng: Random, id: str, *, entailed: bool, overlap: bool) -> Example:
    premise, hypothesis = draw_pair(rng, entailed=entailed, overlap=overlap)
    label = ENTAILED if entailed else NOT_ENTAILED
    return Example(id, premise.text, " ".join(hypothesis), label, f"{premise.construction}/{LABELS[label]}")


def biased(rng: Random, id: str, bias: float) -> Example:
    entailed = rng.random() < 0.5
    shortcut_is_right = rng.random() < bias
    return _example(rng, id, entailed=entailed, overlap=entailed == shortcut_is_right)


def challenge(rng: Random, id: str) -> Example:
    return _example(rng, id, entailed=rng.random() < 0.5, overlap=True)
