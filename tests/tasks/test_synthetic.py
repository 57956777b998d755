"""The embedded benchmark: its evidence, the theory of it, and the truth of every relation by an independent parser."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections import Counter
from functools import lru_cache
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from srnet.models.pretraining import _document, _make_tokenizer, _related_or_not, _retold_or_not
from srnet.tasks.base import Task
from srnet.tasks.splits import LEVELS, Split
from srnet.tasks.synthetic import SyntheticTask
from srnet.tasks.synthetic.cues import Cues
from srnet.tasks.synthetic.families import EMBEDDED_TASKS
from srnet.tasks.synthetic.grammar import (
    CLAIM_OPENINGS,
    INTRANSITIVE_VERBS,
    PEOPLE,
    TIMES,
    TRANSITIVE_VERBS,
    vocabulary,
)

every_family = pytest.mark.parametrize("name", sorted(EMBEDDED_TASKS))
SIZE = 3000


@lru_cache(maxsize=16)
def load(name: str, noise: float | None = None, seed: int = 0) -> Task:
    return SyntheticTask(name, noise, train_size=SIZE, dev_size=50, ood_size=SIZE, data_seed=seed).load()


def rows(split: Split) -> list[tuple[str, str, int]]:
    return list(zip(split.text_a, split.text_b, split.labels.tolist(), strict=True))


# --- an independent reading of the sentences -----------------------------------------------------------------------

CONCEPT = {word: pair[0] for pair in PEOPLE + TRANSITIVE_VERBS + INTRANSITIVE_VERBS for word in pair}
SYMBOL = {
    word: symbol
    for symbol, pairs in (("N", PEOPLE), ("T", TRANSITIVE_VERBS), ("I", INTRANSITIVE_VERBS))
    for pair in pairs
    for word in pair
}

# Skeleton of a clause without articles -> its facts, as positions of agent, verb and patient among the content words.
FACTS: dict[str, list[tuple[int, ...]]] = {
    "N I": [(0, 1)],
    "N T N": [(0, 1, 2)],
    "N was T by N": [(2, 1, 0)],
    "it was N who T N": [(0, 1, 2)],
    "it was N whom N T": [(1, 2, 0)],
    "N who T N I": [(0, 1, 2), (0, 3)],
    "N whom N T I": [(1, 2, 0), (0, 3)],
}


def plain(text: str) -> list[str]:
    """The words of a sentence without its opening, its articles, and where and when it was."""
    words = text.split(" , ")[-1].split(" in the ")[0].split()
    return [word for word in words if word not in ("the", *TIMES)]


def skeletons(text: str) -> list[str]:
    words = " ".join(SYMBOL.get(word, word) for word in plain(text))
    return words.split(" and ")


def read(text: str) -> set[tuple[str, ...]]:
    """The facts that a sentence asserts, in concepts."""
    content = [CONCEPT[word] for word in plain(text) if word in CONCEPT]
    facts: set[tuple[str, ...]] = set()
    for clause in skeletons(text):
        size = sum(symbol in ("N", "T", "I") for symbol in clause.split())
        facts |= {tuple(content[position] for position in fact) for fact in FACTS[clause]}
        content = content[size:]
    return facts


def test_the_parser_by_hand() -> None:
    praised = ("lawyer", "praised", "doctor")
    assert read("the physician whom the lawyer applauded slept in the garden") == {praised, ("doctor", "slept")}
    assert read("allegedly , it was the doctor whom the attorney praised") == {praised}
    assert read("the lawyer dozed and the doctor was applauded by the lawyer") == {praised, ("lawyer", "slept")}
    assert read("the doctor was praised by the lawyer today") == {praised}


def relation(name: str, text_a: str, text_b: str) -> str:
    """What the texts say about each other, as the kind of pair that the benchmark calls it."""
    first, second = read(text_a), read(text_b)
    if first == second:
        return "same"
    if name == "verification":
        ((agent, verb, patient),), ((other, claimed, another),) = first, second
        if verb != claimed:
            return "verb"
        return "roles" if (agent, patient) == (another, other) else "person"
    mentioned = [{concept for fact in facts for concept in fact} for facts in (first, second)]
    return "roles" if mentioned[0] == mentioned[1] else "changed"


@every_family
@pytest.mark.parametrize("split", ["train", "challenge", "ood_train"])
def test_every_relation_is_what_the_sub_case_says(name: str, split: str) -> None:
    data = load(name).splits[split]
    for text_a, text_b, group in zip(data.text_a, data.text_b, data.groups, strict=True):
        assert relation(name, text_a, text_b) == group.split(LEVELS)[1], (text_a, text_b)


KINDS = {
    "inference": {"changed": 0, "roles": 0, "same": 1},
    "verification": {"same": 0, "verb": 1, "roles": 1, "person": 2},
}
KINDS["paraphrase"] = KINDS["inference"]


@every_family
def test_out_of_distribution_the_label_is_the_relation(name: str) -> None:
    for split in ("challenge", "ood_train"):
        data = load(name).splits[split]
        said = [KINDS[name][group.split(LEVELS)[1]] for group in data.groups]
        assert said == data.labels.tolist()


@every_family
@pytest.mark.parametrize("noise", [0.0, 0.08, 0.3])
def test_in_distribution_the_relation_is_noisy(name: str, noise: float) -> None:
    train = load(name, noise).train
    said = np.array([KINDS[name][group.split(LEVELS)[1]] for group in train.groups])
    assert (said != train.labels).mean() == pytest.approx(noise, abs=0.03 if noise else 0.0)


# --- the cue -------------------------------------------------------------------------------------------------------


def cue(name: str, text_a: str, text_b: str) -> tuple[int, int]:
    """(grade, label it points at), recomputed from the texts alone."""
    if name == "verification":
        opening = text_b.split()[0]
        found = [(1 + row.index(opening) // 2, label) for label, row in enumerate(CLAIM_OPENINGS) if opening in row]
        return found[0] if found else (0, 0)
    first, second = ({word for word in plain(text) if word in CONCEPT} for text in (text_a, text_b))
    return {0: (2, 0), 1: (1, 0), 2: (1, 1), 3: (2, 1)}[len(first & second)]


@every_family
def test_cues_of_each_grade_are_right_as_often_as_theory_says(name: str) -> None:
    counts: Counter[int] = Counter()
    right: Counter[int] = Counter()
    for text_a, text_b, label in rows(load(name).train):
        grade, towards = cue(name, text_a, text_b)
        counts[grade] += 1
        right[grade] += towards == label
    cues = SyntheticTask(name).cues
    for grade, strength in enumerate(cues.strengths):
        assert counts[grade] / SIZE == pytest.approx(cues.frequencies[grade] / sum(cues.frequencies), abs=0.03)
        if grade:
            odds = math.exp(strength)
            assert right[grade] / counts[grade] == pytest.approx(odds / (odds + cues.classes - 1), abs=0.04)


@every_family
def test_the_cue_knows_nothing_about_the_relation_given_the_label(name: str) -> None:
    data = load(name, 0.3).train
    table: dict[tuple[int, bool], list[int]] = {}
    for (text_a, text_b, label), group in zip(rows(data), data.groups, strict=True):
        grade, towards = cue(name, text_a, text_b)
        if grade:
            agrees = KINDS[name][group.split(LEVELS)[1]] == label
            table.setdefault((label, agrees), []).append(towards == label)
    for label in range(len(load(name).labels)):
        assert np.mean(table[label, True]) == pytest.approx(np.mean(table[label, False]), abs=0.06)


@every_family
def test_out_of_distribution_the_cue_says_nothing(name: str) -> None:
    pointing: dict[int, list[int]] = {}
    for text_a, text_b, label in rows(load(name).ood["challenge"]):
        grade, towards = cue(name, text_a, text_b)
        if grade:
            pointing.setdefault(label, []).append(towards)
    assert set(pointing) == {0, 1}
    for each in pointing.values():
        assert np.mean(each) == pytest.approx(0.5, abs=0.05)


@every_family
def test_sub_cases_say_whether_the_cue_is_right(name: str) -> None:
    for split in load(name).splits.values():
        for (text_a, text_b, label), group in zip(rows(split), split.groups, strict=True):
            grade, towards = cue(name, text_a, text_b)
            expected = "no cue" if not grade else "cue right" if towards == label else "cue wrong"
            assert group.startswith(expected + LEVELS)


# --- theory --------------------------------------------------------------------------------------------------------


def test_theory_by_hand() -> None:
    """Relation: log-odds 2.44. The strong cue wins: the best ID classifier follows it, and the relation elsewhere."""
    ce, debiased = Cues(2, 0.08, (0.0, 1.0, 3.5), (0.0, 1.0, 2.0), (0, 1)).theory().values()
    assert ce[0] == pytest.approx(100 * (0.92 + 2 / (1 + math.exp(-3.5))) / 3)
    assert ce[1] == pytest.approx(100 * (1 / 3 + 2 / 3 / 2))
    assert debiased == (pytest.approx(92.0), pytest.approx(100.0))


def test_theory_by_hand_with_three_labels() -> None:
    """Relation: log(0.88 / 0.06) = 2.69 against each other label."""
    ce, debiased = Cues(3, 0.12, (0.0, 1.0, 3.5), (1.0, 1.0, 3.0), (0, 1)).theory().values()
    assert ce[0] == pytest.approx(100 * (2 * 0.88 + 3 * math.exp(3.5) / (math.exp(3.5) + 2)) / 5)
    assert ce[1] == pytest.approx(100 * (2 / 5 + 3 / 5 / 2))
    assert debiased[0] == pytest.approx(88.0)


@every_family
def test_the_trap_is_worth_falling_into(name: str) -> None:
    """The dials are set by theory: 20 to 35 points between the two ideal classifiers OOD, at most 4 ID."""
    ce, debiased = SyntheticTask(name).cues.theory().values()
    assert 0.0 < ce[0] - debiased[0] <= 4.0
    assert 20.0 <= debiased[1] - ce[1] <= 35.0


@given(
    st.integers(2, 4),
    st.floats(0.01, 0.45),
    st.tuples(st.floats(0.1, 6), st.floats(0.1, 6)),
    st.tuples(st.floats(0.1, 5), st.floats(0.1, 5), st.floats(0.1, 5)),
)
def test_nobody_beats_the_best_classifier_in_distribution(
    classes: int, noise: float, strengths: tuple[float, float], frequencies: tuple[float, float, float]
) -> None:
    cues = Cues(classes, noise, (0.0, *strengths), frequencies, (0, 1))
    draws = list(cues._all_draws())
    assert sum(p for _, p in draws) == pytest.approx(1.0)
    assert sum(p for _, p in cues._all_challenges()) == pytest.approx(1.0)
    ce, debiased = cues.theory().values()
    cue_alone = 100 * sum(p for draw, p in draws if draw.towards == draw.label)
    assert ce[0] >= max(debiased[0], cue_alone) - 1e-9
    assert debiased[1] == pytest.approx(100.0)


@every_family
def test_ideal_answers_follow_from_the_texts_alone(name: str) -> None:
    """The ideal classifiers' answers, recomputed from the texts; near the expected score on a sample of this size."""
    task, model = load(name), SyntheticTask(name).cues
    for split, place in (("dev", 0), ("challenge", 1)):
        data = task.splits[split]
        kinds = [KINDS[name][group.split(LEVELS)[1]] for group in data.groups]
        cues = [cue(name, text_a, text_b) for text_a, text_b, _ in rows(data)]
        both = [int(model.posterior(kind, *each).argmax()) for kind, each in zip(kinds, cues, strict=True)]
        alone = [int(model.posterior(kind, None, 0).argmax()) for kind in kinds]
        assert [both, alone] == [answers[split].tolist() for answers in task.ideal.values()]
        for answers, expected in zip((both, alone), model.theory().values(), strict=True):
            score = 100 * np.mean(np.array(answers) == data.labels)
            assert score == pytest.approx(expected[place], abs=400 * math.sqrt(0.25 / len(data)))


