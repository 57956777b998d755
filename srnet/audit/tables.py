"""The tables of an audit, for the terminal and the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from srnet.audit.report import CONFIDENCE, OVERLAP, SUPPORT, Audit, Bin, Dependence
from srnet.core.tables import Table
from srnet.evaluation.significance import Interval, points, score_text
from srnet.report.groups import GroupRow, group_table
from srnet.tasks.splits import LEVELS

_FOLLOWS = "follows: answers like the bias model, which is right so often."
_NOTES = {
    SUPPORT: f"Percent, over the probability that the bias model gives to the true label. {_FOLLOWS}",
    CONFIDENCE: "Percent, over tenths of the bias model's confidence; rows with equal values are in the same range. "
    + _FOLLOWS,
    OVERLAP: "Percent, over the share of the second text's words that occur in the first.",
}
_SHARES = "Percent of the rows: the share of each label, and of each answer."


def tables_of(audit: Audit) -> list[Table]:
    """All tables that have rows, the most important first."""
    return [*main_tables(audit), *detail_tables(audit)]


def main_tables(audit: Audit) -> list[Table]:
    """Those that everyone reads: scores, the shortcut, worst groups and pairs, loyalty, changed rows."""
    every = (_scores(audit), _shortcut_sides(audit), _groups(audit), _loyalty(audit), _contrast(audit))
    return [table for table in every if table.rows]


def detail_tables(audit: Audit) -> list[Table]:
    """Those that a page folds."""
    every = [
        *(table for each in audit.dependence for table in _dependence(audit, each)),
        *(_sub_cases(audit, each.split) for each in audit.scores),
        _calibration(audit),
        *_reliability(audit),
    ]
    return [table for table in every if table.rows]


def _scores(audit: Audit) -> Table:
    compared = len(audit.models) > 1
    rows = [
        (
            f"{each.kind} {each.split}",
            _count(each.rows),
            *map(score_text, each.scores),
            *_if_compared(audit, each.difference),
            f"{each.majority:.1f}",
            *((_count(audit.disagreements[each.split]),) if compared else ()),
        )
        for each in audit.scores
    ]
    metric = audit.scores[0].metric if audit.scores else ""
    columns = ("split", "rows", *_models(audit), "majority", *(("disagree",) if compared else ()))
    return Table(columns, rows, f"Scores: {metric} in percent [95 % interval, of the examples alone]")


def _shortcut_sides(audit: Audit) -> Table:
    sides = [f"{letter}, {side}" for side in ("shortcut right", "shortcut wrong") for letter in audit.letters]
    rows = []
    for each in audit.sides:
        accuracy = _percents((*each.where_right, *each.where_wrong))
        rows.append((each.split, *accuracy, _count(each.rows_right), _count(each.rows_wrong)))
    note = "Accuracy where the bias model, which sees nothing but the shortcut, is right, and where it is wrong."
    columns = ("split", *sides, "rows right", "rows wrong")
    return Table(columns, rows, "Where the shortcut leads right and wrong", note)


def _groups(audit: Audit) -> Table:
    return group_table([GroupRow(each.model, each.split, each.figures) for each in audit.groups], "A", audit.left_out)


def _loyalty(audit: Audit) -> Table:
    rows = [(each.split, *_percents((each.label, each.probability))) for each in audit.loyalty]
    note = (
        "Share of equal answers; mean of 1 - sqrt(Jensen-Shannon divergence, base e) of the probabilities (Xu et al. "
        "2021). 100 is the same behaviour; opposite answers have 0 and 16.7."
    )
    return Table(("split", "label", "probability"), rows, "Loyalty of B to A", note)


def _contrast(audit: Audit) -> Table:
    rows: list[tuple[str, ...]] = []
    for each in audit.contrast:
        kinds = (("same", each.invariance_rows, each.invariance), ("label", each.directional_rows, each.directional))
        shown = [kind for kind in kinds if kind[1]] or [("not applicable", 0, (None,) * len(audit.models))]
        difference = each.difference if len(shown) == 1 else None
        for kind, count, rates in shown:
            rows.append((each.rule, _count(count), *_percents(rates), *_if_compared(audit, difference), kind))
    note = (
        "Failures in percent of the changed rows. same: the answer changes though it must not; label: the answer is "
        "not the one that the change demands."
    )
    columns = ("rule", "rows", *_models(audit), "must be")
    return Table(columns, rows, "Changed rows of ID dev: failure rates", note)


def _dependence(audit: Audit, found: Dependence) -> Iterator[Table]:
    """How accuracy depends on the shortcut, and how the answers do."""
    bias = found.over != OVERLAP
    follows = (*(f"{letter} follows" for letter in audit.letters), "shortcut right") if bias else ()
    ranges = [(_range(each), _count(each.rows)) for each in found.bins]
    rows = [(*begin, *_accuracies(each)) for begin, each in zip(ranges, found.bins, strict=True)]
    columns = ("range", "rows", *audit.letters, *follows)
    title = f"{found.split}: accuracy over {found.over}"
    # the page also draws the support; the terminal has its summary, where the shortcut is right and where it is wrong
    yield Table(columns, rows, title, _NOTES[found.over], detail=found.over == SUPPORT)
    named = (f"{each}: {name}" for name in found.classes for each in ("label", *audit.letters))
    rows = [(*begin, *_answers(each)) for begin, each in zip(ranges, found.bins, strict=True)]
    yield Table(("range", "rows", *named), rows, f"{found.split}: answers over {found.over}", _SHARES, detail=True)


def _accuracies(each: Bin) -> Iterator[str]:
    yield from _percents(each.accuracy)
    if each.bias_accuracy is not None and each.follows:
        yield from _percents((*each.follows, each.bias_accuracy))


def _answers(each: Bin) -> Iterator[str]:
    for name in range(len(each.gold)):
        yield from _percents((each.gold[name], *(answers[name] for answers in each.answers)))


def _sub_cases(audit: Audit, split: str) -> Table:
    cases = [each for each in audit.sub_cases if each.split == split]
    rows = [
        (_indented(each.name), _count(each.rows), *_percents(each.accuracy), *_if_compared(audit, each.difference))
        for each in cases
    ]
    return Table(("sub-case", "rows", *_models(audit)), rows, f"{split}: accuracy by sub-case")


def _calibration(audit: Audit) -> Table:
    errors = {(each.split, each.model): each.error for each in audit.calibration}
    numbers = range(len(audit.models))
    rows = [(each.split, *_percents(errors[each.split, model] for model in numbers)) for each in audit.scores]
    note = "Expected calibration error in percent, ten bins of equal width; 0 is best."
    return Table(("split", *audit.letters), rows, "Calibration", note)


def _reliability(audit: Audit) -> Iterator[Table]:
    for each in audit.calibration:
        rows = [
            (
                f"{100 * bin.low:.0f} to {100 * bin.high:.0f}",
                _count(bin.rows),
                *_percents((bin.confidence, bin.accuracy)),
            )
            for bin in each.bins
        ]
        title = f"{each.split}: reliability of {audit.letters[each.model]}"
        yield Table(("probability", "rows", "confidence", "accuracy"), rows, title, detail=True)


# --- columns and cells ---------------------------------------------------------------------------------------------


def _models(audit: Audit) -> tuple[str, ...]:
    """A column for each model, and one for their difference."""
    return (*audit.letters, *(("B minus A",) if len(audit.models) > 1 else ()))


def _if_compared(audit: Audit, difference: Interval | None) -> tuple[str, ...]:
    """The cell of the difference, where two models are compared."""
    return () if len(audit.models) < 2 else ("" if difference is None else points(difference),)


def _count(number: int) -> str:
    return f"{number:,}"


def _percents(shares: Iterable[float | None]) -> list[str]:
    return ["" if share is None else f"{100 * share:.1f}" for share in shares]


def _range(each: Bin) -> str:
    low, high = _percents((each.low, each.high))
    return low if low == high else f"{low} to {high}"


def _indented(name: str) -> str:
    *above, last = name.split(LEVELS)
    return "\u00a0\u00a0" * len(above) + last
