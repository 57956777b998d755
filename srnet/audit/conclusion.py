"""The conclusion of an audit in two sentences: which model is better where, and how much each follows the shortcut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from srnet.audit.rows import Judged, SplitScores
from srnet.core.prose import listed
from srnet.evaluation.significance import Interval, Term, contrast, points, score_text

_FEWEST = 10
"""Rows on which the shortcut leads right, and wrong, from which on the models are compared there."""
_NAMED = 3
"""Splits that a sentence names."""


def conclude(scores: Sequence[SplitScores], splits: Sequence[Judged]) -> tuple[str, ...]:
    """The conclusion. "Certain" means that an interval, of the examples alone, lies on one side of 0."""
    compared = len(splits[0].models) > 1 if splits else False
    about_scores = _comparison(scores) if compared else _scores(scores)
    misled = _most_misled(splits)
    return tuple(filter(None, (about_scores, "" if misled is None else _about_shortcut(misled))))


def _scores(scores: Sequence[SplitScores]) -> str:
    shown = [f"{score_text(each.scores[0])} on {_name(each)}" for each in scores]
    constant = [f"{each.majority:.1f}" for each in scores]
    return f"A scores {listed(shown, _NAMED)}; a constant answer scores {listed(constant, _NAMED)}." if shown else ""


def _comparison(scores: Sequence[SplitScores]) -> str:
    """Where B is better than A, where it is worse, and where that is not certain."""
    better, worse, unknown = list[str](), list[str](), list[str]()
    for each in scores:
        a, b = (score.difference for score in each.scores)
        if each.difference is None or each.difference.low <= 0.0 <= each.difference.high:
            unknown.append(f"{_name(each)} ({b:.1f} and {a:.1f})")
        else:
            side = better if each.difference.low > 0.0 else worse
            side.append(f"{_name(each)} ({b:.1f} instead of {a:.1f}, {points(each.difference)} points)")
    kinds = {"certainly better": better, "certainly worse": worse, "not certainly different": unknown}
    parts = [f"{what} on {listed(names, _NAMED)}" for what, names in kinds.items() if names]
    return f"Compared with A, B is {'; '.join(parts)}." if parts else ""


def _name(each: SplitScores) -> str:
    return f"{each.kind} {each.split}"


# --- the shortcut ---


def _led(judged: Judged) -> np.ndarray:
    """For each row, whether the shortcut alone gives the right answer."""
    assert judged.bias is not None
    return np.asarray(judged.bias.answers == judged.labels)


def _most_misled(splits: Iterable[Judged]) -> Judged | None:
    """The split with the most rows on which the shortcut is wrong, of OOD sets if one has enough on both sides."""
    found = []
    for each in splits:
        right = int(_led(each).sum()) if each.bias is not None else 0
        wrong = len(each.split) - right
        if min(right, wrong) >= _FEWEST:
            found.append((each.split.kind == "OOD", wrong, each))
    return max(found, key=lambda one: one[:2])[2] if found else None


def _about_shortcut(judged: Judged) -> str:
    led, kind, name = _led(judged), judged.split.kind, judged.split.name
    where_wrong, where_right = ([100.0 * float(right[rows].mean()) for right in judged.right] for rows in (~led, led))
    rows = f"{kind} {name}, {int((~led).sum()):,} rows"
    if len(judged.models) == 1:
        fall, shares = _fall(judged, (1.0,)), f"{where_wrong[0]:.1f} %; where it leads right, on {where_right[0]:.1f} %"
        follows = "it follows the shortcut" if fall.low > 0.0 else "that it follows the shortcut is not certain"
        return f"Where the shortcut alone misleads ({rows}), A is right on {shares}: {follows} ({points(fall)} points)."
    shares = "A is right on {:.1f} % and B on {:.1f} %; where it leads right, on {:.1f} % and {:.1f} %"
    return (
        f"Where the shortcut alone misleads ({rows}), {shares.format(*where_wrong, *where_right)}: "
        f"{_who_follows_more(judged)}."
    )


def _who_follows_more(judged: Judged) -> str:
    for letter, weights in (("A", (1.0, -1.0)), ("B", (-1.0, 1.0))):
        more = _fall(judged, weights)
        if more.low > 0.0:
            return f"{letter} follows the shortcut more, by {points(more)} points"
    return "which of them follows the shortcut more is not certain"


def _fall(judged: Judged, weights: Sequence[float]) -> Interval:
    """How far the accuracy falls from where the shortcut is right to where it is wrong, summed with these weights."""
    led = _led(judged)
    sides = {"right": (1.0, led), "wrong": (-1.0, ~led)}
    terms = [
        Term(weight * sign, side, [model.answers[rows]])
        for weight, model in zip(weights, judged.models, strict=True)
        for side, (sign, rows) in sides.items()
    ]
    return contrast(terms, {side: judged.labels[rows] for side, (_, rows) in sides.items()}, "accuracy")
