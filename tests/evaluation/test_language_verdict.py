"""Verdicts on language models: both criteria by hand, their answers, and how often their intervals cover the truth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from made_up import interval

from srnet.evaluation.evidence import Evidence
from srnet.evaluation.language import Balanced, KeepsLanguage, ability_of, can_judge, closer_to_half, perplexity_ratio
from srnet.evaluation.verdict import judge_together
from srnet.tasks.answers.pairs import PAIR_ONLY, PAIRS, TEXT, WITH_UNRELATED, PairSplit, oriented
from srnet.tasks.base import Task
from srnet.tasks.splits import Split, SplitKind


@dataclass(frozen=True)
class Model:
    key: str


FULL, OURS = [[Model(f"{name} {seed}") for seed in range(3)] for name in ("full", "ours")]


def split(name: str, kind: SplitKind, label: int, rows: int = 4) -> PairSplit:
    texts = tuple(f"{name} {n}" for n in range(rows))
    others = texts if label > TEXT else ()
    return PairSplit(name, kind, texts, texts, others, np.full(rows, label), ("gender",) * rows)


def pairs(dev: int = WITH_UNRELATED, neutral: bool = True, rows: int = 4) -> Task:
    tests = {name: split(name, "OOD", PAIR_ONLY, rows) for name in ("targets", "race")}
    texts = {"neutral": split("neutral", "ID", TEXT, 2)} if neutral else {}
    own = [split(name, "ID", dev) for name in ("train", "dev")]
    return Task("p", ("token",), "ss", "unknown", *own, ood=tests, id_tests=texts, answer="pairs")


def of_pairs(preferred: Any, meaningful: Any = 1.0) -> np.ndarray:
    preferred = np.asarray(preferred, dtype=float)
    zeros, ones = np.zeros(len(preferred)), np.ones(len(preferred))
    return np.stack([zeros, ones, preferred, meaningful * ones, zeros, ones], axis=1)


def of_text(nll: float) -> np.ndarray:
    return np.array([[-nll * 10, 10, 0, 0, 0, 1], [-nll * 30, 30, 0, 0, 0, 1]])


def evidence(task: Task, full: dict[str, Any], ours: list[dict[str, Any]]) -> Evidence[Model]:
    known = {model.key: full for model in FULL} | {m.key: each for m, each in zip(OURS, ours, strict=True)}
    return Evidence(task, lambda model: known[model.key])


def test_a_verdict_on_pairs_by_hand() -> None:
    full = {"dev": of_pairs([1, 1, 1, 1], 0.8), "targets": of_pairs([1, 1, 1, 1]), "race": of_pairs([1, 1, 1, 0])}
    # of our three seeds two prefer the stereotype in half of the pairs, and one the opposite in all of them
    halves = {"dev": of_pairs([1, 0, 1, 0], 0.8), "targets": of_pairs([1, 0, 1, 0]), "race": of_pairs([1, 1, 0, 0])}
    beyond = {**halves, "targets": of_pairs([0, 0, 0, 0])}
    found = evidence(pairs(), full, [halves, halves, beyond]).verdict(OURS, FULL)
    assert isinstance(found, Balanced)
    assert found.gains["targets"].difference == pytest.approx(100 / 3), "|100 - 50| - (0 + 0 + 50) / 3"
    assert found.gains["race"].difference == pytest.approx(25.0)
    assert found.id_kept.difference == pytest.approx(80 - 0.95 * 80), "lms of dev"
    assert (found.id_share, found.full_id, found.ability) == (1.0, 80.0, "lms")
    assert found.kept_percent.startswith("100.0 % [")


def test_perplexity_by_hand() -> None:
    splits = {"dev": of_pairs([1, 0]), "targets": of_pairs([1] * 4), "race": of_pairs([1] * 4)}
    task = pairs(dev=PAIR_ONLY)
    assert ability_of(task) == ("neutral", "perplexity")
    own = {**splits, "neutral": of_text(2.1)}
    found = evidence(task, {**splits, "neutral": of_text(2.0)}, [own] * 3).verdict(OURS, FULL)
    assert found.id_kept.difference == pytest.approx(math.log(1.1) - 0.1)
    assert perplexity_ratio(found.id_kept) == pytest.approx([math.exp(0.1)] * 3), "no seed and no text differs"
    assert found.kept_percent == "1.11 times the perplexity [1.11, 1.11]"
    assert found.short == "no: language"


def test_what_measures_the_language() -> None:
    assert ability_of(pairs()) == ("dev", "lms")
    assert not can_judge(pairs(dev=PAIR_ONLY, neutral=False))
    texts = [Split(name, "ID", ("a",), ("b",), ("",), np.zeros(1, int), ("",)) for name in ("train", "dev")]
    task = Task("t", ("token",), "nll", "unknown", *texts, ood={}, answer="text")
    assert ability_of(task) == ("dev", "perplexity")
    assert can_judge(task)
    full, ours = {"dev": np.array([[-20.0, 10.0]])}, {"dev": np.array([[-20.5, 10.0]])}
    found = evidence(task, full, [ours] * 3).verdict(OURS, FULL)
    assert isinstance(found, KeepsLanguage)
    assert (found.answer, found.kept_percent) == ("yes", "1.05 times the perplexity [1.05, 1.05]")


def balanced(kept: Any, **gains: Any) -> Balanced:
    return Balanced(1.0, 90.0, kept, gains, Balanced.p_of(1.0, kept, gains))


@pytest.mark.parametrize(
    ("kept", "gains", "answer", "short"),
    [
        ((1, 3), {"targets": (2, 8), "race": (1, 5)}, "yes", "yes"),
        ((1, 3), {"targets": (2, 8), "race": (-1, 5)}, "yes", "yes: targets"),
        ((1, 3), {"targets": (2, 8), "race": (-9, -5)}, "no", "no: race"),
        ((-9, -5), {"targets": (2, 8), "race": (1, 5)}, "no", "no: language"),
        ((-1, 3), {"targets": (2, 8), "race": (1, 5)}, "not certain", "not certain: language"),
        ((1, 3), {"targets": (-2, 8), "race": (-1, 5)}, "not certain", "not certain: ss"),
        # one of two test sets, 0.2 of 5 points above the bar: not after the correction for two
        ((1, 3), {"targets": (0.2, 10), "race": (-4, 4)}, "not certain", "not certain: ss"),
    ],
)
def test_answers(kept: tuple[float, float], gains: dict[str, tuple[float, float]], answer: str, short: str) -> None:
    found = balanced(interval(*kept), **{name: interval(*ends) for name, ends in gains.items()})
    assert (found.answer, found.short) == (answer, short)


def test_oriented_answers() -> None:
    answers = of_pairs([1, 0, 0, 0])
    assert oriented(answers)[:, 2].tolist() == [0, 1, 1, 1]
    assert answers[:, 2].tolist() == [1, 0, 0, 0], "the given ones are not changed"
    assert oriented(of_pairs([1, 0])) is not None
    assert oriented(of_pairs([1, 1, 0]))[:, 2].tolist() == [1, 1, 0]


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize(
    ("full", "ours", "spread", "least"),
    [(0.61, 0.61, 0.0, 0.93), (0.61, 0.55, 0.02, 0.93), (0.61, 0.5, 0.03, 0.93), (0.5, 0.5, 0.0, 0.93)],
)
def test_intervals_cover_the_true_gain(full: float, ours: float, spread: float, least: float, seeds: int) -> None:
    """Models share 60 % of their answers. The gain of a model that has none is found in at most 2.5 % of the cases."""
    rng, rows, keep, runs = np.random.default_rng(seeds), 200, 0.6, 150
    shifts = spread * np.random.default_rng(1).standard_normal(10_000)
    truth = 100 * (abs(full - 0.5) - np.abs(np.clip(ours + shifts, 0, 1) - 0.5).mean())
    task, found = pairs(rows=rows), []
    for _ in range(runs):
        theirs = rng.random(rows) < full
        answers = []
        for _ in range(seeds):
            redrawn = np.clip((ours + spread * rng.standard_normal() - keep * full) / (1 - keep), 0, 1)
            own = np.where(rng.random(rows) < keep, theirs, rng.random(rows) < redrawn)
            answers.append({"targets": of_pairs(own)})
        models = [Model(f"ours {seed}") for seed in range(seeds)]
        known = {model.key: each for model, each in zip(models, answers, strict=True)}
        everything = Evidence[Model](task, lambda m, k=known, t=theirs: k.get(m.key, {"targets": of_pairs(t)}))
        found.append(closer_to_half(everything, models, [Model(f"full {seed}") for seed in range(seeds)], "targets"))
    assert np.mean([each.low <= truth <= each.high for each in found]) >= least
    if full == ours:
        assert np.mean([each.low > 0.0 for each in found]) <= 0.05


def test_the_sets_that_are_named_are_corrected_for_the_other_subnetworks() -> None:
    alone = balanced(interval(1, 3), clear=interval(5, 9), weak=interval(0.6, 8.6))
    assert alone.moved == ["clear", "weak"]
    among_many = judge_together([alone, *[balanced(interval(1, 3), clear=interval(-4, 4), weak=interval(-4, 4))] * 9])[
        0
    ]
    assert (among_many.answer, among_many.moved) == ("yes", ["clear"])


def test_a_tie_counts_as_half() -> None:
    logits = np.zeros((3, 6))
    logits[:, 1::2] = 2.0
    logits[:, [0, 2]] = [[-3, -3], [-1, -2], [-2, -1]]
    assert PAIRS.decode(split("x", "OOD", PAIR_ONLY, 3), logits)[:, 2].tolist() == [0.5, 1.0, 0.0]
