"""How often models fail the rules of `contrast`: invariance and directional failure rates, with examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from srnet.audit.contrast import FLIP, SAME, Changed, Expected, Row, Rule
from srnet.audit.rows import b_minus_a, collect_logits
from srnet.core.errors import UserError
from srnet.evaluation.significance import Interval
from srnet.models.model import Classifier
from srnet.tasks.splits import Split

_EXAMPLES = 20
"""Failures of a rule that are kept as examples."""


@dataclass(frozen=True)
class _Failure:
    """A changed row that at least one model fails."""

    id: str
    text_a: str
    text_b: str
    """As changed."""
    original_a: str
    original_b: str
    label: str
    expected: str
    """`same`, `flip` or a label."""
    before: tuple[str, ...]
    after: tuple[str, ...]
    """The answers of A, or of A and B, to the original and to the changed row."""
    fails: tuple[bool, ...]


@dataclass(frozen=True)
class RuleOutcome:
    """Failure rates of a rule. A rule with no rows was not applicable."""

    rule: str
    says: str
    invariance: tuple[float | None, ...]
    """By model: how often the answer changes where it must not."""
    invariance_rows: int
    directional: tuple[float | None, ...]
    """By model: how often the answer is not the one that the change demands."""
    directional_rows: int
    difference: Interval | None
    """Failures of B minus failures of A, in points, over all rows."""
    examples: tuple[_Failure, ...]


def apply_rule(
    rule: Rule,
    split: Split,
    labels: tuple[str, ...],
    models: Sequence[Classifier],
    before: Sequence[np.ndarray],
) -> RuleOutcome:
    """Apply a rule to every row of a split. `before` are the models' answers to the original rows."""
    cases = _changed_rows(rule, split, labels)
    rows, changed = list(cases), list(cases.values())
    texts = [each.text_a for each in changed], [each.text_b for each in changed]
    earlier = np.stack([answers[rows] for answers in before])
    after = np.stack([collect_logits(model, *texts).argmax(axis=1) for model in models])
    fails = _fails([each.expected for each in changed], split.labels[rows], labels, earlier, after)
    same = np.array([each.expected is SAME for each in changed], dtype=bool)
    return RuleOutcome(
        rule.name,
        rule.says,
        _rates(fails[:, same]),
        int(same.sum()),
        _rates(fails[:, ~same]),
        int((~same).sum()),
        b_minus_a(list(fails.astype(np.int64)), np.ones(len(same), dtype=np.int64), "accuracy"),
        tuple(
            _failure(changed[at], split, rows[at], labels, earlier[:, at], after[:, at], fails[:, at])
            for at in np.flatnonzero(fails.any(axis=0))[:_EXAMPLES]
        ),
    )


def _rates(fails: np.ndarray) -> tuple[float | None, ...]:
    return tuple(float(each.mean()) if len(each) else None for each in fails)


def _changed_rows(rule: Rule, split: Split, labels: tuple[str, ...]) -> dict[int, Changed]:
    """The rows that the rule changes, by their number in the split."""
    cases = {}
    for number in range(len(split) if rule.applies(labels) else 0):
        text_a, text_b = split.text_a[number], split.text_b[number]
        row = Row(text_a, text_b, labels[split.labels[number]], labels)
        changed = _applied(rule, row, f"rule '{rule.name}', row '{split.ids[number]}'")
        if changed is not None and (changed.text_a, changed.text_b) != (text_a, text_b):
            cases[number] = changed
    return cases


def _applied(rule: Rule, row: Row, where: str) -> Changed | None:
    try:
        changed = rule.change(row)
    except Exception as error:  # a rule may be the user's own code
        raise UserError(f"{where}: {type(error).__name__}: {error}", "correct the rule") from error
    if changed is None:
        return None
    if not isinstance(changed, Changed) or not all(isinstance(t, str) for t in (changed.text_a, changed.text_b)):
        raise UserError(f"{where}: it returns no Changed", "return Changed(...) or None")
    if not isinstance(changed.expected, (str, Expected)) or changed.expected not in (SAME, FLIP, *row.labels):
        known = ", ".join(("SAME", "FLIP", *row.labels))
        raise UserError(f"{where}: it expects '{str(changed.expected)[:80]}'", f"choose one of: {known}")
    return changed


def _fails(
    expected: Sequence[Expected | str], gold: np.ndarray, labels: tuple[str, ...], before: np.ndarray, after: np.ndarray
) -> np.ndarray:
    """Failures by model and row. `same`: another answer than before; `flip`: the old label; a label: any other."""
    same, flip = (np.array([each is what for each in expected], dtype=bool) for what in (SAME, FLIP))
    wanted = np.array([labels.index(each) if each in labels else -1 for each in expected])
    return np.asarray(np.where(same, before != after, np.where(flip, after == gold, after != wanted)))


def _failure(
    changed: Changed,
    split: Split,
    row: int,
    labels: tuple[str, ...],
    before: np.ndarray,
    after: np.ndarray,
    fails: np.ndarray,
) -> _Failure:
    return _Failure(
        split.ids[row],
        changed.text_a,
        changed.text_b,
        split.text_a[row],
        split.text_b[row],
        labels[split.labels[row]],
        changed.expected.value if isinstance(changed.expected, Expected) else changed.expected,
        tuple(labels[each] for each in before),
        tuple(labels[each] for each in after),
        tuple(bool(each) for each in fails),
    )
