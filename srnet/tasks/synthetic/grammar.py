"""Sentences that know what they assert.

An `Event` says who did what to whom, and how. Truth is decided by comparing events, never by looking at words. An event
with exchanged roles is made of the very same concepts, so which words two sentences share says nothing about whether
they agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass, replace
from random import Random

from srnet.tasks.synthetic.lexicon import (
    CONTEST_VERBS,
    INTRANSITIVE_VERBS,
    MANNERS,
    PEOPLE,
    QUALITIES,
    SYNONYMS,
    TRANSITIVE_VERBS,
)

Words = list[str]
Surface = dict[str, str]
"""Which of its two words each concept takes in a sentence. A concept is named after its first word."""

_WORDS_OF = {pair[0]: pair for pair in SYNONYMS}


@dataclass(frozen=True)
class Event:
    """`agent` did `verb` to `patient` in some `manner`. All are concepts, not words."""

    agent: str
    verb: str
    patient: str
    manner: str

    @property
    def concepts(self) -> tuple[str, ...]:
        return astuple(self)

    def swapped(self) -> Event:
        return replace(self, agent=self.patient, patient=self.agent)


# --- choosing words ------------------------------------------------------------------------------------------------


def draw_event(rng: Random, *, contest: bool = False) -> Event:
    agent, patient = (pair[0] for pair in rng.sample(PEOPLE, 2))
    verb = rng.choice(CONTEST_VERBS if contest else TRANSITIVE_VERBS)[0]
    return Event(agent, verb, patient, rng.choice(MANNERS)[0])


def replaced(rng: Random, event: Event) -> Event:
    """The event with one of its people, or its verb, exchanged for another."""
    slot = rng.choice(("agent", "verb", "patient"))
    pool = PEOPLE if slot != "verb" else CONTEST_VERBS if _is_contest(event.verb) else TRANSITIVE_VERBS
    return replace(event, **{slot: rng.choice([pair[0] for pair in pool if pair[0] not in event.concepts])})


def _is_contest(verb: str) -> bool:
    return any(verb == pair[0] for pair in CONTEST_VERBS)


def draw_surface(rng: Random, concepts: Iterable[str]) -> Surface:
    return {concept: rng.choice(_WORDS_OF[concept]) for concept in concepts}


def synonym(concept: str, word: str) -> str:
    """The other word of a concept."""
    first, second = _WORDS_OF[concept]
    return second if word == first else first


def sharing(rng: Random, surface: Surface, shared: int) -> Surface:
    """Words for the same concepts: those of `surface` for `shared` of them, synonyms for the rest."""
    kept = set(rng.sample(sorted(surface), shared))
    return {concept: word if concept in kept else synonym(concept, word) for concept, word in surface.items()}


# --- sentences -----------------------------------------------------------------------------------------------------

FORMS: dict[str, Callable[[str, str, str], Words]] = {
    "active": lambda agent, verb, patient: ["the", agent, verb, "the", patient],
    "passive": lambda agent, verb, patient: ["the", patient, "was", verb, "by", "the", agent],
    "subject_cleft": lambda agent, verb, patient: ["it", "was", "the", agent, "who", verb, "the", patient],
    "object_cleft": lambda agent, verb, patient: ["it", "was", "the", patient, "whom", "the", agent, verb],
}


def claim(rng: Random, event: Event, w: Surface) -> Words:
    """Who did what to whom."""
    return FORMS[rng.choice(sorted(FORMS))](w[event.agent], w[event.verb], w[event.patient])


def sentence(rng: Random, event: Event, w: Surface) -> Words:
    """The whole event."""
    return [*claim(rng, event, w), w[event.manner]]


def elaborated(rng: Random, event: Event, words: Words) -> Words:
    """The sentence with something more in it: a quality of one of the people, or what a third person did."""
    if rng.random() < 0.5:
        at = rng.choice([place for place, word in enumerate(words) if word == "the"])
        return [*words[: at + 1], rng.choice(QUALITIES), *words[at + 1 :]]
    others = [pair for pair in PEOPLE if pair[0] not in event.concepts]
    return [*words, "while", "the", rng.choice(rng.choice(others)), rng.choice(INTRANSITIVE_VERBS)]
