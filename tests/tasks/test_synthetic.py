"""The embedded benchmark: the dial, the challenge sets, and the truth of every label by an independent parser."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from functools import lru_cache
from random import Random

import pytest

from srnet.errors import UserError
from srnet.tasks.base import Split, Task
from srnet.tasks.synthetic import FAMILIES, SyntheticTask
from srnet.tasks.synthetic.corpus import document, related_or_not
from srnet.tasks.synthetic.lexicon import (
    CLAIM_OPENINGS,
    INTRANSITIVE_VERBS,
    PEOPLE,
    PLACES,
    TIMES,
    TRANSITIVE_VERBS,
    vocabulary,
)
from srnet.tasks.synthetic.pretrain import make_tokenizer

every_family = pytest.mark.parametrize("name", sorted(FAMILIES))
SIZE = 1500


@lru_cache(maxsize=16)
def load(name: str, bias: float = 0.5, seed: int = 0) -> Task:
    return SyntheticTask(name, bias, train_size=SIZE, dev_size=50, ood_size=SIZE, data_seed=seed).load()


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

# Skeleton of a sentence without articles -> its facts, as positions of agent, verb and patient among the content words.
FACTS: dict[str, list[tuple[int, ...]]] = {
    "N I": [(0, 1)],
    "N T N": [(0, 1, 2)],
    "N was T by N": [(2, 1, 0)],
    "it was N who I": [(0, 1)],
    "it was N who T N": [(0, 1, 2)],
    "it was N whom N T": [(1, 2, 0)],
    "N who T N I": [(0, 1, 2), (0, 3)],
    "N whom N T I": [(1, 2, 0), (0, 3)],
    "N near N I": [(0, 2)],  # not the one nearby
    "N I and N I": [(0, 1), (2, 3)],
    "because N I , N I": [(0, 1), (2, 3)],
    "if N I , N I": [],  # asserts neither
}


def read(text: str) -> set[tuple[str, ...]]:
    """The facts that a sentence asserts, in concepts."""
    words = text.split()
    if words[-1] in TIMES:
        words = words[:-1]
    if words[-1] in PLACES:
        assert words[-3:-1] == ["in", "the"]
        words = words[:-3]
    words = [word for word in words if word != "the"]
    skeleton = " ".join(SYMBOL.get(word, word) for word in words)
    content = [CONCEPT[word] for word in words if word in CONCEPT]
    return {tuple(content[position] for position in fact) for fact in FACTS[skeleton]}


def test_the_parser_by_hand() -> None:
    swapped = {("lawyer", "praised", "doctor")}
    assert read("the physician was applauded by the lawyer in the garden") == swapped
    assert read("it was the doctor whom the attorney praised today") == swapped
    assert read("it was the attorney who praised the doctor") == swapped
    assert read("the doctor whom the lawyer praised slept") == swapped | {("doctor", "slept")}
    assert read("if the doctor slept , the lawyer left") == set()


def truth(name: str, text_a: str, text_b: str) -> str:
    if name == "inference":
        return "entailment" if read(text_b) <= read(text_a) else "not_entailment"
    if name == "paraphrase":
        return "duplicate" if read(text_a) == read(text_b) else "not_duplicate"
    (evidence,), (claim,) = read(text_a), read(text_b.split(" , ", 1)[1])
    if evidence == claim:
        return "supports"
    return "refutes" if evidence == claim[::-1] else "not_enough_info"


@every_family
@pytest.mark.parametrize("split", ["train", "challenge"])
def test_every_label_is_true(name: str, split: str) -> None:
    task = load(name)
    for text_a, text_b, label in rows(task.splits[split]):
        assert truth(name, text_a, text_b) == task.labels[label], (text_a, text_b)


@every_family
def test_synonyms_occur(name: str) -> None:
    # otherwise the test above would say nothing about them
    def restated(text_a: str, text_b: str) -> bool:
        a, b = ({word for word in text.split() if word in CONCEPT} for text in (text_a, text_b))
        return any(CONCEPT[word] in {CONCEPT[w] for w in a - b} for word in b - a)

    assert sum(restated(a, b) for a, b, _ in rows(load(name).train)) > 0.05 * SIZE


# --- the shortcut --------------------------------------------------------------------------------------------------


def shortcut(name: str, text_a: str, text_b: str) -> int:
    """What a reader who takes the shortcut answers, recomputed from the texts alone."""
    if name == "verification":
        opening = text_b.split()[0]
        return next(label for label, openings in enumerate(CLAIM_OPENINGS) if opening in openings)
    first, second = set(text_a.split()), set(text_b.split())
    if name == "inference":
        return int(second <= first)
    return int({w for w in first if w in CONCEPT} == {w for w in second if w in CONCEPT})


def share_right(name: str, split: Split) -> float:
    return sum(shortcut(name, a, b) == label for a, b, label in rows(split)) / len(split)


@every_family
@pytest.mark.parametrize("bias", [0.0, 0.5, 0.9, 1.0])
def test_the_dial_is_the_share_that_the_shortcut_gets_right(name: str, bias: float) -> None:
    assert share_right(name, load(name, bias).train) == pytest.approx(bias, abs=0.03 if 0 < bias < 1 else 0)


@every_family
@pytest.mark.parametrize("split", ["challenge", "ood_train"])
def test_the_shortcut_is_a_coin_in_the_challenge_set(name: str, split: str) -> None:
    assert share_right(name, load(name).splits[split]) == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("name", ["inference", "paraphrase"])
def test_in_the_challenge_set_overlap_never_tells(name: str) -> None:
    assert {shortcut(name, a, b) for a, b, _ in rows(load(name).splits["challenge"])} == {1}


def test_openings_say_nothing_about_challenge_claims() -> None:
    challenge = load("verification").splits["challenge"]
    answers = [(shortcut("verification", a, b), label) for a, b, label in rows(challenge)]
    assert {label for _, label in answers} == {0, 1}, "as in FEVER-Symmetric, nothing is undecided"
    for label in (0, 1):
        openings = [opening for opening, each in answers if each == label]
        assert sum(openings) / len(openings) == pytest.approx(0.5, abs=0.05)


@every_family
def test_labels_are_balanced_in_training(name: str) -> None:
    labels = load(name, 0.9).train.labels.tolist()
    classes = len(load(name).labels)
    for label in range(classes):
        assert labels.count(label) / SIZE == pytest.approx(1 / classes, abs=0.04)


# --- coverage ------------------------------------------------------------------------------------------------------

FORMS = ("active", "passive", "subject_cleft", "object_cleft")
CONSTRUCTIONS = (*FORMS, "subject_relative", "object_relative", "preposition", "conjunction", "conditional")


@pytest.mark.parametrize("split", ["train", "challenge"])
def test_all_sub_cases_are_present(split: str) -> None:
    def groups(name: str) -> set[str]:
        return set(load(name).splits[split].groups)

    assert groups("inference") == {f"{c}/{label}" for c in CONSTRUCTIONS for label in ("entailment", "not_entailment")}
    pairs = {f"{a}-{b}" for a in FORMS for b in FORMS if a < b} | {"same_form"}
    assert groups("paraphrase") == {f"{pair}/{label}" for pair in pairs for label in ("duplicate", "not_duplicate")}
    decided = ("supports", "refutes") if split == "challenge" else ("supports", "refutes", "not_enough_info")
    assert groups("verification") == {f"{form}/{label}" for form in FORMS for label in decided}


@every_family
def test_groups_name_the_label(name: str) -> None:
    task = load(name)
    for split in task.splits.values():
        for group, label in zip(split.groups, split.labels.tolist(), strict=True):
            assert group.endswith(f"/{task.labels[label]}")


@every_family
def test_every_word_is_in_the_vocabulary(name: str) -> None:
    known = set(vocabulary())
    for split in load(name).splits.values():
        assert {word for text in split.text_a + split.text_b for word in text.split()} <= known


def test_the_vocabulary_covers_pretraining_and_tokenizes_word_by_word() -> None:
    assert len(set(vocabulary())) == len(vocabulary())
    rng = Random(0)
    texts = [text for _ in range(300) for text in (*document(rng), *related_or_not(rng)[:2])]
    tokenizer = make_tokenizer()
    for text in texts:
        assert tokenizer.tokenize(text) == text.split()
        assert tokenizer.unk_token_id not in tokenizer(text)["input_ids"]


# --- reproducible --------------------------------------------------------------------------------------------------


@every_family
def test_same_fields_same_examples(name: str) -> None:
    spec = SyntheticTask(name, train_size=50, dev_size=20, ood_size=20)
    assert spec.load().fingerprint == spec.load().fingerprint
    assert spec.load().fingerprint != replace(spec, data_seed=1).load().fingerprint


@every_family
def test_seeds_and_splits_are_different_draws(name: str) -> None:
    first, second = load(name, seed=0), load(name, seed=1)
    texts = [s.text_b[:50] for s in (first.train, first.dev, first.ood["challenge"], second.train)]
    assert len(set(texts)) == 4


def test_a_longer_split_starts_with_the_shorter_one() -> None:
    short = SyntheticTask(train_size=20, dev_size=5, ood_size=5).load()
    long = SyntheticTask(train_size=40, dev_size=5, ood_size=5).load()
    assert rows(long.train)[:20] == rows(short.train)


def test_the_hash_seed_of_the_process_does_not_matter() -> None:
    # sets of strings iterate in another order in every process
    code = (
        "from srnet.tasks.synthetic import SyntheticTask, FAMILIES\n"
        "from random import Random\n"
        "from srnet.tasks.synthetic.corpus import document\n"
        "specs = [SyntheticTask(name, train_size=60, dev_size=9, ood_size=60) for name in FAMILIES]\n"
        "print([spec.load().fingerprint for spec in specs], [document(Random(i)) for i in range(60)])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


# --- refusals ------------------------------------------------------------------------------------------------------


def test_an_unknown_task_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"unknown task 'mnli'.*inference, paraphrase, verification"):
        SyntheticTask("mnli")


@pytest.mark.parametrize("bias", [-0.1, 1.1])
def test_the_dial_is_a_share(bias: float) -> None:
    with pytest.raises(UserError, match="out of range"):
        SyntheticTask(bias=bias)


@pytest.mark.parametrize("size", ["train_size", "dev_size", "ood_size"])
def test_splits_hold_something(size: str) -> None:
    with pytest.raises(UserError, match="at least one example"):
        SyntheticTask(**{size: 0})  # type: ignore[arg-type]
