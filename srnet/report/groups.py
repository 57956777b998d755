"""Worst-group and pair accuracy of every line of a figure, and the same of any systems as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from srnet.core.tables import Table
from srnet.evaluation.evidence import Evidence, M
from srnet.evaluation.groups import FEWEST, GroupFigures, pair_numbers, pairs_right, too_small
from srnet.evaluation.significance import AsymmetricInterval, Interval, points, score_text
from srnet.report.evidence import RecipeEvidence
from srnet.tasks.splits import PAIR

_NOTE = (
    "The group with the lowest accuracy, and the share of pairs all of whose rows are right, in percent; intervals of "
    "95 %. These figures decide nothing, and no difference here is called certain."
)


class GroupRow(NamedTuple):
    """A system on a split."""

    name: str
    split: str
    figures: GroupFigures


def group_rows(evidence: RecipeEvidence) -> list[GroupRow]:
    """Every line on every split that has groups or pairs."""
    rows = [
        GroupRow(each.name, title, evidence.group_figures(each.models, evidence.full_models(each.models), split))
        for split, title in evidence.splits.items()
        if evidence.task.answer_kind.has_classes
        for each in evidence.summaries
    ]
    return [row for row in rows if row.figures.worst or row.figures.pairs]


def group_table(rows: Sequence[GroupRow], reference: str, note: str = "") -> Table:
    """One row for a system and a split; columns of pairs only where some split has them."""
    columns = ["model", "split", "worst group", "its accuracy [95 %]", f"minus {reference} [95 %]"]
    pairs = ["pairs right [95 %]", f"pairs minus {reference} [95 %]"] if any(row.figures.pairs for row in rows) else []
    cells = [[row.name, row.split, *_cells(row.figures)[: 3 + len(pairs)]] for row in rows]
    return Table([*columns, *pairs], cells, "Worst groups and pairs", f"{_NOTE} {note}".strip(), texts=(0, 1, 2))


def _cells(each: GroupFigures) -> list[str]:
    worst = [each.worst.name, score_text(each.worst.accuracy)] if each.worst else ["", ""]
    pairs = score_text(each.pairs) if each.pairs else ""
    return [*worst, _difference(each.worst_difference), pairs, _difference(each.pairs_difference)]


def _difference(interval: Interval | AsymmetricInterval | None) -> str:
    return points(interval) if interval else ""


def left_out(evidence: Evidence[M], splits: Sequence[str]) -> str:
    """A sentence that names the groups which are too small; empty if there are none."""
    found = {split: too_small(evidence.groups_of(split)) for split in splits}
    named = "; ".join(f"{split}: {', '.join(names)}" for split, names in found.items() if names)
    return f"Left out, because they have fewer than {FEWEST} rows: {named}." if named else ""


def group_metrics(evidence: Evidence[M], model: M, split: str) -> dict[str, float]:
    """For results.csv: a model's accuracy on each group, and on pairs, in percent."""
    data = evidence.task.splits[split]
    groups, pairs = evidence.groups_of(split), pair_numbers(data.columns.get(PAIR, ()))
    if not groups and not len(pairs):
        return {}
    right = evidence.answers(model, split) == data.labels
    found = {f"accuracy[{name}]": right[rows].mean() for name, rows in groups.items()}
    if (pairs >= 0).any() and evidence.task.answer_kind.has_classes:
        found["pair_accuracy"] = pairs_right(right, pairs).mean()
    return {name: round(100.0 * float(share), 4) for name, share in found.items()}
