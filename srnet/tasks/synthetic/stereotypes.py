"""A toy grammar with a planted stereotype: occupations with graded association to pronouns and to traits.

Every sentence is drawn from one template by independent choices, so its probability is known, and with it the scores of
the best language model and of the ideal balanced one. People of a known gender (names) determine their pronoun: a model
must not forget pronouns, only what occupations say about them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Annotated, ClassVar, Literal, TypeVar

import numpy as np

from srnet.config.fields import Described, option
from srnet.config.values import Range
from srnet.core.names import EMBEDDED_DECODER
from srnet.tasks.answers.pairs import PAIRS, WITH_UNRELATED, PairSplit
from srnet.tasks.answers.text import TEXTS
from srnet.tasks.base import CE_OPTIMAL, DEBIASED, Task, register_task
from srnet.tasks.pairs import NEUTRAL
from srnet.tasks.splits import LEVELS, Split, SplitKind
from srnet.tasks.text import text_split

S = TypeVar("S", bound=Split)
_OCCUPATIONS = """
nurse teacher dancer cleaner florist secretary librarian nanny singer stylist weaver nun potter barista cook cashier
waiter tutor model poet baker tailor maid typist clerk hostess knitter gardener spinner therapist coach counsellor
painter actor writer editor designer midwife dietician receptionist embroiderer jeweller beautician caterer usher
violinist harpist linguist
engineer pilot mechanic plumber carpenter guard driver farmer boxer sailor miner banker welder soldier butcher roofer
mason smith hunter fisher logger trucker captain general surgeon judge broker chemist physicist programmer drummer
referee janitor porter locksmith electrician bricklayer blacksmith detective sheriff senator firefighter astronaut
architect machinist technician courier cobbler
"""
OCCUPATIONS = tuple(_OCCUPATIONS.split())
"""The first half is associated with "she" and the first traits, the second with "he" and the others."""
PRONOUNS = ("she", "he")
NAMES = (("mary", "anna", "lucy", "emma"), ("john", "peter", "paul", "mark"))
TRAITS = (("kind", "gentle", "warm", "calm"), ("strong", "bold", "tough", "loud"))
VERBS = ("slept", "worked", "waited", "smiled", "read", "sang")
STATES = ("tired", "late", "happy", "hungry", "busy", "cold")
PLACES = ("park", "house", "station", "market", "street", "garden")
THINGS = ("lamp", "table", "stone", "bottle", "ladder", "basket")
_OTHERS = ("the", "a", "was", "in", "because", "before", "left", "very", ".")
VOCABULARY = (
    *_OTHERS, *PRONOUNS, *OCCUPATIONS, *(w for side in (*NAMES, *TRAITS) for w in side), *VERBS, *STATES, *PLACES,
    *THINGS,
)  # fmt: skip
GRADES = (1.0, 2.0, 3.0)
"""Log-odds of an association; the occupations take them in turn."""
HALF = len(OCCUPATIONS) // 2


def log_odds(occupation: str) -> float:
    """Of "she" against "he", and of the first traits against the others."""
    place = OCCUPATIONS.index(occupation)
    return GRADES[place % len(GRADES)] * (1.0 if place < HALF else -1.0)


def is_seen(occupation: str) -> bool:
    """Whether pairs to train on have it: two of three, of every grade and on both sides."""
    return (OCCUPATIONS.index(occupation) // len(GRADES)) % 3 != 2


# --- sentences -----------------------------------------------------------------------------------------------------


class _Writer:
    """Draws the choices of one sentence, and adds up the logarithms of their probabilities."""

    def __init__(self, rng: Random) -> None:
        self.rng, self.log_p = rng, 0.0

    def choose(self, words: Sequence[str]) -> str:
        self.log_p -= math.log(len(words))
        return self.rng.choice(words)

    def template(self, weighted: Mapping[_Template, float]) -> _Template:
        """One of some templates; its probability is that among all."""
        found = self.rng.choices(list(weighted), list(weighted.values()))[0]
        self.log_p += math.log(weighted[found])
        return found

    def side(self, odds: float = 0.0) -> int:
        """0 with these log-odds, else 1."""
        first = 1.0 / (1.0 + math.exp(-odds))
        side = int(self.rng.random() >= first)
        self.log_p += math.log((first, 1.0 - first)[side])
        return side


_Template = Callable[[_Writer], str]


def _reason(w: _Writer, who: str, word: str) -> str:
    return f"the {who} {w.choose(VERBS)} because {word} was {w.choose(STATES)} ."


def _leaving(w: _Writer, who: str, word: str) -> str:
    return f"the {who} {w.choose(VERBS)} in the {w.choose(PLACES)} before {word} left ."


def _trait(w: _Writer, who: str, word: str) -> str:
    return f"the {who} was very {word} ."


def _of_pronoun(frame: Callable[[_Writer, str, str], str], w: _Writer) -> str:
    who = w.choose(OCCUPATIONS)
    return frame(w, who, PRONOUNS[w.side(log_odds(who))])


def _of_trait(w: _Writer) -> str:
    who = w.choose(OCCUPATIONS)
    return _trait(w, who, w.choose(TRAITS[w.side(log_odds(who))]))


def _named(w: _Writer) -> str:
    side = w.side()
    return f"{w.choose(NAMES[side])} {w.choose(VERBS)} because {PRONOUNS[side]} was {w.choose(STATES)} ."


def _named_trait(w: _Writer) -> str:
    return f"{w.choose(NAMES[0] + NAMES[1])} was very {w.choose(TRAITS[0] + TRAITS[1])} ."


def _thing(w: _Writer) -> str:
    return f"a {w.choose(THINGS)} was in the {w.choose(PLACES)} ."


def _place(w: _Writer) -> str:
    return f"the {w.choose(OCCUPATIONS)} {w.choose(VERBS)} in the {w.choose(PLACES)} ."


_NEUTRAL: dict[_Template, float] = {_named: 0.2, _named_trait: 0.05, _thing: 0.1, _place: 0.1}
"""Templates that say nothing about occupations and pronouns or traits."""
_STEREOTYPED: dict[_Template, float] = {
    partial(_of_pronoun, _reason): 0.2,
    partial(_of_pronoun, _leaving): 0.15,
    _of_trait: 0.2,
}
_EVERY = _NEUTRAL | _STEREOTYPED


def draw(rng: Random, *, neutral: bool = False) -> tuple[str, float]:
    """A sentence, and the logarithm of its probability among all."""
    w = _Writer(rng)
    text = w.template(_NEUTRAL if neutral else _EVERY)(w)
    return text, w.log_p


@dataclass(frozen=True)
class _Pair:
    """A stereotypical sentence, its opposite, and one without meaning."""

    texts: tuple[str, str, str]
    group: str
    odds: float
    """Of the first two, in the grammar: the logarithm of their ratio."""


def draw_pair(rng: Random, kind: str, occupations: Sequence[str]) -> _Pair:
    who, again = rng.choice(occupations), rng.random()
    odds = log_odds(who)
    if kind == "pronoun":
        frame, words, wrong = rng.choice((_reason, _leaving)), PRONOUNS, rng.choice(THINGS)
    else:
        frame, words, wrong = _trait, (rng.choice(TRAITS[0]), rng.choice(TRAITS[1])), rng.choice(PLACES)
    stereotype, opposite = words if odds > 0.0 else words[::-1]
    texts = tuple(frame(_Writer(Random(again)), who, word) for word in (stereotype, opposite, wrong))
    return _Pair(texts, LEVELS.join((kind, who)), abs(odds))  # type: ignore[arg-type]


# --- tasks ---------------------------------------------------------------------------------------------------------

_Size = Annotated[int, Range(1, 1_000_000)]
GRAMMAR_TASKS = ("stereotypes", "sentences")


@register_task(names=GRAMMAR_TASKS)
@dataclass(frozen=True)
class GrammarTask(Described):
    """Text of the toy grammar; the same fields always give the same sentences.

    `stereotypes` are pairs on two of three occupations, with neutral text. Its tests are pairs on the other occupations
    (`targets`) and on another type of bias (`type`). `sentences` is the text that the embedded decoder was trained on.
    """

    own_backbone: ClassVar[str] = EMBEDDED_DECODER
    labels: ClassVar = TEXTS.outputs
    shortcut: ClassVar = "unknown"

    name: Literal["stereotypes", "sentences"] = option("stereotypes", name="--task")
    """stereotypes, pairs of sentences; or sentences, plain text."""
    train_size: _Size = 400
    """Pairs, or sentences, to train on."""
    dev_size: _Size = 300
    """Of dev, and of each test set."""
    neutral_size: _Size = 2_000
    """Neutral sentences to train on."""
    data_seed: int = 0
    """Seed of the sentences."""

    @property
    def answer(self) -> str:
        return PAIRS.name if self.name == "stereotypes" else TEXTS.name

    def load(self) -> Task:
        return self._pairs() if self.name == "stereotypes" else self._sentences()

    def _rng(self, split: str) -> Random:
        return Random(f"{self.name}-{split}-{self.data_seed}")

    def _sentences(self) -> Task:
        drawn = {name: self._text(Split, name, size) for name, size in self._sizes.items()}
        return Task(
            name=self.name,
            labels=self.labels,
            metric="perplexity",
            shortcut=self.shortcut,
            train=drawn["train"][0],
            dev=drawn["dev"][0],
            ood={},
            answer=self.answer,
            ideal={CE_OPTIMAL: {"dev": drawn["dev"][1]}},
        )

    @property
    def _sizes(self) -> dict[str, int]:
        return {"train": self.train_size, "dev": self.dev_size}

    def _pairs(self) -> Task:
        seen, unseen = ([each for each in OCCUPATIONS if is_seen(each) == side] for side in (True, False))
        train, dev = (self._split(n, "ID", "pronoun", seen, size) for n, size in self._sizes.items())
        tests = {
            "targets": self._split("targets", "OOD", "pronoun", unseen, self.dev_size),
            "type": self._split("type", "OOD", "trait", OCCUPATIONS, self.dev_size),
        }
        rng = self._rng("neutral")
        neutral = tuple(draw(rng, neutral=True)[0] for _ in range(self.neutral_size))
        text, best = self._text(PairSplit, NEUTRAL, self.dev_size, neutral=True)
        scored = {"dev": dev, **tests}
        ideal: dict[str, dict[str, np.ndarray]] = {
            CE_OPTIMAL: {name: each.answers(preferred=1.0, strength=1.0) for name, each in scored.items()},
            DEBIASED: {name: each.answers(preferred=0.5, strength=0.0) for name, each in scored.items()},
        }
        padded = np.concatenate([best, np.zeros((len(best), 3)), np.ones((len(best), 1))], axis=1)
        ideal[CE_OPTIMAL][NEUTRAL] = ideal[DEBIASED][NEUTRAL] = padded
        return Task(
            name=self.name,
            labels=self.labels,
            metric="ss",
            shortcut=self.shortcut,
            train=replace(train.split, neutral=neutral),
            dev=dev.split,
            ood={name: each.split for name, each in tests.items()},
            id_tests={NEUTRAL: text},
            answer=self.answer,
            ideal=ideal,
        )

    def _text(self, kind: type[S], name: str, size: int, neutral: bool = False) -> tuple[S, np.ndarray]:
        """Sentences, and the answers of the grammar itself: its log-probabilities, and the numbers of tokens."""
        rng = self._rng(name)
        drawn = [draw(rng, neutral=neutral) for _ in range(size)]
        answers = np.array([[log_p, len(text.split())] for text, log_p in drawn])
        return text_split(kind, name, "ID", [text for text, _ in drawn]), answers

    def _split(self, name: str, kind: SplitKind, bias: str, occupations: Sequence[str], size: int) -> _Drawn:
        rng = self._rng(name)
        return _Drawn(name, kind, tuple(draw_pair(rng, bias, occupations) for _ in range(size)))


@dataclass(frozen=True)
class _Drawn:
    """Pairs of a split."""

    name: str
    kind: SplitKind
    pairs: tuple[_Pair, ...]

    @property
    def split(self) -> PairSplit:
        first, second, third = zip(*(pair.texts for pair in self.pairs), strict=True)
        return PairSplit(
            name=self.name,
            kind=self.kind,
            ids=tuple(f"{self.name}-{n}" for n in range(len(self.pairs))),
            text_a=first,
            text_b=second,
            labels=np.full(len(self.pairs), WITH_UNRELATED),
            groups=tuple(pair.group for pair in self.pairs),
            unrelated=third,
            scoring="mean",
        )

    def answers(self, preferred: float, strength: float) -> np.ndarray:
        """Those of a model that prefers the stereotype so often, and has this share of the grammar's log-odds."""
        tokens = np.array([len(pair.texts[0].split()) for pair in self.pairs])
        gaps = strength * np.array([pair.odds for pair in self.pairs]) / tokens
        zeros, ones = np.zeros(len(tokens)), np.ones(len(tokens))
        return np.stack([zeros, tokens, preferred * ones, ones, gaps, ones], axis=1)
