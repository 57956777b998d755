"""An audit as tables of text: what the terminal prints and the page shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from srnet.audit.measures import Reliability
from srnet.audit.report import Audit
from srnet.audit.shortcut import Bin, Dependence
from srnet.evaluation.significance import Interval
from srnet.tasks.splits import LEVELS


@dataclass(frozen=True)
class Table:
    """A title, the names of the columns, and cells. The first column is text, the others are numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    detail: bool = False
    """Shown on the page alone."""


_OVER_BIAS = (
    "Percent, over tenths of the bias model's confidence; equal values are never torn apart. follows: answers like the "
    "bias model, which is right so often."
)
_OVER_WORDS = "Percent, over the share of the second text's words that occur in the first."
_SHARES = "Percent of the rows: the share of each label, and of each answer."


def tables_of(audit: Audit) -> list[Table]:
    """All tables that have something to say, the most important first."""
    every = [
        scores_table(audit),
        sides_table(audit),
        loyalty_table(audit),
        contrast_table(audit),
        *(table for each in audit.dependence for table in dependence_tables(audit, each)),
        *sub_case_tables(audit),
        calibration_table(audit),
        *reliability_tables(audit),
    ]
    return [table for table in every if table.rows]


def scores_table(audit: Audit) -> Table:
    compared = len(audit.models) > 1
    rows = tuple(
        (
            f"{each.kind} {each.split}",
            f"{each.rows:,}",
            *(score_text(score) for score in each.scores),
            *((_difference(each.difference),) if compared else ()),
            f"{each.majority:.1f}",
            *((f"{audit.disagreements[each.split]:,}",) if compared else ()),
        )
        for each in audit.scores
    )
    metric = audit.scores[0].metric if audit.scores else ""
    last = ("B minus A",) if compared else ()
    columns = ("split", "rows", *audit.letters, *last, "majority", *(("disagree",) if compared else ()))
    return Table(f"Scores: {metric} in percent [95 % interval, of the examples alone]", columns, rows)


def sides_table(audit: Audit) -> Table:
    columns = (
        "split",
        *(f"{letter}, {side}" for side in ("shortcut right", "shortcut wrong") for letter in audit.letters),
        "rows right",
        "rows wrong",
    )
    rows = tuple(
        (
            each.split,
            *map(_percent, (*each.where_right, *each.where_wrong)),
            f"{each.rows_right:,}",
            f"{each.rows_wrong:,}",
        )
        for each in audit.sides
    )
    note = "Accuracy where the bias model, which sees nothing but the shortcut, is right, and where it is wrong."
    return Table("Where the shortcut leads right and wrong", columns, rows, note)


def loyalty_table(audit: Audit) -> Table:
    rows = tuple((each.split, _percent(each.label), _percent(each.probability)) for each in audit.loyalty)
    note = (
        "Share of equal answers; mean of 1 - sqrt(Jensen-Shannon divergence, base e) of the probabilities (Xu et al. "
        "2021). 100 is the same behaviour; opposite answers have 0 and 16.7."
    )
    return Table("Loyalty of B to A", ("split", "label", "probability"), rows, note)


def contrast_table(audit: Audit) -> Table:
    compared = len(audit.models) > 1
    columns = ("rule", "rows", *audit.letters, *(("B minus A",) if compared else ()), "must be")
    rows: list[tuple[str, ...]] = []
    for each in audit.contrast:
        kinds = (("same", each.invariance_rows, each.invariance), ("label", each.directional_rows, each.directional))
        shown = [kind for kind in kinds if kind[1]] or [("not applicable", 0, (None,) * len(audit.models))]
        for kind, count, rates in shown:
            difference = (_difference(each.difference) if len(shown) == 1 else "",) if compared else ()
            rows.append((each.rule, f"{count:,}", *map(_percent, rates), *difference, kind))
    note = (
        "Failures in percent of the changed rows. same: the answer changes though it must not; label: the answer is "
        "not the one that the change demands."
    )
    return Table("Changed rows of ID dev: failure rates", columns, tuple(rows), note)


