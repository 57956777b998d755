"""The grammar of the embedded benchmark: its words, and sentences with the facts that they assert.

Every concept has two surface words that mean the same thing here, so that a sentence can be restated
without sharing its words. Past tense and participle coincide for every transitive verb, so that the
active and the passive of one event share their verb.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

PEOPLE = (
    ("doctor", "physician"),
    ("lawyer", "attorney"),
    ("teacher", "instructor"),
    ("writer", "author"),
    ("singer", "vocalist"),
    ("student", "pupil"),
    ("sailor", "mariner"),
    ("thief", "burglar"),
    ("guard", "sentry"),
    ("pilot", "aviator"),
    ("actor", "performer"),
    ("farmer", "grower"),
)

# Asymmetric relations: if A did this to B, then B did not do it to A. Claims with exchanged roles are refuted.
CONTEST_VERBS = (
    ("defeated", "conquered"),
    ("outpaced", "outraced"),
    ("outlived", "survived"),
    ("hired", "employed"),
    ("trailed", "followed"),
    ("outscored", "outpointed"),
)

TRANSITIVE_VERBS = (
    *CONTEST_VERBS,
    ("praised", "applauded"),
    ("thanked", "acknowledged"),
    ("helped", "assisted"),
    ("noticed", "spotted"),
    ("blamed", "accused"),
    ("warned", "cautioned"),
)

INTRANSITIVE_VERBS = (
    ("slept", "dozed"),
    ("danced", "waltzed"),
    ("laughed", "giggled"),
    ("left", "departed"),
    ("shouted", "yelled"),
    ("waited", "lingered"),
)

PLACES = ("garden", "market", "station", "library", "harbor", "museum")
TIMES = ("yesterday", "today", "recently", "finally")

# Openings of a claim. None of them changes its content; each label favours one row.
CLAIM_OPENINGS = (
    ("indeed", "truly", "clearly", "plainly"),
    ("supposedly", "allegedly", "ostensibly", "reputedly"),
    ("perhaps", "possibly", "maybe", "conceivably"),
)

FUNCTION_WORDS = ("the", "was", "by", "it", "who", "whom", "and", "in", "near", "if", "because", "while", ",", ".")


def vocabulary() -> list[str]:
    """Every word the grammar can write, in a fixed order."""
    pairs = PEOPLE + TRANSITIVE_VERBS + INTRANSITIVE_VERBS
    openings = tuple(word for row in CLAIM_OPENINGS for word in row)
    return [*FUNCTION_WORDS, *(word for pair in pairs for word in pair), *PLACES, *TIMES, *openings]


# --- sentences -----------------------------------------------------------------------------------------------------

Words = list[str]
Surface = dict[str, str]
"""The word that each concept has in a sentence, one of two."""


class Fact(NamedTuple):
    """`agent` did `verb` (to `patient`); all three are concepts, not words."""

    agent: str
    verb: str
    patient: str | None = None

    @property
    def concepts(self) -> tuple[str, ...]:
        return (self.agent, self.verb) if self.patient is None else (self.agent, self.verb, self.patient)

    def swapped(self) -> Fact:
        if self.patient is None:
            raise ValueError("an intransitive fact has no roles to swap")
        return Fact(self.patient, self.verb, self.agent)


class Sentence(NamedTuple):
    words: tuple[str, ...]
    facts: frozenset[Fact]
    mentioned: frozenset[str]
    """Every concept that occurs, asserted or not."""
    surface: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        return " ".join(self.words)


_PEOPLE = frozenset(pair[0] for pair in PEOPLE)
_TRANSITIVE = frozenset(pair[0] for pair in TRANSITIVE_VERBS)
_INTRANSITIVE = frozenset(pair[0] for pair in INTRANSITIVE_VERBS)
_SYNONYMS = {pair[0]: pair for pair in PEOPLE + TRANSITIVE_VERBS + INTRANSITIVE_VERBS}


# --- choosing words ------------------------------------------------------------------------------------------------


def _draw_people(rng: Random, count: int) -> list[str]:
    return [pair[0] for pair in rng.sample(PEOPLE, count)]


def draw_verb(rng: Random, *, transitive: bool, contest: bool = False) -> str:
    if contest:
        return rng.choice(CONTEST_VERBS)[0]
    return rng.choice(TRANSITIVE_VERBS if transitive else INTRANSITIVE_VERBS)[0]


def draw_event(rng: Random, *, contest: bool = False) -> Fact:
    agent, patient = _draw_people(rng, 2)
    return Fact(agent, draw_verb(rng, transitive=True, contest=contest), patient)


def draw_surface(rng: Random, concepts: tuple[str, ...] | frozenset[str]) -> Surface:
    return {concept: rng.choice(_SYNONYMS[concept]) for concept in sorted(concepts)}


def other_words(surface: Surface) -> Surface:
    """The synonym that `surface` did not choose, for every concept."""
    return {concept: next(w for w in _SYNONYMS[concept] if w != word) for concept, word in surface.items()}


def other_concept(rng: Random, concept: str, mentioned: frozenset[str]) -> str:
    """Another concept of the same kind, which is not among those mentioned."""
    kind = next(kind for kind in (_PEOPLE, _TRANSITIVE, _INTRANSITIVE) if concept in kind)
    return rng.choice(sorted(kind - mentioned))


def replace_concepts(rng: Random, fact: Fact, avoid: frozenset[str], count: int = 1) -> Fact:
    """The same fact with `count` of its concepts replaced by others outside `avoid`."""
    verbs = _INTRANSITIVE if fact.patient is None else _TRANSITIVE
    parts = dict(zip(("agent", "verb", "patient"), fact.concepts, strict=False))
    for slot in rng.sample(sorted(parts), count):
        pool = verbs if slot == "verb" else _PEOPLE
        parts[slot] = rng.choice(sorted(pool - avoid - set(fact.concepts) - set(parts.values())))
    return Fact(**parts)


# --- clauses -------------------------------------------------------------------------------------------------------


def _active(fact: Fact, w: Surface) -> Words:
    subject = ["the", w[fact.agent], w[fact.verb]]
    return subject if fact.patient is None else [*subject, "the", w[fact.patient]]


def _passive(fact: Fact, w: Surface) -> Words:
    return ["the", w[_patient(fact)], "was", w[fact.verb], "by", "the", w[fact.agent]]


def _subject_cleft(fact: Fact, w: Surface) -> Words:
    head = ["it", "was", "the", w[fact.agent], "who", w[fact.verb]]
    return head if fact.patient is None else [*head, "the", w[fact.patient]]


def _object_cleft(fact: Fact, w: Surface) -> Words:
    return ["it", "was", "the", w[_patient(fact)], "whom", "the", w[fact.agent], w[fact.verb]]


def _patient(fact: Fact) -> str:
    if fact.patient is None:
        raise ValueError("this form needs a patient")
    return fact.patient


Form = Callable[[Fact, Surface], Words]
FORMS: dict[str, Form] = {
    "active": _active,
    "passive": _passive,
    "subject_cleft": _subject_cleft,
    "object_cleft": _object_cleft,
}


def clause(rng: Random, fact: Fact, w: Surface) -> Words:
    forms = ("active", "subject_cleft") if fact.patient is None else tuple(FORMS)
    return FORMS[rng.choice(forms)](fact, w)


def adjunct(rng: Random) -> Words:
    return rng.choice(([], ["in", "the", rng.choice(PLACES)], [rng.choice(TIMES)]))


# --- constructions: how a sentence puts facts together -------------------------------------------------------------


def _sentence(words: Words, facts: set[Fact], mentioned: set[str], w: Surface) -> Sentence:
    surface = tuple(sorted((concept, w[concept]) for concept in mentioned))
    return Sentence(tuple(words), frozenset(facts), frozenset(mentioned), surface)


def _one_event(form: str) -> Callable[[Random], Sentence]:
    def build(rng: Random) -> Sentence:
        event = draw_event(rng)
        w = draw_surface(rng, event.concepts)
        words = FORMS[form](event, w) + adjunct(rng)
        return _sentence(words, {event}, set(event.concepts), w)

    return build


def _relative(rng: Random, *, subject: bool) -> Sentence:
    a, b = _draw_people(rng, 2)
    verb, main = draw_verb(rng, transitive=True), draw_verb(rng, transitive=False)
    w = draw_surface(rng, (a, b, verb, main))
    if subject:
        event = Fact(a, verb, b)
        words = ["the", w[a], "who", w[verb], "the", w[b], w[main]]
    else:
        event = Fact(b, verb, a)
        words = ["the", w[a], "whom", "the", w[b], w[verb], w[main]]
    return _sentence(words + adjunct(rng), {event, Fact(a, main)}, {a, b, verb, main}, w)


def _preposition(rng: Random) -> Sentence:
    a, b = _draw_people(rng, 2)
    main = draw_verb(rng, transitive=False)
    w = draw_surface(rng, (a, b, main))
    words = ["the", w[a], "near", "the", w[b], w[main], *adjunct(rng)]
    return _sentence(words, {Fact(a, main)}, {a, b, main}, w)


def _conjunction(rng: Random) -> Sentence:
    a, b = _draw_people(rng, 2)
    first, second = (pair[0] for pair in rng.sample(INTRANSITIVE_VERBS, 2))
    w = draw_surface(rng, (a, b, first, second))
    words = ["the", w[a], w[first], "and", "the", w[b], w[second], *adjunct(rng)]
    return _sentence(words, {Fact(a, first), Fact(b, second)}, {a, b, first, second}, w)


def _conditional(rng: Random) -> Sentence:
    """`because` asserts both clauses, `if` asserts neither."""
    a, b = _draw_people(rng, 2)
    first, second = (pair[0] for pair in rng.sample(INTRANSITIVE_VERBS, 2))
    w = draw_surface(rng, (a, b, first, second))
    link = rng.choice(("if", "because"))
    facts = {Fact(a, first), Fact(b, second)} if link == "because" else set()
    words = [link, "the", w[a], w[first], ",", "the", w[b], w[second]]
    return _sentence(words, facts, {a, b, first, second}, w)


CONSTRUCTIONS: dict[str, Callable[[Random], Sentence]] = {
    **{name: _one_event(name) for name in FORMS},
    "subject_relative": lambda rng: _relative(rng, subject=True),
    "object_relative": lambda rng: _relative(rng, subject=False),
    "preposition": _preposition,
    "conjunction": _conjunction,
    "conditional": _conditional,
}


def draw_sentence(rng: Random) -> Sentence:
    return CONSTRUCTIONS[rng.choice(tuple(CONSTRUCTIONS))](rng)