@every_family
def test_the_second_text_without_its_opening_says_nothing_about_the_relation(name: str) -> None:
    """Otherwise a bias model that reads it alone would learn more than the cue."""
    data = load(name).train
    kinds = np.array([KINDS[name][group.split(LEVELS)[1]] for group in data.groups])
    present = [set(plain(text)) for text in data.text_b]
    for word in sorted(set().union(*present)):
        seen = kinds[[word in words for words in present]]
        for kind in set(kinds):
            share = np.mean(kinds == kind)
            error = math.sqrt(share * (1 - share) / len(seen))
            assert np.mean(seen == kind) == pytest.approx(share, abs=5 * error), word


# --- coverage ------------------------------------------------------------------------------------------------------


@every_family
def test_labels_are_balanced_and_all_sub_cases_present(name: str) -> None:
    classes = len(load(name).labels)
    assert np.bincount(load(name).train.labels) / SIZE == pytest.approx(np.full(classes, 1 / classes), abs=0.04)
    cases = ("cue right", "cue wrong") if name != "verification" else ("no cue", "cue right", "cue wrong")
    for split in ("train", "challenge"):
        kinds = [kind for kind, label in KINDS[name].items() if split == "train" or label in (0, 1)]
        assert set(load(name).splits[split].groups) == {f"{case}{LEVELS}{kind}" for case in cases for kind in kinds}


