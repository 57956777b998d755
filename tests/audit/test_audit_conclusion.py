"""What an audit says first, by hand: which model is better where, who follows the shortcut; and its chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from audited import Scripted, judged, split_of, task_of
from refusals import refused
from scipy.stats import binomtest

import srnet
from srnet.audit.chart import BOTTOM, TOP, panels_of, wilson
from srnet.audit.conclusion import conclude
from srnet.audit.report import SUPPORT, Audit, make_audit
from srnet.audit.rows import Judged, split_scores
from srnet.audit.writing import _render_page
from srnet.models.model import match
from srnet.tasks.splits import SplitKind

YES, NO = [0.1, 0.9], [0.9, 0.1]


def rows_of(
    labels: Sequence[int], *models: Sequence[Any], bias: Sequence[Any] | None = None, kind: SplitKind = "ID"
) -> Judged:
    made = judged(labels, *models, bias=None if bias is None else np.array(bias))
    return replace(made, split=replace(made.split, kind=kind, name={"ID": "dev", "OOD": "hard"}[kind]))


def said(*splits: Judged) -> tuple[str, ...]:
    return conclude([split_scores(each, "accuracy") for each in splits], splits)


def answers(right: int, of: int = 100) -> list[list[float]]:
    """Of so many rows with label 1 the first are answered correctly."""
    return [YES] * right + [NO] * (of - right)


def test_which_model_is_better_and_where() -> None:
    labels = [1] * 100
    dev, hard = rows_of(labels, answers(95), answers(80)), rows_of(labels, answers(20), answers(90), kind="OOD")
    same = rows_of(labels, answers(50), answers(51))
    (line,) = said(dev, hard)
    assert line.startswith("Compared with A, B is certainly better on OOD hard (90.0 instead of 20.0, +70.0 [")
    assert "; certainly worse on ID dev (80.0 instead of 95.0, -15.0 [" in line
    assert said(same) == ("Compared with A, B is not certainly different on ID dev (51.0 and 50.0).",)
    (alone,) = said(rows_of(labels, answers(95)))
    assert alone.startswith("A scores 95.0 [")
    assert alone.endswith("on ID dev; a constant answer scores 100.0.")


def test_many_splits_are_not_all_named() -> None:
    scores = split_scores(rows_of([1] * 20, answers(15, 20), answers(15, 20)), "accuracy")
    (line,) = conclude([replace(scores, split=f"set{number}") for number in range(9)], [rows_of([1], [YES], [YES])])
    assert line.endswith("ID set2 (75.0 and 75.0) and 6 more.")


def test_who_follows_the_shortcut() -> None:
    """On 40 of 100 rows the shortcut says 1 and the label is 0: A says 1 as well, B is right there in half."""
    labels = [1] * 60 + [0] * 40
    follower, other = [YES] * 100, [YES] * 60 + [YES, NO] * 20
    hard = rows_of(labels, follower, other, bias=[YES] * 100, kind="OOD")
    dev = rows_of(labels, other, follower, bias=[YES] * 100)
    line = said(dev, hard)[1]
    assert line.startswith(
        "Where the shortcut alone misleads (OOD hard, 40 rows), A is right on 0.0 % and B on 50.0 %; where it leads "
        "right, on 100.0 % and 100.0 %: A follows the shortcut more, by +50.0 ["
    )
    assert ": B follows the shortcut more, by +50.0 [" in said(dev)[1], "without OOD rows those of dev say it"
    equal = rows_of(labels, other, other, bias=[YES] * 100)
    assert said(equal)[1].endswith("which of them follows the shortcut more is not certain.")
    assert (
        "50.0 %; where it leads right, on 100.0 %: it follows the shortcut (+50.0 ["
        in said(rows_of(labels, other, bias=[YES] * 100))[1]
    )
    assert len(said(rows_of(labels[:65], follower[:65], other[:65], bias=[YES] * 65))) == 1, "on 5 rows nothing is said"


@pytest.mark.parametrize(("right", "rows"), [(0, 5), (3, 7), (20, 20), (411, 900)])
def test_wilson(right: int, rows: int) -> None:
    expected = binomtest(right, rows).proportion_ci(method="wilson")
    assert wilson(right / rows, rows) == pytest.approx((expected.low, expected.high), abs=1e-6)


BY_WORD = Scripted(lambda a, b: (0.0, 1.0 if "good" in a else -1.0), name="by word")
ALWAYS = Scripted(lambda a, b: (0.0, 1.0), name="always")


def chart_audit(*models: Scripted) -> Audit:
    """Of 40 rows, the shortcut says 0 of the first half and 1 of the second; every second label is 1."""
    texts = [f"{'good' if row % 2 else 'bad'} {row}" for row in range(40)]
    task = task_of(split_of([(text, "x") for text in texts], [row % 2 for row in range(40)]))
    bias = np.log([[0.95, 0.05]] * 20 + [[0.25, 0.75]] * 20)
    logits = {"dev": [each.logits(texts, texts) for each in models]}
    matched = [match(each, task.labels) for each in models]
    return make_audit(task, matched, logits, {"dev": bias}, lead=("Load <it>: `srnet page`.",))


def test_the_chart_has_a_line_for_each_model_and_one_for_the_shortcut() -> None:
    (panel,) = panels_of(chart_audit(BY_WORD, ALWAYS))
    assert (panel.title, panel.over) == ("ID dev", SUPPORT)
    assert [(each.text, each.rows) for each in panel.ranges] == [("5", "10"), ("25", "10"), ("75", "10"), ("95", "10")]
    shortcut, a, b = panel.lines
    assert [each.y for each in shortcut.points] == [BOTTOM, BOTTOM, TOP, TOP]
    assert [each.y for each in a.points] == [TOP] * 4
    assert [each.y for each in b.points] == [TOP, BOTTOM, TOP, BOTTOM]
    for each in (point for line in panel.lines for point in line.points):
        assert each.high - 1e-9 <= each.y <= each.low + 1e-9, "a large share is at the top, where y is small"
    assert a.points[0].x < b.points[0].x


def test_the_page_begins_with_lead_conclusion_and_notes_on_labels() -> None:
    unnamed = Scripted(BY_WORD.answer, ("LABEL_0", "LABEL_1"), "without names")
    audit = chart_audit(unnamed, ALWAYS)
    page = _render_page(audit).decode()
    order = [
        "<p>Load &lt;it&gt;: <code>srnet page</code>.</p>", "<p>Compared with A, B is certainly worse on ID dev",
        '<p class="warning">Note: without names does not name its outputs', 'role="img"', "<h2>Scores",
    ]  # fmt: skip
    places = [page.index(each) for each in order]
    assert places == sorted(places)
    assert page.count("does not name its outputs") == 1
    written = audit.to_json()
    assert (written["lead"], len(written["conclusion"])) == (["Load <it>: `srnet page`."], 2)


def test_a_lead_that_is_no_text_is_refused_before_anything_is_opened() -> None:
    with refused("lead"):
        srnet.audit_models("nothing", lead=[3])  # type: ignore[list-item]
