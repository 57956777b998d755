"""The cubic schedule s(t) = s_f + (s_i - s_f)(1 - t/T)^3, by hand."""

from __future__ import annotations

import pytest
from refusals import refused

from srnet.masks.scores import Schedule


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        (0.0, 0.7),
        (0.25, 0.9 - 0.2 * 27 / 64),  # (3/4)^3 = 27/64
        (0.5, 0.875),  # 0.9 - 0.2 * 0.125
        (0.75, 0.9 - 0.2 / 64),
        (1.0, 0.9),
    ],
)
def test_cubic_by_hand(progress: float, expected: float) -> None:
    assert Schedule(0.7, 0.9, ramp=1.0).at(progress) == pytest.approx(expected, abs=1e-12)
    assert Schedule(0.7, 0.9, ramp=0.5).at(progress / 2) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("ramp", [0.3, 0.7, 1.0])
def test_final_is_reached_exactly_at_the_ramp_and_held(ramp: float) -> None:
    # the published code never gets to the end of the curve before it saves
    schedule = Schedule(0.7, 0.9, ramp)
    assert [schedule.at(t) for t in (ramp, (ramp + 1) / 2, 1.0)] == [0.9, 0.9, 0.9]
    assert schedule.reached(ramp)
    assert not schedule.reached(0.95 * ramp)


def test_it_only_rises_and_a_fixed_one_stays() -> None:
    values = [Schedule(0.2, 0.9).at(step / 200) for step in range(201)]
    assert values == sorted(values)
    assert [Schedule(0.5, 0.5).at(t) for t in (0.0, 0.3, 1.0)] == [0.5, 0.5, 0.5]
    assert Schedule(0.5, 0.5).reached(0.0)


@pytest.mark.parametrize(
    ("initial", "final", "begin", "named"), [(0.9, 0.7, 0.0, "initial sparsity 0.9"), (0.0, 0.5, 0.7, "begin 0.7")]
)
def test_nonsense_is_refused(initial: float, final: float, begin: float, named: str) -> None:
    with refused(named):
        Schedule(initial, final, 0.7, begin)


# --- a late beginning, and what grows on the same curve ------------------------------------------------------------

LATE = Schedule(0.0, 0.8, ramp=0.9, begin=0.1)
"""The ramp takes eight tenths of the run, from 0.1 to 0.9."""


@pytest.mark.parametrize(
    ("progress", "ramp_progress", "sparsity", "growth"),
    [
        (0.0, 0.0, 0.0, 0.0),
        (0.05, 0.0, 0.0, 0.0),
        (0.1, 0.0, 0.0, 0.0),
        (0.3, 0.25, 0.8 * 37 / 64, 37 / 64),  # 1 - (3/4)^3
        (0.5, 0.5, 0.7, 7 / 8),
        (0.7, 0.75, 0.8 * 63 / 64, 63 / 64),
        (0.9, 1.0, 0.8, 1.0),
        (1.0, 1.0, 0.8, 1.0),
    ],
)
def test_a_late_beginning_by_hand(progress: float, ramp_progress: float, sparsity: float, growth: float) -> None:
    assert LATE.ramp_progress(progress) == pytest.approx(ramp_progress, abs=1e-12)
    assert LATE.at(progress) == pytest.approx(sparsity, abs=1e-12)
    assert LATE.growth(progress) == pytest.approx(growth, abs=1e-12)


def test_both_ends_of_a_late_ramp_are_exact() -> None:
    assert [LATE.at(t / 100) for t in range(11)] == [0.0] * 11  # not nearly: a single weight would be pruned
    assert [LATE.growth(t / 100) for t in range(11)] == [0.0] * 11
    assert [LATE.at(t / 100) for t in range(90, 101)] == [0.8] * 11
    assert (LATE.reached(0.89), LATE.reached(0.9), LATE.growth(1.0)) == (False, True, 1.0)


def test_growth_does_not_ask_what_grows() -> None:
    # lambda(t) follows the ramp even where the sparsity stays the same
    assert Schedule(0.5, 0.5).growth(0.35) == pytest.approx(7 / 8)
