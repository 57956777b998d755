"""The paper's criterion: at least 95 % of ID kept, and OOD above the full CE model, both by their intervals."""

from __future__ import annotations

import numpy as np
import pytest
from made_up import interval

from srnet.evaluation.significance import Interval
from srnet.evaluation.verdict import Verdict, judge, judge_together

ABOVE, OPEN, BELOW = (1.0, 9.0), (-1.0, 11.0), (-9.0, -1.0)


def verdict(id: tuple[float, float], *ood: tuple[float, float], seeds: int = 3) -> Verdict:
    gains = {f"ood{n}": interval(*each, seeds) for n, each in enumerate(ood)}
    return judge(78.0, 80.0, interval(*id, seeds), gains)


@pytest.mark.parametrize(
    ("id", "ood", "expected"),
    [
        (ABOVE, (ABOVE,), "yes"),
        (ABOVE, (ABOVE, ABOVE), "yes"),
        (ABOVE, (ABOVE, OPEN), "not certain"),  # every OOD split must gain
        (ABOVE, (ABOVE, BELOW), "no"),
        (ABOVE, (OPEN,), "not certain"),
        (OPEN, (ABOVE,), "not certain"),  # the ID bar is judged by its interval as well
        (BELOW, (ABOVE,), "no"),  # a gain bought with an ID collapse does not count
        (ABOVE, ((-0.001, 8.0),), "not certain"),
        (ABOVE, ((0.0, 0.0),), "not certain"),  # no difference at all is no gain
    ],
)
def test_criterion(id: tuple[float, float], ood: tuple[tuple[float, float], ...], expected: str) -> None:
    judged = verdict(id, *ood)
    assert judged.answer == expected
    assert judged.is_srnet is (expected == "yes")


@pytest.mark.parametrize(("seeds", "said"), [(1, "one seed: no verdict"), (2, "2 seeds: no verdict")])
def test_few_seeds_give_no_verdict_however_clear_it_looks(seeds: int, said: str) -> None:
    for sides in ((ABOVE, ABOVE), (BELOW, BELOW)):
        judged = verdict(sides[0], sides[1], seeds=seeds)
        assert (judged.answer, judged.short) == ("no verdict", said)
        assert not judged.is_srnet
        assert str(judged).startswith(said)


def test_one_among_many_needs_a_larger_margin() -> None:
    # two-sided p 0.03 and half of it on one side: alone enough, not among ten
    just = verdict(ABOVE, (0.5, 9.0))
    assert just.answer == "yes"
    alone, *_ = judge_together([just])
    assert alone == just
    among, *others = judge_together([just] + [verdict(ABOVE, OPEN)] * 9)
    assert among.answer == "not certain"
    assert {each.answer for each in others} == {"not certain"}
    clear, *_ = judge_together([verdict((5.0, 9.0), (5.0, 9.0))] + [verdict(ABOVE, OPEN)] * 9)
    assert clear.answer == "yes"


def test_no_needs_a_larger_margin_the_more_parts_could_have_failed() -> None:
    assert verdict(BELOW, ABOVE).answer == "no", "twice the p-value is still small"
    nearly = Interval(-2.1, 0.0, 1.0, 3)  # one-sided p 0.018: alone below 0.025, times two not
    assert judge(78.0, 80.0, interval(*ABOVE), {"a": nearly}).answer == "not certain"


def test_the_chance_of_a_wrong_no_does_not_grow_with_the_parts() -> None:
    rng = np.random.default_rng(0)
    wrong = [
        judge(78.0, 80.0, first, dict(enumerate(rest))).answer == "no"  # type: ignore[arg-type]
        for first, *rest in ([Interval(d, 0.0, 1.0, 3) for d in row] for row in rng.normal(size=(2000, 12)))
    ]
    assert np.mean(wrong) <= 0.035, "2.5 %, and three times the error of 2000 runs"


def test_the_chance_of_a_wrong_yes_does_not_grow_with_the_table() -> None:
    rng = np.random.default_rng(1)
    wrong = 0
    for row in rng.normal(size=(2000, 12)):
        table = [judge(78.0, 80.0, interval(5.0, 9.0), {"a": Interval(d, 0.0, 1.0, 3)}) for d in row]
        wrong += any(each.is_srnet for each in judge_together(table))
    assert wrong / 2000 <= 0.035


