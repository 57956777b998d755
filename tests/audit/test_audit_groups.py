"""Worst-group and pair accuracy in an audit: from the bias model's answers, or from the groups of the task."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from audited import Scripted, audit_of, split_of, task_of

from srnet.audit.report import make_audit
from srnet.audit.tables import main_tables
from srnet.models.model import match
from srnet.tasks.base import Task

LABELS = [0] * 20 + [1] * 20
YES, WORD = Scripted(lambda a, b: (0.0, 1.0)), Scripted(lambda a, b: (0.0, 1.0) if b == "yes" else (1.0, 0.0))
"""A model that always answers yes, and one that answers with the second text."""


def task(pairs: bool = True) -> Task:
    """The second text is the label, but for five rows of the second half; rows n and n + 20 are a pair."""
    texts = [("a", "yes" if label and n < 35 else "no") for n, label in enumerate(LABELS)]
    dev = split_of(texts, LABELS, groups=["first"] * 20 + ["second"] * 20)
    return task_of(replace(dev, columns={"pair": tuple(str(n % 20) for n in range(40))} if pairs else {}))


def test_given_groups_and_pairs_by_hand() -> None:
    audit = audit_of(task(), YES, WORD)
    a, b = (each.figures for each in audit.groups)
    assert [(each.split, each.model) for each in audit.groups] == [("dev", "A"), ("dev", "B")]
    assert a.worst
    assert b.worst
    assert (a.worst.name, a.worst.accuracy.difference) == ("first", 0.0)
    assert (b.worst.name, b.worst.accuracy.difference) == ("second", pytest.approx(75.0))
    assert b.worst_difference
    assert b.worst_difference.difference == pytest.approx(75.0)
    assert a.pairs
    assert b.pairs
    assert b.pairs_difference
    assert [each.difference for each in (a.pairs, b.pairs, b.pairs_difference)] == pytest.approx([0.0, 75.0, 75.0])
    (table,) = (each for each in main_tables(audit) if each.title == "Worst groups and pairs")
    assert [row[:3] for row in table.rows] == [["A", "dev", "first"], ["B", "dev", "second"]]
    assert all("one seed" not in cell for row in table.rows for cell in row)
    written = audit.to_json()["groups"][1]["figures"]
    assert written["worst"]["accuracy"]["value"] == pytest.approx(75.0)


def test_a_bias_model_decides_the_groups() -> None:
    """It is right on the 20 rows of no, and on the last five of yes, which are too few for a group."""
    rows, model = task(pairs=False), match(WORD, ("no", "yes"))
    bias = np.log(np.array([[0.9, 0.1]] * 35 + [[0.2, 0.8]] * 5))
    logits = model.logits(rows.dev.text_a, rows.dev.text_b)
    (found,) = make_audit(rows, [model], {"dev": [logits]}, {"dev": bias}).groups
    assert found.figures.worst
    # rows 20 to 34 are right and 35 to 39 wrong: the group of the latter is left out
    assert found.figures.worst.accuracy.difference == 100.0
    assert (found.figures.worst_difference, found.figures.pairs) == (None, None)
    audit = make_audit(rows, [model], {"dev": [logits]}, {"dev": bias})
    assert audit.left_out == "Left out, because they have fewer than 10 rows: dev: yes, shortcut right."


def test_without_groups_and_pairs_there_is_no_table() -> None:
    bare = task(pairs=False)
    audit = audit_of(replace(bare, dev=replace(bare.dev, groups=("",) * 40)), WORD)
    assert (audit.groups, audit.left_out) == ((), "")
    assert "Worst groups and pairs" not in [each.title for each in main_tables(audit)]
