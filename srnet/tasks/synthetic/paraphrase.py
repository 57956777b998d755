"""Paraphrase: do two sentences say the same thing?

Shortcut: "they use the same content words, so they are duplicates". In the challenge set every pair does; half of them
swap the roles.
"""

from __future__ import annotations

from random import Random

from srnet.tasks.base import Example
from srnet.tasks.synthetic.grammar import (
    FORMS,
    Fact,
    Surface,
    Words,
    adjunct,
    draw_event,
    draw_surface,
    other_words,
    replace_concepts,
)

LABELS = ("not_duplicate", "duplicate")
NOT_DUPLICATE, DUPLICATE = 0, 1


def _second_fact(rng: Random, fact: Fact, *, duplicate: bool, overlap: bool) -> Fact:
    if duplicate:
        return fact
    return fact.swapped() if overlap else replace_concepts(rng, fact, frozenset(), rng.randint(1, 3))


def _second_words(rng: Random, fact: Fact, first: Surface, *, overlap: bool) -> Surface:
    w = draw_surface(rng, fact.concepts) | {c: first[c] for c in fact.concepts if c in first}
    if overlap or not set(fact.concepts) <= set(first):
        return w
    changed = rng.sample(sorted(first), rng.randint(1, len(first)))
    return w | {concept: other_words(first)[concept] for concept in changed}


def _example(rng: Random, id: str, *, duplicate: bool, overlap: bool) -> Example:
    fact = draw_event(rng)
    first = draw_surface(rng, fact.concepts)
    other = _second_fact(rng, fact, duplicate=duplicate, overlap=overlap)
    second = _second_words(rng, other, first, overlap=overlap)
    form_a, form_b = rng.choice(tuple(FORMS)), rng.choice(tuple(FORMS))
    words_a: Words = FORMS[form_a](fact, first)
    words_b: Words = FORMS[form_b](other, second)
    tail = adjunct(rng)
    label = DUPLICATE if duplicate else NOT_DUPLICATE
    same_voice = "same_form" if form_a == form_b else f"{form_a}-{form_b}" if form_a < form_b else f"{form_b}-{form_a}"
    text_a, text_b = (" ".join(words + tail) for words in (words_a, words_b))
    return Example(id, text_a, text_b, label, f"{same_voice}/{LABELS[label]}")


def biased(rng: Random, id: str, bias: float) -> Example:
    duplicate = rng.random() < 0.5
    shortcut_is_right = rng.random() < bias
    return _example(rng, id, duplicate=duplicate, overlap=duplicate == shortcut_is_right)


def challenge(rng: Random, id: str) -> Example:
    return _example(rng, id, duplicate=rng.random() < 0.5, overlap=True)
