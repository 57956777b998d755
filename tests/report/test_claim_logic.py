"""The logic of claims: intervals become answers, answers become one, and open ones say what they lack."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from made_up import interval
from stories import FAILS, HOLDS, OPEN

from srnet.evaluation.significance import Interval
from srnet.evaluation.verdict import Answer, Condition, all_of, answered, any_of
from srnet.report.claims import CLAIMS, Claim, answer_claim


@pytest.mark.parametrize(
    ("low", "high", "bar", "answer"),
    [
        (1.0, 3.0, 0.0, HOLDS),
        (0.1, 3.0, 0.0, HOLDS),
        (-0.1, 3.0, 0.0, OPEN),
        (-3.0, 0.1, 0.0, OPEN),
        (-3.0, -0.1, 0.0, FAILS),
        (0.0, 0.0, 0.0, OPEN),  # no difference at all is no gain
        (-0.9, 0.5, -1.0, HOLDS),
        (-1.1, 0.5, -1.0, OPEN),
        (-3.0, -1.1, -1.0, FAILS),
        (0.5, 0.9, 1.0, FAILS),
    ],
)
def test_a_part_holds_if_its_whole_interval_lies_above_the_bar(
    low: float, high: float, bar: float, answer: str
) -> None:
    (part,) = answered([Condition("x", interval(low, high), bar)])
    assert part.answer == answer


def test_of_many_parts_one_that_lies_below_must_do_so_clearly() -> None:
    just, clearly, above = (Condition("x", interval(*ends)) for ends in ((-3.0, -0.1), (-3.0, -2.0), (1.0, 3.0)))
    assert [part.answer for part in answered([just, above])] == [OPEN, HOLDS]
    assert [part.answer for part in answered([clearly] + [above] * 11)] == [FAILS] + [HOLDS] * 11
    assert [part.answer for part in answered([above] * 12)] == [HOLDS] * 12, "to hold, all must: nothing to correct"


def test_a_claim_whose_parts_are_exactly_at_the_bar_is_rarely_refuted() -> None:
    """Twelve parts, each with a true difference of 0: without a correction 26 % of such claims would be refuted."""
    rng, runs = np.random.default_rng(3), 2000
    claims = ([Condition("x", Interval(d, 0.0, 1.0, 3)) for d in row] for row in rng.normal(size=(runs, 12)))
    answers = [all_of(part.answer for part in answered(parts)) for parts in claims]
    assert answers.count(FAILS) / runs <= 0.04
    assert answers.count(HOLDS) == 0


@pytest.mark.parametrize(
    ("answers", "every", "some"),
    [
        ((), OPEN, OPEN),
        ((HOLDS,), HOLDS, HOLDS),
        ((OPEN,), OPEN, OPEN),
        ((FAILS,), FAILS, FAILS),
        ((HOLDS, HOLDS), HOLDS, HOLDS),
        ((HOLDS, OPEN), OPEN, HOLDS),
        ((HOLDS, FAILS), FAILS, HOLDS),
        ((OPEN, OPEN), OPEN, OPEN),
        ((OPEN, FAILS), FAILS, OPEN),
        ((FAILS, FAILS), FAILS, FAILS),
        ((HOLDS, OPEN, FAILS), FAILS, HOLDS),
    ],
)
def test_truth_tables(answers: tuple[Answer, ...], every: str, some: str) -> None:
    for order in (answers, answers[::-1]):
        assert all_of(iter(order)) == every
        assert any_of(iter(order)) == some


def test_one_is_the_mirror_of_the_other() -> None:
    mirror: dict[str, Any] = {HOLDS: FAILS, FAILS: HOLDS, OPEN: OPEN}
    for answers in product((HOLDS, FAILS, OPEN), repeat=3):
        assert any_of(answers) == mirror[all_of(mirror[each] for each in answers)]  # type: ignore[arg-type]


def test_every_claim_has_a_name_a_statement_and_a_place_in_the_paper() -> None:
    assert len(CLAIMS) == 12
    for field in ("name", "statement"):
        said = [getattr(claim, field) for claim in CLAIMS]
        assert len(set(said)) == len(said)
        assert all(said)
    assert all(claim.source.split()[0] in ("section", "appendix") for claim in CLAIMS)


def test_an_open_claim_says_how_many_seeds_it_would_take() -> None:
    """Two points of gain; the seeds have a standard deviation of 2, so the error of three is 2 / sqrt(3) = 1.15.

    The half width is t(n) * 2 / sqrt(n): 2.10 with n = 6 (t = 2.5706) and 1.85 with n = 7 (t = 2.4469).
    """
    claim = Claim("x", "x", "section 1", "fig8", (lambda evidence: [Condition("a", Interval(2.0, 2 / np.sqrt(3), 0.0, 3))],))
    evidence: Any = SimpleNamespace(seeds=3, alpha=0.025, ood=("hans",))
    task: Any = SimpleNamespace(name="mine", ood=("hans",))
    found = answer_claim(claim, task, evidence)
    assert (found.answer, found.needs) == (OPEN, 7)
    assert found.note == "about 7 seeds would answer it, if further ones are like these"
    # at a stricter level it takes more
    strict = answer_claim(claim, task, SimpleNamespace(seeds=3, alpha=0.0025, ood=("hans",)))  # type: ignore[arg-type]
    assert strict.needs is not None
    assert strict.needs > 7


def test_where_the_examples_are_too_few_no_number_of_seeds_would_do() -> None:
    # 1.96 * 1.1 is more than 2, however small the error of the seeds
    claim = Claim("x", "x", "section 1", "fig8", (lambda evidence: [Condition("a", Interval(2.0, 0.1, 1.1, 3))],))
    found = answer_claim(
        claim, SimpleNamespace(name="mine", ood=("hans",)), SimpleNamespace(seeds=3, alpha=0.025, ood=("hans",))
    )  # type: ignore[arg-type]
    assert (found.answer, found.needs) == (OPEN, None)
    assert found.note == "no number of seeds would answer it: more test examples are needed"
