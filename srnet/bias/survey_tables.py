"""A survey in words and tables, for the terminal and the page."""

from __future__ import annotations

from srnet.bias.carriers import Carrier
from srnet.bias.measuring import EARLY_ROWS, EXPLAINS, LEVEL, Measured
from srnet.bias.survey import Survey
from srnet.core.errors import shortened
from srnet.core.tables import Table
from srnet.evaluation import BIASED_BY

STRONGEST = 3
"""Carriers that the sentence names."""
PRINTED = 12
"""Carriers of a table."""
_LABELS = 4
"""Labels up to which a table has the share of each."""
_NAME = 60
"""Characters of a feature in a table."""


def sentence_of(survey: Survey) -> str:
    if not survey.found:
        return _nothing_found(survey)
    first = survey.found[0]
    over = f"{first.gain.difference:.1f} points over the majority class"
    if first.gain.difference < BIASED_BY:
        over += f", and a fit on few rows removes {first.explained:.0f} % of the uncertainty about the labels"
    parts = [f"The label can be predicted from {first.about}: {first.scores[survey.dev]:.1f} on {survey.dev}, {over}"]
    if first.carriers:
        parts.append(f"the strongest signs are {_named(survey, first.carriers)}")
    parts += [_beyond(survey, first, name) for name in first.scores if name != survey.dev]
    if first.obstacle:
        parts.append(f"it cannot be given as --shortcut: {first.obstacle}")
    return "; ".join(parts) + "."


def _nothing_found(survey: Survey) -> str:
    leaks = [each.name for each in survey.left_out if each.is_label]
    if leaks:
        return f"No shortcut was found, but {', '.join(leaks)} equals the label."
    if not survey.kinds:
        why = survey.notes[-1] if survey.notes else "nothing could be measured"
        return f"No shortcut was found: {why}."
    names = ", ".join(each.shortcut for each in survey.kinds)
    return (
        f"No shortcut was found: of {names}, none is certainly better than the majority class on {survey.dev} "
        f"({survey.rows[survey.dev]:,} rows), by {BIASED_BY:.0f} points or more."
    )


def _named(survey: Survey, carriers: tuple[Carrier, ...]) -> str:
    """The strongest carriers; several labels are named where there are some."""
    first = {each.label: each for each in reversed(carriers)}
    chosen = sorted(first.values(), key=carriers.index)[:STRONGEST]
    chosen += [each for each in carriers if each not in chosen][: STRONGEST - len(chosen)]
    return ", ".join(
        f"'{shortened(each.feature, _NAME)}' ({_share(survey, each):.0f} % {each.label})" for each in chosen
    )


def _share(survey: Survey, carrier: Carrier) -> float:
    return carrier.labels[survey.labels.index(carrier.label)]


def _beyond(survey: Survey, first: Measured, name: str) -> str:
    misled = f", below the majority class ({survey.majority[name]:.1f})" if name in first.misleads else ""
    return f"on {name} it scores {first.scores[name]:.1f}{misled}"


# --- tables --------------------------------------------------------------------------------------------------------


def tables_of(survey: Survey) -> list[Table]:
    """The ranked kinds, and what carries the first; for a page also what carries the others."""
    first, *others = survey.kinds or [None]
    tables = [_ranking(survey)]
    tables += [_carriers(survey, first)] if first is not None and first.is_shortcut else []
    return tables + [_carriers(survey, each, detail=True) for each in others if each is not None and each.carriers]


def _ranking(survey: Survey) -> Table:
    tests = [name for name in survey.majority if name != survey.dev]
    rows = [
        (
            each.shortcut,
            "yes" if each.is_shortcut else "no",
            f"{each.scores[survey.dev]:.1f}",
            f"{each.gain.difference:+.1f}\n[{each.gain.low:+.1f}, {each.gain.high:+.1f}]",
            f"{each.explained:.1f} %",
            *(_score(each, name) for name in tests),
        )
        for each in survey.kinds
    ]
    on_dev, *on_tests = (f"{survey.majority[name]:.1f}" for name in (survey.dev, *tests))
    rows.append(("majority class", "", on_dev, "", "", *on_tests))
    columns = ("kind", "shortcut", survey.dev, "over majority", "early", *tests)
    return Table(
        columns,
        rows,
        f"{survey.task}: what predicts the label ({survey.metric})",
        _how(survey),
        texts=(0, 1),
        soft=(len(rows) - 1,),
    )


def _score(each: Measured, name: str) -> str:
    if name not in each.scores:
        return "-"
    return f"{each.scores[name]:.1f}" + ("\nmisleads" if name in each.misleads else "")


def _how(survey: Survey) -> str:
    rows = min(EARLY_ROWS, survey.rows[survey.train])
    return (
        f"early: percent of the uncertainty about the labels of {survey.dev} that a fit on {rows:,} training rows "
        "removes. Kinds are ranked by it, because a shortcut is what is learned first. shortcut: yes if it is certain "
        f"(permutation test, corrected p < {LEVEL:g}) and gains {BIASED_BY:.0f} points of accuracy over the "
        f"majority class or removes {EXPLAINS:.0f} %. misleads: certainly below the majority class there."
    )


def _carriers(survey: Survey, kind: Measured, detail: bool = False) -> Table:
    few = len(survey.labels) <= _LABELS
    columns = ("feature", "rows", *(survey.labels if few else ("label", "share")), "lift", "p")
    overall = [f"{share:.0f} %" for share in survey.label_shares] if few else ["", ""]
    rows = [("all rows", "100 %", *overall, "", "")]
    for each in kind.carriers[:PRINTED]:
        shares = [f"{share:.0f} %" for share in each.labels] if few else [each.label, f"{_share(survey, each):.0f} %"]
        name = shortened(each.feature, _NAME)
        rows.append((name, f"{each.rows:,} ({each.share:.1f} %)", *shares, f"{each.lift:.1f}", _p(each.p)))
    more = f" {len(kind.carriers) - PRINTED:,} more are in the JSON." if len(kind.carriers) > PRINTED else ""
    note = (
        "The labels of the training rows that have a feature; equal texts are counted once. lift: how many times as "
        "often as in all rows. Ranked by how far they exceed chance, in standard deviations. p: Fisher's exact test, "
        f"corrected for all features and labels (Holm).{more}"
    )
    if not kind.carriers:
        note = "No single feature is certain to go with a label."
    return Table(columns, rows, f"What carries {kind.shortcut}", note, soft=(0,), detail=detail)


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
