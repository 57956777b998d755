"""Results as people look at them: one short line, a table in a notebook, a DataFrame."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from audited import Scripted, audit_of, split_of, task_of
from finding.made_up_search import found_with

import srnet
from srnet.api.models import Trained
from srnet.core.tables import Shown, ShownList, plain
from srnet.evaluation.significance import Interval, spread
from srnet.evaluation.verdict import Condition
from srnet.report.claims import CLAIMS, Finding
from srnet.timing.measuring import Measured, Timing

SCORES = {
    "kind": "ID",
    "metrics": {"accuracy": 81.25, "f1": 80.0},
    "majority": {"accuracy": 50.0},
    "groups": {"a": 1.0},
}
TRAINED = Trained("1f3a90c2", Path("store/1f3a90c2"), 0.5, {"dev": SCORES, "hans": {**SCORES, "kind": "OOD"}})
TASK = srnet.SyntheticTask("inference", train_size=200, dev_size=40, ood_size=40)


def finding() -> Finding:
    return Finding(CLAIMS[0], "mnli", "yes", (Condition("ours minus theirs", Interval(1.0, 0.0, 0.5, 3)),), seeds=3)


def measured() -> ShownList[Measured]:
    timings = [Timing(rows, 8, 1.0, 2.0, 3.0, 4.0, None) for rows in (1, 4)]
    return ShownList(
        [Measured("full", "checkpoint", 10, 40, None, tuple(timings)), Measured("small", "onnx", 5, 20, 7)]
    )


def audit() -> Any:
    always_no = Scripted(lambda a, b: (1.0, 0.0))
    return audit_of(task_of(split_of([("a", "b")] * 20, [0, 1] * 10)), always_no, always_no)


MAKERS = {
    "trained": lambda: TRAINED,
    "survey": lambda: srnet.shortcuts(TASK),
    "found": lambda: found_with(scores={"dev": spread([90.0, 92.0])}, sparsity=0.5),
    "data": lambda: srnet.check_data(TASK),
    "finding": finding,
    "speed": measured,
    "audit": audit,
    "nothing": lambda: ShownList(),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_a_result_is_one_short_line_a_table_and_a_frame(kind: str) -> None:
    result = MAKERS[kind]()
    assert "\n" not in repr(result)
    assert len(repr(result)) < 400
    assert repr(result).startswith(f"<{type(result).__name__}: ")
    frame, page = result.to_pandas(), result._repr_html_()
    assert page.count("<tr") == len(frame) + 1
    assert len(page) < 20_000
    assert not any(isinstance(cell, dict) for column in frame for cell in frame[column])


def test_the_frame_has_the_numbers_themselves() -> None:
    frame = TRAINED.to_pandas()
    assert list(frame["split"]) == ["dev", "hans"]
    assert list(frame["kind"]) == ["ID", "OOD"]
    assert list(frame["accuracy"]) == [81.25, 81.25]
    assert list(frame["majority.accuracy"]) == [50.0, 50.0]
    assert repr(TRAINED) == "<Trained: 1f3a90c2, sparsity 0.5000, dev 81.2, hans 81.2>"
    assert TRAINED.scores["dev"]["metrics"], "the result itself is as before"


def test_two_models_of_an_audit_are_two_columns() -> None:
    frame = audit().to_pandas()
    assert list(frame["split"]) == ["dev"]
    assert (frame.loc[0, "A.value"], frame.loc[0, "B.value"], frame.loc[0, "difference.value"]) == (50.0, 50.0, 0.0)
    assert frame.loc[0, "A.low"] < 50.0 < frame.loc[0, "A.high"]


def test_a_search_without_a_choice_has_the_scores_of_the_full_model() -> None:
    frame = found_with().to_pandas()
    assert list(frame["full.mean"]) == [97.0, 69.2]
    assert frame["found"].isna().all()


def test_every_timing_of_every_model_is_a_row() -> None:
    frame = measured().to_pandas()
    assert list(frame["name"]) == ["full", "full", "small"]
    assert list(frame["rows"])[:2] == [1, 4]
    assert frame["per_second"][1] == 2000.0  # four texts in two milliseconds
    assert repr(measured()) == "<ShownList: full; small>"
    assert measured() == list(measured()), "it is a list"


def test_a_list_of_claims_has_one_row_each() -> None:
    frame = ShownList([finding(), finding()]).to_pandas()
    assert list(frame["answer"]) == ["yes", "yes"]
    assert "figures" not in frame


@dataclass(frozen=True, repr=False)
class Sample(Shown, says="lines", table="parts"):
    lines: tuple[str, ...]
    parts: tuple[Any, ...] = ()


def test_nothing_that_a_result_says_is_taken_for_html_or_control_characters() -> None:
    page = Sample(("<script>",), ({"<b>": "<i>"},))._repr_html_()
    assert not re.search(r"<(script|b|i)>", page)
    assert repr(Sample(("a\nb\x1b[31m" + "x" * 9999,))).isprintable()


def test_an_interval_keeps_its_bounds_and_lists_their_order() -> None:
    interval = Interval(1.0, 0.0, 0.5, 3)
    assert plain({"gain": interval, "names": ("a", "b")}) == {
        "gain": {"value": 1.0, "low": interval.low, "high": interval.high, "level": 0.95},
        "names": ["a", "b"],
    }
