"""The paper's criterion: at least 95 % of ID kept, and OOD above the full CE model."""

from __future__ import annotations

import pytest

from srnet.evaluation import Interval, Verdict, judge

SURE, UNSURE = Interval(5.0, 1.0, 9.0), Interval(5.0, -1.0, 11.0)


def verdict(id_score: float, gain: float, interval: Interval = SURE) -> Verdict:
    """Against a full model with 80 ID and 60 OOD, so that 76 is exactly 95 %."""
    return judge(id_score, 80.0, {"hans": (60.0 + gain, 60.0)}, {"hans": interval})


@pytest.mark.parametrize(
    ("id_score", "gain", "expected"),
    [
        (76.0, 5.0, True),
        (76.0, 0.1, True),
        (75.92, 5.0, False),  # 94.9 % is not 95 %, however it would be printed
        (75.999, 5.0, False),
        (40.0, 30.0, False),  # a gain bought with an ID collapse does not count
        (80.0, 0.0, False),
        (80.0, -1.0, False),
    ],
)
def test_criterion(id_score: float, gain: float, expected: bool) -> None:
    assert verdict(id_score, gain).is_srnet is expected


def test_certain_only_with_an_interval_above_zero() -> None:
    assert verdict(78.0, 5.0, SURE).certain
    assert not verdict(78.0, 5.0, UNSURE).certain
    assert verdict(78.0, 5.0, UNSURE).is_srnet
    assert not verdict(70.0, 5.0, SURE).certain, "no SRNet, so there is nothing to be certain of"


def test_every_ood_split_must_gain() -> None:
    both = {"a": (65.0, 60.0), "b": (59.0, 60.0)}
    assert not judge(80.0, 80.0, both, {"a": SURE, "b": SURE}).is_srnet
    up = {"a": (65.0, 60.0), "b": (61.0, 60.0)}
    assert judge(80.0, 80.0, up, {"a": SURE, "b": SURE}).certain
    assert not judge(80.0, 80.0, up, {"a": SURE, "b": UNSURE}).certain


def test_a_full_model_that_scores_nothing_proves_nothing() -> None:
    assert not judge(50.0, 0.0, {"hans": (60.0, 50.0)}, {"hans": SURE}).is_srnet


def test_it_reads_as_a_sentence() -> None:
    gain = "hans +5.0 [+1.0, +9.0]"
    assert str(verdict(76.0, 5.0)) == f"SRNet: keeps 95.0 % of ID; {gain}"
    assert str(verdict(70.0, 5.0)) == f"no SRNet: keeps 87.5 % of ID (95 % needed); {gain}"
    assert str(verdict(80.0, 0.0)) == f"no SRNet: keeps 100.0 % of ID but gains nothing OOD; {gain}"
    assert "gain not certain" in str(verdict(76.0, 5.0, UNSURE))


@pytest.mark.parametrize(("ours", "full"), [(10.0, 0.0), (-20.0, -10.0), (0.0, 0.0)])
def test_of_a_full_model_that_knows_nothing_none_is_kept(ours: float, full: float) -> None:
    # a correlation may be negative, and twice as negative is not twice as good
    assert judge(ours, full, {"hans": (60.0, 50.0)}, {"hans": SURE}).id_share == 0.0
