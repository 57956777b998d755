"""Worst groups and pairs in a report: the groups of the bias model, the table, and the rows of results.csv."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from altered import altered

from srnet.evaluation.groups import FEWEST, GroupFigures, WorstGroup
from srnet.evaluation.significance import AsymmetricInterval, Interval, score_text
from srnet.experiment.store import Store, bias_predictions
from srnet.report.evidence import RecipeEvidence
from srnet.report.groups import GroupRow, group_metrics, group_table
from srnet.report.page import Page, _render_markdown, render_page
from srnet.report.results import Results
from srnet.report.tables import worst_groups


@pytest.fixture
def evidence(results: Results, store: Store) -> RecipeEvidence:
    return RecipeEvidence(results.recipe, store)


def test_groups_are_label_and_what_the_bias_model_answers(evidence: RecipeEvidence, store: Store) -> None:
    (bias,) = evidence.bias_models.values()
    for split in evidence.splits:
        data = evidence.task.splits[split]
        answers = bias_predictions(store, bias.key, split).log_probs.argmax(axis=1)
        for name, rows in evidence.groups_of(split).items():
            label, side = name.split(", shortcut ")
            assert {evidence.task.labels[each] for each in data.labels[rows]} == {label}
            assert set(answers[rows] == data.labels[rows]) == {side == "right"}
        assert sum(map(len, evidence.groups_of(split).values())) == len(data)


def test_each_line_has_its_worst_group(results: Results, evidence: RecipeEvidence) -> None:
    full = results.summaries[0]
    for row in results.group_rows:
        split = next(name for name, title in evidence.splits.items() if title == row.split)
        summary = next(each for each in results.summaries if each.name == row.name)
        labels, answers = evidence.task.splits[split].labels, [evidence.answers(m, split) for m in summary.models]
        large = [rows for rows in evidence.groups_of(split).values() if len(rows) >= FEWEST]
        means = [100 * np.mean([each[rows] == labels[rows] for each in answers]) for rows in large]
        assert row.figures.worst
        assert row.figures.worst.accuracy.difference == pytest.approx(min(means))
        assert (row.figures.worst_difference is None) == (summary is full)
        assert row.figures.pairs is None
    assert {row.name for row in results.group_rows} == {each.name for each in results.summaries}


def test_the_csv_has_the_accuracy_of_every_group(results: Results, evidence: RecipeEvidence) -> None:
    point = results.recipe.points[0]
    for split in evidence.splits:
        found = {r["metric"]: r["value"] for r in results.rows if (r["key"], r["split"]) == (point.node.key, split)}
        right = evidence.answers(point.node, split) == evidence.task.splits[split].labels
        for name, rows in evidence.groups_of(split).items():
            assert found[f"accuracy[{name}]"] == pytest.approx(100 * right[rows].mean(), abs=1e-4)


def test_the_csv_has_pairs_where_there_are_some(evidence: RecipeEvidence, monkeypatch: pytest.MonkeyPatch) -> None:
    dev, model = evidence.task.splits["dev"], evidence.recipe.points[0].node
    assert "pair_accuracy" not in group_metrics(evidence, model, "dev")
    cells = ("a", "a", "b", "b", *[""] * (len(dev) - 4))
    monkeypatch.setattr(evidence, "task", altered(evidence.task, dev=altered(dev, columns={"pair": cells})))
    right = evidence.answers(model, "dev") == dev.labels
    expected = 50.0 * (right[:2].all() + right[2:4].all())
    assert group_metrics(evidence, model, "dev")["pair_accuracy"] == expected


def test_a_table_by_hand() -> None:
    worst = WorstGroup("yes, shortcut wrong", AsymmetricInterval(61.2, 55.0, 66.1, 3))
    full = GroupFigures(worst, None, Interval(50.0, 0.0, 1.0, 3), None)
    minus = AsymmetricInterval(1.2, -0.3, 2.7, 3)
    ours = GroupFigures(worst, minus, Interval(50.0, 0.0, 1.0, 3), Interval(4.0, 0.0, 1.0, 3))
    table = group_table([GroupRow("full", "OOD anti", full), GroupRow("mask", "OOD anti", ours)], "full CE model")
    level, pairs = ("yes, shortcut wrong", "61.2 [55.0, 66.1]"), "50.0 [48.0, 52.0]"
    assert [*table.rows] == [
        ["full", "OOD anti", *level, "", pairs, ""],
        ["mask", "OOD anti", *level, "+1.2 [-0.3, +2.7]", pairs, "+4.0 [+2.0, +6.0]"],
    ]
    assert "decide nothing" in table.note
    bare = group_table([GroupRow("full", "OOD anti", GroupFigures(worst, minus, None, None))], "full CE model")
    assert (bare.rows, len(bare.columns)) == ([["full", "OOD anti", *level, "+1.2 [-0.3, +2.7]"]], 5), "no pairs"


def test_the_page_and_the_markdown_show_it(ran: Any, results: Results) -> None:
    page: Page = ran.page(results)
    table, figures = worst_groups(results), results.group_rows[0].figures
    assert figures.worst
    for text in (render_page(page), _render_markdown(page)):
        assert table.title in text
        assert score_text(figures.worst.accuracy) in text
        assert results.left_out in text
    without = ran.page(altered(results, group_rows=[]))
    assert table.title not in render_page(without) + _render_markdown(without)
