"""Diagnoses of a search, from made-up scores: what is wrong, and the advice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up import interval

from srnet.finding.diagnoses import no_shortcut, none_keeps, not_followed, undertrained
from srnet.finding.found import Biased

SCORE = st.floats(0.0, 100.0)


@pytest.mark.parametrize(
    ("full", "bias", "control", "sign"),
    [
        (43.7, 54.9, None, "the shortcut alone scores 54.9"),
        (55.0, 54.9, 55.5, "the shortcut alone scores 54.9"),
        (70.0, 54.9, 80.0, "trained as long as the search it scores 80.0"),
    ],
)
def test_a_full_model_that_is_undertrained(full: float, bias: float, control: float | None, sign: str) -> None:
    found = undertrained(full, bias=bias, control=control)
    assert found is not None
    assert f"it scores {full:.1f} on your data, and {sign}" in str(found)
    assert "Train longer: --scale 3" in str(found)
    assert found.options == ("--scale", "3")


def test_a_full_model_that_is_no_better_than_the_most_frequent_label() -> None:
    found = undertrained(54.1, bias=46.5, majority=52.2)
    assert found is not None, "a bias model without a shortcut is worse than the most frequent label"
    assert "the most frequent label alone scores 52.2" in found.text
    assert undertrained(54.3, bias=46.5, majority=52.2) is None


def test_a_mask_that_is_better_than_its_full_model() -> None:
    found = undertrained(70.0, bias=54.9, control=71.0, mask=75.0, scale=3.0)
    assert found is not None
    assert "a subnetwork in it scores 75.0" in found.text
    assert found.options == ("--scale", "9"), "longer than it was"


def test_a_trial_is_to_become_a_training_first() -> None:
    found = undertrained(50.0, bias=54.9, scale=0.1)
    assert found is not None
    assert found.options == ("--scale", "1")


def test_a_full_model_that_is_trained_long_enough() -> None:
    assert undertrained(97.0, bias=90.0, control=97.5, mask=96.0) is None
    assert undertrained(99.5, bias=98.5, control=99.5, mask=99.5) is None, "there is little room above the shortcut"


@given(SCORE, SCORE, SCORE, SCORE)
def test_a_better_full_model_is_never_more_undertrained(
    full: float, better: float, bias: float, control: float
) -> None:
    full, better = sorted((full, better))
    if undertrained(full, bias=bias, control=control) is None:
        assert undertrained(better, bias=bias, control=control) is None


def test_a_shortcut_that_is_absent() -> None:
    found = no_shortcut([Biased("overlap", 51.0, 1.0), Biased("claim", 50.0, -0.5)])
    assert "overlap +1.0, claim -0.5" in found.text
    assert "--shortcut" in found.advice


def test_a_full_model_that_does_not_follow_the_shortcut() -> None:
    found = not_followed(interval(-1.0, 2.0))
    assert found is not None
    assert "+0.5 [-1.0, +2.0]" in found.text
    assert not_followed(interval(-1.0, 20.0)) is None, "it may well follow it"
    assert not_followed(interval(20.0, 30.0)) is None


@pytest.mark.parametrize(
    ("densest", "speedup", "options"), [(0.3, False, ("--sparsities", "0.15")), (1.5, True, ("--speedup", "1.25"))]
)
def test_no_subnetwork_keeps_the_score(densest: float, speedup: bool, options: tuple[str, str]) -> None:
    found = none_keeps(0.95, 0.5, densest, speedup=speedup)
    assert "keeps 95 %" in found.text
    assert "the densest keeps 50.0 %" in found.text
    assert found.options == options
