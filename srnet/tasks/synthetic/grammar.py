"""Sentences that know what they assert.

A `Scene` says who did what to whom, and which of the two did something else. Truth is decided by comparing scenes,
never by looking at words. The foils of a scene are made of the very same concepts: only who did what differs, so which
words two sentences share says nothing about whether they agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
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
class Scene:
    """`agent` did `verb` to `patient`; `actor`, one of the two, did `act`. All are concepts, not words."""

    agent: str
    verb: str
    patient: str
    act: str
    actor: str

    @property
    def concepts(self) -> tuple[str, ...]:
        return (self.agent, self.verb, self.patient, self.act)


FOILS: dict[str, Callable[[Scene], Scene]] = {
    "roles": lambda scene: replace(scene, agent=scene.patient, patient=scene.agent),
    "actor": lambda scene: replace(scene, actor=scene.patient if scene.actor == scene.agent else scene.agent),
}
"""The ways to contradict a scene with its own concepts, by what is exchanged."""


# --- choosing words ------------------------------------------------------------------------------------------------


def draw_scene(rng: Random, *, contest: bool = False) -> Scene:
    agent, patient = (pair[0] for pair in rng.sample(PEOPLE, 2))
    verb = rng.choice(CONTEST_VERBS if contest else TRANSITIVE_VERBS)[0]
    return Scene(
        agent=agent,
        verb=verb,
        patient=patient,
        act=rng.choice(INTRANSITIVE_VERBS)[0],
        actor=rng.choice((agent, patient)),
    )


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


def _subject_relative(s: Scene, w: Surface) -> Words:
    return ["the", w[s.agent], "who", w[s.verb], "the", w[s.patient], w[s.act]]


def _passive_main(s: Scene, w: Surface) -> Words:
    return ["the", w[s.patient], "was", w[s.verb], "by", "the", w[s.agent], "who", w[s.act]]


def _object_relative(s: Scene, w: Surface) -> Words:
    return ["the", w[s.patient], "whom", "the", w[s.agent], w[s.verb], w[s.act]]


def _passive_relative(s: Scene, w: Surface) -> Words:
    return ["the", w[s.patient], "who", "was", w[s.verb], "by", "the", w[s.agent], w[s.act]]


def _active_main(s: Scene, w: Surface) -> Words:
    return ["the", w[s.agent], w[s.verb], "the", w[s.patient], "who", w[s.act]]


def _active_and(s: Scene, w: Surface) -> Words:
    return ["the", w[s.agent], w[s.verb], "the", w[s.patient], "and", "the", w[s.actor], w[s.act]]


def _passive_and(s: Scene, w: Surface) -> Words:
    return ["the", w[s.patient], "was", w[s.verb], "by", "the", w[s.agent], "and", "the", w[s.actor], w[s.act]]


Form = Callable[[Scene, Surface], Words]
OF_THE_AGENT: dict[str, Form] = {"subject_relative": _subject_relative, "passive_main": _passive_main}
OF_THE_PATIENT: dict[str, Form] = {
    "object_relative": _object_relative,
    "passive_relative": _passive_relative,
    "active_main": _active_main,
}
OF_EITHER: dict[str, Form] = {"active_and": _active_and, "passive_and": _passive_and}
"""The forms by who can be the actor in them."""


def forms_of(scene: Scene) -> dict[str, Form]:
    return {**(OF_THE_AGENT if scene.actor == scene.agent else OF_THE_PATIENT), **OF_EITHER}


def sentence(rng: Random, scene: Scene, w: Surface) -> Words:
    """The scene in one of the forms that can express it."""
    forms = forms_of(scene)
    return forms[rng.choice(sorted(forms))](scene, w)


def elaborated(rng: Random, words: Words) -> Words:
    """The same sentence with something more in it: a quality of one person, and how it ended."""
    at = rng.choice([place for place, word in enumerate(words) if word == "the"])
    return [*words[: at + 1], rng.choice(QUALITIES), *words[at + 1 :], rng.choice(MANNERS)]


# --- claims: the event of a scene alone ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Event:
    agent: str
    verb: str
    patient: str

    @property
    def concepts(self) -> tuple[str, ...]:
        return (self.agent, self.verb, self.patient)


def event_of(scene: Scene) -> Event:
    return Event(scene.agent, scene.verb, scene.patient)


def unmentioned(rng: Random, event: Event) -> Event:
    """The event with one of its concepts exchanged for another."""
    slot = rng.choice(("agent", "verb", "patient"))
    pool = CONTEST_VERBS if slot == "verb" else PEOPLE
    return replace(event, **{slot: rng.choice([pair[0] for pair in pool if pair[0] not in event.concepts])})


CLAIMS: dict[str, Callable[[str, str, str], Words]] = {
    "active": lambda a, v, p: ["the", a, v, "the", p],
    "passive": lambda a, v, p: ["the", p, "was", v, "by", "the", a],
    "subject_cleft": lambda a, v, p: ["it", "was", "the", a, "who", v, "the", p],
    "object_cleft": lambda a, v, p: ["it", "was", "the", p, "whom", "the", a, v],
}


def claim(rng: Random, event: Event, w: Surface) -> Words:
    return CLAIMS[rng.choice(sorted(CLAIMS))](*(w[concept] for concept in event.concepts))
