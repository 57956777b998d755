"""Pairs of texts with a given relation that share a given number of words.

A scene is a sentence about two people: what one did to the other, and what one of them did besides. It has four content
words. Its retelling has two clauses. It says the same, or one concept is replaced, or the roles are exchanged. A given
number of its content words are the scene's own words, the others are synonyms. So truth and overlap are independent.
"""

from __future__ import annotations

from random import Random

from srnet.tasks.splits import LEVELS, Example
from srnet.tasks.synthetic.evidence import Draw
from srnet.tasks.synthetic.grammar import (
    CLAIM_OPENINGS,
    CONSTRUCTIONS,
    FORMS,
    Fact,
    Sentence,
    Surface,
    Words,
    active,
    adjunct,
    clause,
    draw_event,
    draw_surface,
    draw_verb,
    other_concept,
    other_words,
)


def draw_scene(rng: Random) -> Sentence:
    return CONSTRUCTIONS[rng.choice(("subject_relative", "object_relative"))](rng)


KINDS = ("same", "changed", "roles")
MOST_SHARED = 3
"""All four words would reveal that no concept was changed."""


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
    clauses = [_event(rng, _exchanged(event, new), w), active(_exchanged(act, new), w)]
    rng.shuffle(clauses)
    return [*clauses[0], "and", *clauses[1]]


def _event(rng: Random, fact: Fact, w: Surface) -> Words:
    return FORMS[rng.choice(("active", "passive"))](fact, w)


def _exchanged(fact: Fact, new: dict[str, str]) -> Fact:
    return Fact(*(new.get(concept, concept) for concept in fact.concepts))


def drawn_kind(rng: Random, *, same: bool) -> str:
    return "same" if same else rng.choice(("changed", "roles"))


def with_evidence(rng: Random, draw: Draw) -> tuple[str, str, str]:
    """A scene, its retelling according to `draw`, and the sub-case."""
    scene, kind = draw_scene(rng), drawn_kind(rng, same=bool(draw.relation))
    # none where the cue is strong against, one where it is weak; two where it is weak in favour, three where strong
    shared = 1 + draw.grade if draw.towards else 2 - draw.grade
    return scene.text, " ".join(retold(rng, scene, kind, shared)), f"{draw.case}{LEVELS}{kind}"


# --- inference: does the premise entail the hypothesis? ---

INFERENCE_LABELS = ("not_entailment", "entailment")


def inference_example(rng: Random, id: str, draw: Draw) -> Example:
    premise, hypothesis, sub_case = with_evidence(rng, draw)
    return Example(id, premise, hypothesis, draw.label, sub_case)


# --- paraphrase: do two sentences say the same thing? ---

PARAPHRASE_LABELS = ("not_duplicate", "duplicate")


def paraphrase_example(rng: Random, id: str, draw: Draw) -> Example:
    """As in inference, but either sentence may come first."""
    first, second, sub_case = with_evidence(rng, draw)
    if rng.random() < 0.5:
        first, second = second, first
    return Example(id, first, second, draw.label, sub_case)


# --- claim verification: does the evidence support or refute the claim, or say nothing about it? ---

VERIFICATION_LABELS = ("supports", "refutes", "not_enough_info")
SUPPORTS, REFUTES, NOT_ENOUGH_INFO = 0, 1, 2
VERIFICATION_KINDS = (("same",), ("verb", "roles"), ("person",))
"""What differs between claim and evidence, by relation."""


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


def verification_example(rng: Random, id: str, draw: Draw) -> Example:
    event = draw_event(rng, contest=True)
    evidence = FORMS[rng.choice(tuple(FORMS))](event, draw_surface(rng, event.concepts)) + adjunct(rng)
    kind = rng.choice(VERIFICATION_KINDS[draw.relation])
    claimed = _claimed(rng, event, kind)
    claim = [*_opening(rng, draw), *clause(rng, claimed, draw_surface(rng, claimed.concepts))]
    return Example(id, " ".join(evidence), " ".join(claim), draw.label, f"{draw.case}{LEVELS}{kind}")