def dependence_tables(audit: Audit, found: Dependence) -> tuple[Table, Table]:
    """How accuracy depends on the shortcut, and how the answers do."""
    bias = found.over == "bias confidence"
    follows = (*(f"{letter} follows" for letter in audit.letters), "shortcut right") if bias else ()
    shared = tuple((_range(each), _count(each.rows)) for each in found.bins)
    rows = tuple((*begin, *_accuracies(each)) for begin, each in zip(shared, found.bins, strict=True))
    answers = tuple((*begin, *_answers(each)) for begin, each in zip(shared, found.bins, strict=True))
    who = ("label", *audit.letters)
    named = (f"{each}: {name}" for name in found.classes for each in who)
    return (
        Table(
            f"{found.split}: accuracy over {found.over}",
            ("range", "rows", *audit.letters, *follows),
            rows,
            _OVER_BIAS if bias else _OVER_WORDS,
        ),
        Table(f"{found.split}: answers over {found.over}", ("range", "rows", *named), answers, _SHARES, detail=True),
    )


def _accuracies(each: Bin) -> Iterable[str]:
    yield from map(_percent, each.accuracy)
    if each.bias_accuracy is not None and each.follows:
        yield from map(_percent, (*each.follows, each.bias_accuracy))


def _answers(each: Bin) -> Iterable[str]:
    for name in range(len(each.gold)):
        yield from map(_percent, (each.gold[name], *(answers[name] for answers in each.answers)))


def sub_case_tables(audit: Audit) -> list[Table]:
    return [_sub_cases(audit, each.split) for each in audit.scores]


def _sub_cases(audit: Audit, split: str) -> Table:
    compared = len(audit.models) > 1
    rows = tuple(
        (
            _indented(each.name),
            f"{each.rows:,}",
            *(_percent(accuracy) for accuracy in each.accuracy),
            *((_difference(each.difference),) if compared else ()),
        )
        for each in audit.sub_cases
        if each.split == split
    )
    columns = ("sub-case", "rows", *audit.letters, *(("B minus A",) if compared else ()))
    return Table(f"{split}: accuracy by sub-case", columns, rows)


def calibration_table(audit: Audit) -> Table:
    splits = [each.split for each in audit.scores]
    errors = {(each.split, each.model): each.error for each in audit.calibration}
    rows = tuple((split, *(_percent(errors[split, model]) for model in range(len(audit.models)))) for split in splits)
    note = "Expected calibration error in percent, ten bins of equal width; 0 is best."
    return Table("Calibration", ("split", *audit.letters), rows, note)


def reliability_tables(audit: Audit) -> list[Table]:
    return [
        Table(
            f"{each.split}: reliability of {audit.letters[each.model]}",
            ("probability", "rows", "confidence", "accuracy"),
            tuple(map(_reliability_cells, each.bins)),
            detail=True,
        )
        for each in audit.calibration
    ]


def _reliability_cells(bin: Reliability) -> tuple[str, ...]:
    bounds = f"{100 * bin.low:.0f} to {100 * bin.high:.0f}"
    return bounds, _count(bin.rows), _percent(bin.confidence), _percent(bin.accuracy)


# --- cells ---------------------------------------------------------------------------------------------------------


def _count(number: int) -> str:
    return f"{number:,}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f}"


def score_text(score: Interval) -> str:
    low, high = max(score.low, 0.0), min(score.high, 100.0)  # on few rows the normal approximation leaves the range
    return f"{score.difference:.1f} [{low:.1f}, {high:.1f}]"


def _difference(found: Interval | None) -> str:
    return "" if found is None else f"{found.difference:+.1f} [{found.low:+.1f}, {found.high:+.1f}]"


def _range(each: Bin) -> str:
    low, high = (f"{100 * value:.1f}" for value in (each.low, each.high))
    return low if low == high else f"{low} to {high}"


def _indented(name: str) -> str:
    levels: Sequence[str] = name.split(LEVELS)
    return "\u00a0\u00a0" * (len(levels) - 1) + levels[-1]
