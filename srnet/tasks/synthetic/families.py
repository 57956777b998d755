"""The three tasks of the embedded benchmark: pairs of texts with a given relation and a given cue.

A scene is a sentence about two people: what one did to the other, and what one of them did besides. It has four content
words. Its retelling has two clauses. It says the same, or one concept is replaced, or the roles are exchanged. A given
number of its content words are the scene's own words, the others are synonyms. So truth and overlap are independent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from srnet.tasks.base import Metric
from srnet.tasks.shortcut import Shortcut
from srnet.tasks.splits import LEVELS, Example
from srnet.tasks.synthetic.cues import Draw
from srnet.tasks.synthetic.grammar import (
    CLAIM_OPENINGS,
    CONSTRUCTIONS,
    FORMS,
    Fact,
    Sentence,
    Surface,
    Words,
    adjunct,
    clause,
    draw_event,
    draw_surface,
    draw_verb,
    other_concept,
    other_words,
)

MOST_SHARED = 3
"""All four words would reveal that no concept was changed."""
_VERIFICATION_KINDS = (("same",), ("verb", "roles"), ("person",))
"""What differs between claim and evidence, by relation: supports, refutes, not enough info."""


def draw_scene(rng: Random) -> Sentence:
    return CONSTRUCTIONS[rng.choice(("subject_relative", "object_relative"))](rng)


def retold(rng: Random, scene: Sentence, kind: str, shared: int) -> Words:
    """Two clauses with the relation `kind` to the scene, and `shared` of its content words."""
    own = dict(scene.surface)
    synonyms = other_words(own)
    event, act = sorted(scene.facts, key=lambda fact: fact.patient is None)
    new: dict[str, str] = {}
    if kind == "changed":
        old = rng.choice(sorted(own))
        new[old] = other_concept(rng, old, scene.mentioned)
    if kind == "roles":
        event = event.swapped()
    unchanged = sorted(own.keys() - new.keys())
    kept = rng.sample(unchanged, shared)
    w: Surface = draw_surface(rng, tuple(new.values()))
    w |= {concept: own[concept] if concept in kept else synonyms[concept] for concept in unchanged}
    form = rng.choice(("active", "passive"))
    clauses = [FORMS[form](_exchanged(event, new), w), FORMS["active"](_exchanged(act, new), w)]
    rng.shuffle(clauses)
    return [*clauses[0], "and", *clauses[1]]


def _exchanged(fact: Fact, new: dict[str, str]) -> Fact:
    return Fact(*(new.get(concept, concept) for concept in fact.concepts))


def drawn_kind(rng: Random, *, same: bool) -> str:
    return "same" if same else rng.choice(("changed", "roles"))


def _inference(rng: Random, id: str, draw: Draw) -> Example:
    """A scene and its retelling: is the second entailed by the first?"""
    scene, kind = draw_scene(rng), drawn_kind(rng, same=bool(draw.relation))
    # none where the cue is strong against, one where it is weak; two where it is weak in favour, three where strong
    shared = 1 + draw.grade if draw.towards else 2 - draw.grade
    retelling = " ".join(retold(rng, scene, kind, shared))
    return Example(id, scene.text, retelling, draw.label, f"{draw.case}{LEVELS}{kind}")


def _paraphrase(rng: Random, id: str, draw: Draw) -> Example:
    """As in inference, but either sentence may come first: do they say the same?"""
    pair = _inference(rng, id, draw)
    if rng.random() < 0.5:
        return Example(id, pair.text_b, pair.text_a, pair.label, pair.group)
    return pair


def _claimed(rng: Random, event: Fact, kind: str) -> Fact:
    if kind == "verb":
        return Fact(event.agent, _other_verb(rng, event.verb), event.patient)
    if kind == "roles":
        return event.swapped()
    if kind == "same":
        return event
    slot = rng.choice(("agent", "patient"))
    parts = dict(zip(("agent", "verb", "patient"), event.concepts, strict=True))
    return Fact(**parts | {slot: other_concept(rng, parts[slot], frozenset(event.concepts))})


def _other_verb(rng: Random, verb: str) -> str:
    """From the verbs that occur in evidence, so that the claim alone does not reveal the replacement."""
    while (other := draw_verb(rng, transitive=True, contest=True)) == verb:
        pass
    return other


def _opening(rng: Random, draw: Draw) -> list[str]:
    """None without a cue; a weak cue is one of the first two words of its label's row, a strong one of the others."""
    row = CLAIM_OPENINGS[draw.towards]
    return [rng.choice(row[:2] if draw.grade == 1 else row[2:]), ","] if draw.grade else []


def _verification(rng: Random, id: str, draw: Draw) -> Example:
    """Evidence and a claim: does the evidence support or refute it, or say nothing about it?"""
    event = draw_event(rng, contest=True)
    evidence = FORMS[rng.choice(tuple(FORMS))](event, draw_surface(rng, event.concepts)) + adjunct(rng)
    kind = rng.choice(_VERIFICATION_KINDS[draw.relation])
    claimed = _claimed(rng, event, kind)
    claim = [*_opening(rng, draw), *clause(rng, claimed, draw_surface(rng, claimed.concepts))]
    return Example(id, " ".join(evidence), " ".join(claim), draw.label, f"{draw.case}{LEVELS}{kind}")


@dataclass(frozen=True)
class _EmbeddedTask:
    labels: tuple[str, ...]
    write: Callable[[Random, str, Draw], Example]
    metric: Metric
    shortcut: Shortcut
    noise: float
    frequencies: tuple[float, float, float]
    """With these defaults the best classifier without the cue loses, in expectation, at most 4 points ID and gains 20
    to 35 OOD."""
    words: tuple[str, ...]
    """Label words, from the grammar's own vocabulary."""


_INFERENCE = _EmbeddedTask(
    labels=("not_entailment", "entailment"),
    write=_inference,
    metric="accuracy",
    shortcut="overlap",
    noise=0.06,
    frequencies=(0.0, 1.0, 2.0),
    words=("perhaps", "truly"),
)
EMBEDDED_TASKS = {
    "inference": _INFERENCE,
    "paraphrase": replace(_INFERENCE, labels=("not_duplicate", "duplicate"), write=_paraphrase, metric="f1"),
    "verification": _EmbeddedTask(
        labels=("supports", "refutes", "not_enough_info"),
        write=_verification,
        metric="accuracy",
        shortcut="claim",
        noise=0.08,
        frequencies=(1.0, 1.0, 3.0),
        words=("truly", "allegedly", "perhaps"),
    ),
}