def test_all_forms_occur() -> None:
    inference, claims = load("inference").train, load("verification").train
    assert {each for text in inference.text_a for each in skeletons(text)} == {"N who T N I", "N whom N T I"}
    assert {each for text in inference.text_b for each in skeletons(text)} == {"N I", "N T N", "N was T by N"}
    forms = {"N T N", "N was T by N", "it was N who T N", "it was N whom N T"}
    for column in (claims.text_a, claims.text_b):
        assert {each for text in column for each in skeletons(text)} == forms


@every_family
def test_every_word_is_in_the_vocabulary(name: str) -> None:
    known = set(vocabulary())
    for split in load(name).splits.values():
        assert {word for text in split.text_a + split.text_b for word in text.split()} <= known


def test_the_vocabulary_covers_pretraining_and_tokenizes_word_by_word() -> None:
    assert len(set(vocabulary())) == len(vocabulary())
    rng = Random(0)
    texts = [t for _ in range(300) for t in (*_document(rng), *_related_or_not(rng)[:2], *_retold_or_not(rng)[:2])]
    tokenizer = _make_tokenizer()
    for text in texts:
        assert tokenizer.tokenize(text) == text.split()
        assert tokenizer.unk_token_id not in tokenizer(text)["input_ids"]


def test_pretraining_pairs_are_what_they_are_called() -> None:
    rng, counts = Random(1), Counter[tuple[bool, int]]()
    for _ in range(2000):
        first, second, same, shared = _retold_or_not(rng)
        assert (read(first) == read(second)) == same, (first, second)
        assert cue("inference", first, second) == {0: (2, 0), 1: (1, 0), 2: (1, 1), 3: (2, 1)}[shared]
        counts[same, shared] += 1
    for same in (False, True):  # overlap says nothing about the truth
        for shared in range(4):
            assert counts[same, shared] / 2000 == pytest.approx(1 / 8, abs=0.03)


