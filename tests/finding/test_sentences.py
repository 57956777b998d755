"""The first sentence on a search is true whatever came out: made-up scores and intervals."""

from __future__ import annotations

from typing import Any

import pytest
from made_up import interval
from made_up_search import found_with

from srnet.evaluation.significance import Interval, spread
from srnet.evaluation.verdict import Verdict, judge
from srnet.finding.diagnoses import Diagnosis
from srnet.finding.found import Biased, Found, Tried

FULL = "Your model scores 97.0 on your data and 69.2 where word overlap misleads"
SMALL = "this one keeps 30 % of the weights and scores 94.4 and 98.2"
KEPT, GAINED = interval(1.0, 2.0), interval(20.0, 30.0)


def verdict(kept: Interval = KEPT, **gains: Interval) -> Verdict:
    return judge(94.4, 97.0, kept, gains or {"challenge": GAINED})


def chosen(**given: Any) -> Found:
    scores = {"dev": spread([94.4] * 3), "challenge": spread([98.2] * 3)}
    usual = {"tried": (Tried(0.7, 94.4, 0.97),), "sparsity": 0.7, "scores": scores, "verdict": verdict()}
    return found_with(**{**usual, **given})


def test_a_certain_gain() -> None:
    assert chosen().sentence == f"{FULL}; {SMALL}."


@pytest.mark.parametrize(
    ("given", "ends"),
    [
        (verdict(challenge=interval(-1.0, 9.0)), "the gain may be chance"),
        (verdict(challenge=interval(-9.0, 1.0)), "no gain was measured"),
        (verdict(challenge=interval(-9.0, -5.0)), "it is certainly worse"),
        (verdict(interval(-1.0, 2.0)), "it may keep less than 95 % of the first score"),
        (verdict(interval(-9.0, -5.0)), "it certainly keeps less than 95 % of the first score"),
        (
            verdict(interval(-1.0, 2.0), challenge=interval(-1.0, 9.0)),
            "it may keep less than 95 % of the first score and the gain may be chance",
        ),
        (
            verdict(interval(1.0, 2.0, 1), challenge=interval(1, 2, 1)),
            "with one seed none of the differences is certain",
        ),
    ],
)
def test_what_is_not_certain_is_said(given: Verdict, ends: str) -> None:
    assert chosen(verdict=given).sentence == f"{FULL}; {SMALL}; {ends}."


def test_without_ood_data() -> None:
    dev = {"full_scores": {"dev": spread([97.0])}, "scores": {"dev": spread([94.4])}, "misled": ()}
    assert chosen(**dev, verdict=None).sentence == (
        "Your model scores 97.0 on your data; this one keeps 30 % of the weights and scores 94.4; whether it is more "
        "robust is not known without other test data."
    )


def test_without_a_shortcut() -> None:
    absent = {"biases": (Biased("overlap", 51.0, 1.0),), "misled": (), "verdict": None}
    assert chosen(**absent).sentence == (
        f"Your model scores 97.0 on your data and 69.2 on challenge; {SMALL}; no shortcut was found, so nothing is "
        "claimed about robustness."
    )


def _sets(*scores: float) -> dict[str, Any]:
    return {"dev": spread([97.0]), **{f"set{n}": spread([score]) for n, score in enumerate(scores)}}


@pytest.mark.parametrize(
    ("misled", "ends"),
    [(("set0",), "70.0 on set1;"), (("set0", "set1"), "70.0 on set1, where word overlap misleads;")],
)
def test_several_ood_sets_are_one_sentence(misled: tuple[str, ...], ends: str) -> None:
    gains = verdict(set0=GAINED, set1=interval(-1.0, 9.0))
    found = chosen(full_scores=_sets(60.0, 70.0), scores=_sets(80.0, 75.0), misled=misled, verdict=gains)
    assert f"scores 97.0 on your data, 60.0 on set0 and {ends}" in found.sentence
    assert found.sentence.endswith("scores 97.0, 80.0 and 75.0; the gain may be chance on set1.")


def test_of_many_ood_sets_there_is_the_mean() -> None:
    found = chosen(full_scores=_sets(60.0, 70.0, 80.0, 90.0), scores=_sets(80.0, 80.0, 90.0, 90.0), misled=())
    assert "97.0 on your data and 75.0 on average over 4 other test sets;" in found.sentence
    assert "scores 97.0 and 85.0" in found.sentence


def test_nothing_was_chosen() -> None:
    assert found_with().sentence == (
        f"{FULL}; none of its subnetworks keeps 95 % of the first score: the densest keeps 70 % of the weights and "
        "scores 48.5."
    )


def test_the_control_and_a_speedup_are_named() -> None:
    sentence = chosen(full_is_control=True, speedup=2.0).sentence
    assert sentence.startswith("Your model, trained as long as the search, scores 97.0 on your data")
    assert "keeps 30 % of the weights, is about 2 times as fast by estimate, and scores 94.4" in sentence


def test_the_lead_has_what_to_do_then_the_diagnoses() -> None:
    advised = Diagnosis("It is undertrained", "Train longer", ("--scale", "3"))
    found = chosen(
        load="srnet.load_subnetwork('out/model')", page="srnet page A B", diagnoses=(advised,), next="srnet find again"
    )
    assert found.lead == (
        f"{found.sentence} Load it: `srnet.load_subnetwork('out/model')`. Try it: `srnet page A B`.",
        "It is undertrained. Train longer.",
        "Next: `srnet find again`.",
    )