@pytest.mark.parametrize("full", [0.0, -10.0])
def test_of_a_full_model_that_knows_nothing_none_is_kept(full: float) -> None:
    # a correlation may be negative, and twice as negative is not twice as good
    judged = judge(10.0, full, interval(*ABOVE), {"hans": interval(*ABOVE)})
    assert judged.id_share == 0.0
    assert not judged.is_srnet


def kept(share: float, low: float, high: float, keeps: float = 0.95, **gains: tuple[float, float]) -> Verdict:
    """On a full model with an ID score of 50: two points of the share are one of the score. Shares are rounded down."""
    points = interval(50 * (low - keeps), 50 * (high - keeps))
    return judge(50 * share, 50.0, points, {name: interval(*each) for name, each in gains.items()}, keeps=keeps)


@pytest.mark.parametrize(
    ("judged", "short", "reason"),
    [
        (
            kept(0.9845, 0.9395, 1.0295, hans=ABOVE),
            "not certain: ID",
            "the ID share 98.4 % [93.9, 102.9] is not certainly above 95 %",
        ),
        (
            kept(0.9845, 0.9395, 1.0295, 0.9, hans=OPEN),
            "not certain: OOD",
            "OOD hans +5.0 [-1.0, +11.0] is not certainly above the full CE model",
        ),
        (kept(0.8805, 0.8505, 0.9105, hans=ABOVE), "no: ID", "the ID share 88.0 % [85.0, 91.0] is below 95 %"),
        (kept(0.8805, 0.8505, 0.9105, 0.975, hans=ABOVE), "no: ID", "the ID share 88.0 % [85.0, 91.0] is below 97.5 %"),
        (
            kept(0.98, 0.97, 0.99, hans=(-2.8, -0.5), paws=ABOVE),
            "no: OOD hans",
            "OOD hans -1.6 [-2.8, -0.5] is below the full CE model",
        ),
        # of several, the part that is least certain, or most certainly below
        (kept(0.98, 0.97, 0.99, hans=(-1.0, 5.0), paws=(-3.0, 5.0)), "not certain: OOD paws", "OOD paws +1.0 [-3.0"),
        (kept(0.8805, 0.8505, 0.9105, hans=(-9.0, -7.0)), "no: OOD", "OOD hans -8.0 [-9.0, -7.0] is below"),
        (kept(0.98, 0.93, 1.03, hans=(-9.0, -1.0)), "no: OOD", "OOD hans -5.0 [-9.0, -1.0] is below"),
        (kept(0.98, 0.97, 0.99, hans=(0.0, 0.0)), "not certain: OOD", "OOD hans +0.0 [+0.0, +0.0] is not certainly"),
    ],
)
def test_the_part_that_decides_is_named(judged: Verdict, short: str, reason: str) -> None:
    assert judged.short == short
    assert judged.reason.startswith(reason)
    assert judged.reason in str(judged)
    assert all(part.text in str(judged) for part in judged.parts), "the others follow"


def test_a_correction_that_decides_is_named() -> None:
    """Every interval lies above its bar, but there are ten subnetworks to choose from."""
    among, *_ = judge_together([kept(0.98, 0.97, 0.99, hans=(0.5, 9.0))] + [verdict(ABOVE, OPEN)] * 9)
    assert among.short == "not certain: OOD"
    assert among.reason.startswith("OOD hans +4.8 [+0.5, +9.0] is not certainly above the full CE model, corrected for")


def test_an_id_score_of_which_nothing_can_be_kept_is_named() -> None:
    judged = judge(10.0, 0.0, interval(*ABOVE), {"hans": interval(*OPEN)})
    assert judged.short == "not certain: ID"
    assert "the full model's ID score is 0.0" in str(judged)


def test_it_reads_as_a_sentence() -> None:
    assert str(verdict(ABOVE, ABOVE)) == ("SRNet: keeps 97.5 % of ID; OOD minus full CE model: ood0 +5.0 [+1.0, +9.0]")
    assert str(kept(0.9845, 0.9395, 1.0295, hans=ABOVE)) == (
        "not certain: the ID share 98.4 % [93.9, 102.9] is not certainly above 95 %; OOD hans +5.0 [+1.0, +9.0]"
    )


def test_the_kept_share_is_rounded_down() -> None:
    assert judge(94.96, 100.0, interval(*OPEN), {}).kept_percent == "94.9 %"
