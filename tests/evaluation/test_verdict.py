"""The paper's criterion: at least 95 % of ID kept, and OOD above the full CE model, both by their intervals."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from made_up import interval

from srnet.evaluation.significance import Interval
from srnet.evaluation.verdict import (
    FAILS,
    HOLDS,
    OPEN,
    Answer,
    Condition,
    Verdict,
    all_of,
    answered,
    any_of,
    judge,
    judge_together,
)

ABOVE, UNCLEAR, BELOW = (1.0, 9.0), (-1.0, 11.0), (-9.0, -1.0)

# --- conditions ----------------------------------------------------------------------------------------------------


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
def test_a_condition_holds_if_its_whole_interval_lies_above_the_bar(
    low: float, high: float, bar: float, answer: str
) -> None:
    (condition,) = answered([Condition("x", interval(low, high), bar)])
    assert condition.answer == answer


def test_of_many_conditions_one_that_lies_below_must_do_so_clearly() -> None:
    just, clearly, above = (Condition("x", interval(*ends)) for ends in ((-3.0, -0.1), (-3.0, -2.0), (1.0, 3.0)))
    assert [each.answer for each in answered([just, above])] == [OPEN, HOLDS]
    assert [each.answer for each in answered([clearly] + [above] * 11)] == [FAILS] + [HOLDS] * 11
    assert [each.answer for each in answered([above] * 12)] == [HOLDS] * 12, "to hold, all must: nothing to correct"


def test_conditions_exactly_at_the_bar_are_rarely_refuted() -> None:
    """Twelve, each with a true difference of 0: without a correction 26 % of such claims would be refuted."""
    rng, runs = np.random.default_rng(3), 2000
    claims = ([Condition("x", Interval(d, 0.0, 1.0, 3)) for d in row] for row in rng.normal(size=(runs, 12)))
    answers = [all_of(each.answer for each in answered(conditions)) for conditions in claims]
    assert answers.count(FAILS) / runs <= 0.04
    assert answers.count(HOLDS) == 0


def test_truth_tables() -> None:
    assert all_of(()) == any_of(()) == OPEN
    mirror: dict[str, Answer] = {HOLDS: FAILS, FAILS: HOLDS, OPEN: OPEN}
    for answers in (each for count in (1, 2, 3) for each in product((HOLDS, FAILS, OPEN), repeat=count)):
        every = FAILS if FAILS in answers else HOLDS if set(answers) == {HOLDS} else OPEN
        assert all_of(iter(answers)) == every
        assert any_of(mirror[each] for each in answers) == mirror[every], "one is the mirror of the other"


# --- the verdict ---------------------------------------------------------------------------------------------------


def verdict(id: tuple[float, float], *ood: tuple[float, float], seeds: int = 3) -> Verdict:
    gains = {f"ood{n}": interval(*each, seeds) for n, each in enumerate(ood)}
    return judge(78.0, 80.0, interval(*id, seeds), gains)


@pytest.mark.parametrize(
    ("id", "ood", "expected"),
    [
        (ABOVE, (ABOVE,), "yes"),
        (ABOVE, (ABOVE, ABOVE), "yes"),
        (ABOVE, (ABOVE, UNCLEAR), "not certain"),  # every OOD split must gain
        (ABOVE, (ABOVE, BELOW), "no"),
        (ABOVE, (UNCLEAR,), "not certain"),
        (UNCLEAR, (ABOVE,), "not certain"),  # the ID bar is judged by its interval as well
        (BELOW, (ABOVE,), "no"),  # a gain bought with an ID collapse does not count
        (ABOVE, ((-0.001, 8.0),), "not certain"),
        (ABOVE, ((0.0, 0.0),), "not certain"),  # no difference at all is no gain
        (ABOVE, ((-4.058, -0.142),), "not certain"),  # one-sided p 0.018: alone below 0.025, times two not
    ],
)
def test_criterion(id: tuple[float, float], ood: tuple[tuple[float, float], ...], expected: str) -> None:
    judged = verdict(id, *ood)
    assert (judged.answer, judged.is_srnet) == (expected, expected == "yes")


@pytest.mark.parametrize(("seeds", "name"), [(1, "one seed"), (2, "2 seeds")])
@pytest.mark.parametrize("side", [ABOVE, BELOW])
def test_few_seeds_give_no_verdict_however_clear_it_looks(side: tuple[float, float], seeds: int, name: str) -> None:
    judged = verdict(side, side, seeds=seeds)
    assert (judged.answer, judged.short, judged.is_srnet) == ("no verdict", f"{name}: no verdict", False)


def test_one_among_many_needs_a_larger_margin() -> None:
    # two-sided p 0.03 and half of it on one side: alone enough, not among ten
    just, others = verdict(ABOVE, (0.5, 9.0)), [verdict(ABOVE, UNCLEAR)] * 9
    assert judge_together([just]) == [just]
    assert just.answer == "yes"
    assert {each.answer for each in judge_together([just, *others])} == {"not certain"}
    assert "corrected" in judge_together([just, *others])[0].explained
    assert judge_together([verdict((5.0, 9.0), (5.0, 9.0)), *others])[0].answer == "yes"


def test_the_chance_of_a_wrong_answer_grows_neither_with_the_conditions_nor_with_the_table() -> None:
    rng, wrong_no, wrong_yes = np.random.default_rng(0), 0, 0
    for row in rng.normal(size=(2000, 12)):
        first, *rest = [Interval(difference, 0.0, 1.0, 3) for difference in row]
        wrong_no += judge(78.0, 80.0, first, {str(n): each for n, each in enumerate(rest)}).answer == "no"
        table = [judge(78.0, 80.0, interval(5.0, 9.0), {"a": each}) for each in (first, *rest)]
        wrong_yes += any(each.is_srnet for each in judge_together(table))
    assert max(wrong_no, wrong_yes) / 2000 <= 0.035, "2.5 %, and three times the error of 2000 runs"


@pytest.mark.parametrize("full", [0.0, -10.0])
def test_of_a_full_model_that_knows_nothing_none_is_kept(full: float) -> None:
    # a correlation may be negative, and twice as negative is not twice as good
    judged = judge(10.0, full, interval(*ABOVE), {"hans": interval(*ABOVE)})
    assert (judged.id_share, judged.short) == (0.0, "not certain: ID")
    assert f"{full:.1f}" in str(judged)


def kept(share: float, low: float, high: float, keeps: float = 0.95, **gains: tuple[float, float]) -> Verdict:
    """On a full model with an ID score of 50: two points of the share are one of the score. Shares are rounded down."""
    points = interval(50 * (low - keeps), 50 * (high - keeps))
    return judge(50 * share, 50.0, points, {name: interval(*each) for name, each in gains.items()}, keeps=keeps)


@pytest.mark.parametrize(
    ("judged", "short", "named"),
    [
        (kept(0.9845, 0.9395, 1.0295, hans=ABOVE), "not certain: ID", "98.4 % [93.9, 102.9]"),
        (kept(0.9845, 0.9395, 1.0295, 0.9, hans=UNCLEAR), "not certain: OOD", "hans +5.0 [-1.0, +11.0]"),
        (kept(0.8805, 0.8505, 0.9105, hans=ABOVE), "no: ID", "88.0 % [85.0, 91.0] is below 95 %"),
        (kept(0.8805, 0.8505, 0.9105, 0.975, hans=ABOVE), "no: ID", "is below 97.5 %"),
        (kept(0.98, 0.97, 0.99, hans=(-2.8, -0.5), paws=ABOVE), "no: OOD hans", "hans -1.6 [-2.8, -0.5]"),
        # of several, the condition that is least certain, or most certainly below
        (kept(0.98, 0.97, 0.99, hans=(-1.0, 5.0), paws=(-3.0, 5.0)), "not certain: OOD paws", "paws +1.0 [-3.0"),
        (kept(0.8805, 0.8505, 0.9105, hans=(-9.0, -7.0)), "no: OOD", "hans -8.0 [-9.0, -7.0]"),
        (kept(0.98, 0.93, 1.03, hans=(-9.0, -1.0)), "no: OOD", "hans -5.0 [-9.0, -1.0]"),
        (kept(0.98, 0.97, 0.99, hans=(0.0, 0.0)), "not certain: OOD", "hans +0.0 [+0.0, +0.0]"),
    ],
)
def test_the_condition_that_decides_is_named_first(judged: Verdict, short: str, named: str) -> None:
    assert judged.short == short
    decisive, *others = str(judged).split("; ")
    assert named in decisive
    assert len(others) == len(judged.gains)


def test_it_reads_as_a_sentence() -> None:
    assert str(verdict(ABOVE, ABOVE)) == "SRNet: keeps 97.5 % of ID; OOD minus full CE model: ood0 +5.0 [+1.0, +9.0]"
    assert str(kept(0.9845, 0.9395, 1.0295, hans=ABOVE)) == (
        "not certain: the ID share 98.4 % [93.9, 102.9] is not certainly above 95 %; OOD hans +5.0 [+1.0, +9.0]"
    )


def test_the_kept_share_is_rounded_down() -> None:
    assert judge(94.96, 100.0, interval(*UNCLEAR), {}).kept_percent == "94.9 %"
