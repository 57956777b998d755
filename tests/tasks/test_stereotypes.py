"""The toy grammar: its probabilities are complete, its pairs are balanced, and theory says what its models score."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pytest

from srnet.evaluation.metrics import reported
from srnet.tasks.base import CE_OPTIMAL, DEBIASED
from srnet.tasks.splits import LEVELS
from srnet.tasks.synthetic.stereotypes import (
    _EVERY,
    OCCUPATIONS,
    PRONOUNS,
    TRAITS,
    VOCABULARY,
    GrammarTask,
    _Writer,
    draw,
    is_seen,
    log_odds,
)


class _Scripted(_Writer):
    """Takes given choices, and notes how many there were at each point."""

    def __init__(self, script: list[int]) -> None:
        super().__init__(Random(0))
        self.script, self.widths = script, list[int]()

    def _next(self, width: int) -> int:
        self.widths.append(width)
        return self.script[len(self.widths) - 1] if len(self.widths) <= len(self.script) else 0

    def choose(self, words: Any) -> str:
        self.log_p -= math.log(len(words))
        return str(words[self._next(len(words))])

    def side(self, odds: float = 0.0) -> int:
        side = self._next(2)
        self.log_p -= math.log(1 + math.exp(-odds if side == 0 else odds))
        return side


def every_sentence(template: Any) -> list[tuple[str, float]]:
    """All sentences of a template with their log-probabilities, by trying all choices."""
    found, script = [], list[int]()
    while True:
        w = _Scripted(script)
        found.append((template(w), w.log_p))
        script = (script + [0] * len(w.widths))[: len(w.widths)]
        while script and script[-1] == w.widths[len(script) - 1] - 1:
            script.pop()
        if not script:
            return found
        script[-1] += 1


def test_the_probabilities_of_all_sentences_sum_to_one() -> None:
    total, texts = 0.0, set[str]()
    for template, share in _EVERY.items():
        sentences = every_sentence(template)
        assert sum(math.exp(log_p) for _, log_p in sentences) == pytest.approx(1.0)
        total += share
        assert not texts & {text for text, _ in sentences}, "a sentence has one derivation"
        texts |= {text for text, _ in sentences}
    assert total == pytest.approx(1.0)
    assert {word for text in texts for word in text.split()} == set(VOCABULARY)


def test_a_drawn_sentence_has_its_probability() -> None:
    known = {text: math.log(share) + p for each, share in _EVERY.items() for text, p in every_sentence(each)}
    rng = Random(3)
    for _ in range(200):
        text, log_p = draw(rng)
        assert log_p == pytest.approx(known[text])


def test_associations_are_balanced_and_graded() -> None:
    odds = {each: log_odds(each) for each in OCCUPATIONS}
    assert len(set(OCCUPATIONS)) == len(OCCUPATIONS)
    for some in (OCCUPATIONS, [o for o in OCCUPATIONS if is_seen(o)], [o for o in OCCUPATIONS if not is_seen(o)]):
        assert abs(sum(odds[each] for each in some)) <= 1e-9
        assert {abs(odds[each]) for each in some} == {1.0, 2.0, 3.0}
    assert 0.6 < sum(map(is_seen, OCCUPATIONS)) / len(OCCUPATIONS) < 0.7


@pytest.fixture(scope="module")
def task() -> Any:
    return GrammarTask(dev_size=200).load()


def test_pairs_differ_in_one_word(task: Any) -> None:
    for split in (task.train, task.dev, task.ood["targets"], task.ood["type"]):
        for first, second, third, group in zip(split.text_a, split.text_b, split.unrelated, split.groups, strict=True):
            kind, who = group.split(LEVELS)
            words = [text.split() for text in (first, second, third)]
            changed = [n for n, each in enumerate(zip(*words, strict=True)) if len(set(each)) > 1]
            assert len(changed) == 1
            one, other, wrong = (each[changed[0]] for each in words)
            sides = PRONOUNS if kind == "pronoun" else TRAITS
            liked, disliked = sides if log_odds(who) > 0 else sides[::-1]
            assert one in liked
            assert other in disliked
            assert wrong not in (*PRONOUNS, *TRAITS[0], *TRAITS[1])


def test_which_occupations_a_split_has(task: Any) -> None:
    def seen(split: Any) -> set[bool]:
        return {is_seen(group.split(LEVELS)[1]) for group in split.groups}

    assert seen(task.train) == seen(task.dev) == {True}
    assert seen(task.ood["targets"]) == {False}
    assert {group.split(LEVELS)[0] for group in task.ood["type"].groups} == {"trait"}


def test_neutral_text_has_no_stereotype(task: Any) -> None:
    for text in (*task.train.neutral, *task.id_tests["neutral"].text_a):
        words = set(text.split())
        assert not (words & set(OCCUPATIONS) and words & {*PRONOUNS, *TRAITS[0], *TRAITS[1]})


def test_what_theory_says(task: Any) -> None:
    best, balanced = task.ideal[CE_OPTIMAL], task.ideal[DEBIASED]
    labels = task.dev.labels
    assert reported("ss", best["targets"], labels) == 100.0
    assert reported("ss", balanced["targets"], labels) == 50.0
    assert reported("icat", balanced["dev"], labels) == 100.0
    assert reported("icat", best["dev"], labels) == 0.0
    gaps = [
        abs(log_odds(g.split(LEVELS)[1])) / len(t.split())
        for g, t in zip(task.dev.groups, task.dev.text_a, strict=True)
    ]
    assert reported("gap", best["dev"], labels) == pytest.approx(np.mean(gaps))
    assert reported("gap", balanced["dev"], labels) == 0.0
    assert 0.5 < reported("nll", best["neutral"], labels) < 2.0


def test_the_same_fields_give_the_same_sentences(task: Any) -> None:
    assert GrammarTask(dev_size=200).load().fingerprint == task.fingerprint
    assert GrammarTask(dev_size=200, data_seed=1).load().fingerprint != task.fingerprint


def test_plain_sentences() -> None:
    task = GrammarTask("sentences", train_size=50, dev_size=60).load()
    assert (task.answer, task.metric, len(task.train), len(task.dev)) == ("text", "perplexity", 50, 60)
    assert reported("nll", task.ideal[CE_OPTIMAL]["dev"], task.dev.labels) == pytest.approx(1.15, abs=0.1)