# --- reproducible --------------------------------------------------------------------------------------------------


@every_family
def test_seeds_and_splits_are_different_draws(name: str) -> None:
    first, second = load(name, seed=0), load(name, seed=1)
    texts = [s.text_b[:50] for s in (first.train, first.dev, first.ood["challenge"], second.train)]
    assert len(set(texts)) == 4
    spec = SyntheticTask(name, train_size=50, dev_size=20, ood_size=20)
    assert spec.load().fingerprint == spec.load().fingerprint, "the same fields give the same examples"


def test_a_longer_split_starts_with_the_shorter_one() -> None:
    short = SyntheticTask(train_size=20, dev_size=5, ood_size=5).load()
    long = SyntheticTask(train_size=40, dev_size=5, ood_size=5).load()
    assert rows(long.train)[:20] == rows(short.train)


def test_the_hash_seed_of_the_process_does_not_matter() -> None:
    # sets of strings iterate in another order in every process
    code = (
        "from srnet.tasks.synthetic import SyntheticTask; from srnet.tasks.synthetic.families import EMBEDDED_TASKS\n"
        "from random import Random\n"
        "from srnet.models.pretraining import _document\n"
        "specs = [SyntheticTask(name, train_size=60, dev_size=9, ood_size=60) for name in EMBEDDED_TASKS]\n"
        "print([spec.load().fingerprint for spec in specs], [_document(Random(i)) for i in range(60)])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


# --- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("noise", noise) for noise in (-0.1, 0.5, math.nan)),
        *(("strengths", each) for each in ((0.0, 3.0), (1.0, 3.0, 4.0), (0.0, -1.0, 4.0), (0.0, 3.0, math.inf))),
        *(("frequencies", each) for each in ((0.0, 1.0), (0.0, 0.0, 0.0), (0.0, -1.0, 1.0), (0.0, math.nan, 1.0))),
        ("frequencies", (1.0, 1.0, 1.0)),  # two texts always share some number of words
        *((size, value) for size in ("train_size", "dev_size", "ood_size") for value in (0, -1, 10**12)),
    ],
)
def test_values_that_are_refused(field: str, value: Any) -> None:
    with refused(field):
        SyntheticTask(**{field: value})


def test_what_else_is_refused_and_what_is_not() -> None:
    with refused("'mnli'", "inference, paraphrase, verification"):
        SyntheticTask("mnli")
    assert SyntheticTask("verification", frequencies=(1.0, 0.0, 0.0)).cues.frequencies == (1.0, 0.0, 0.0)
