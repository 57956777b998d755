"""How often models fail the rules of `contrast`: invariance and directional failure rates, with examples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

import numpy as np

from srnet.audit.contrast import FLIP, SAME, Changed, Expected, Row, Rule, told
from srnet.audit.rows import ROWS_AT_ONCE, collect_logits
from srnet.core.errors import UserError
from srnet.evaluation.significance import Interval, paired_bootstrap
from srnet.models.model import Classifier
from srnet.tasks.splits import Split

EXAMPLES = 20
"""Failures of a rule that are kept to be read."""
ROWS = 1000
"""Rows of the split that are changed, unless another number is given."""


@dataclass(frozen=True)
class Failure:
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
    """A rule's outcome. A rule with no rows was not applicable."""

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
    examples: tuple[Failure, ...]


@dataclass(frozen=True)
class _Case:
    """A changed row and the row that it came from."""

    number: int
    changed: Changed


def apply_rule(
    rule: Rule,
    split: Split,
    labels: tuple[str, ...],
    models: Sequence[Classifier],
    before: Sequence[np.ndarray],
) -> RuleOutcome:
    """Apply a rule to every row of a split. `before` are the models' answers to the rows as they are."""
    same: list[bool] = []
    fails: list[np.ndarray] = []
    examples: list[Failure] = []
    cases = _cases(rule, split, labels)
    while part := list(islice(cases, ROWS_AT_ONCE)):
        after = _answers(part, models)
        numbers = [case.number for case in part]
        earlier = np.stack([each[numbers] for each in before])
        failed = _failed([case.changed.expected for case in part], split.labels[numbers], labels, earlier, after)
        same += [case.changed.expected is SAME for case in part]
        fails.append(failed)
        places = np.flatnonzero(failed.any(axis=0))[: EXAMPLES - len(examples)]
        examples += [_failure(part[at], split, labels, earlier[:, at], after[:, at], failed[:, at]) for at in places]
    together = np.concatenate(fails, axis=1) if fails else np.zeros((len(models), 0), dtype=bool)
    return _outcome(rule, np.array(same, dtype=bool), together, tuple(examples))


def _outcome(rule: Rule, same: np.ndarray, fails: np.ndarray, examples: tuple[Failure, ...]) -> RuleOutcome:
    return RuleOutcome(
        rule.name,
        rule.says,
        _rates(fails[:, same]),
        int(same.sum()),
        _rates(fails[:, ~same]),
        int((~same).sum()),
        _difference(fails),
        examples,
    )


def _rates(fails: np.ndarray) -> tuple[float | None, ...]:
    return tuple(float(each.mean()) if len(each) else None for each in fails)


def _difference(fails: np.ndarray) -> Interval | None:
    if len(fails) < 2 or not fails.shape[1]:
        return None
    a, b = fails.astype(np.int64)
    return paired_bootstrap([b], [a], np.ones(len(a), dtype=np.int64), "accuracy")


def _cases(rule: Rule, split: Split, labels: tuple[str, ...]) -> Iterator[_Case]:
    with _of_user(f"rule '{rule.name}', its labels"):
        if not rule.applies(labels):
            return
    for number, (text_a, text_b, label) in enumerate(
        zip(split.text_a, split.text_b, split.labels.tolist(), strict=True)
    ):
        changed = _applied(rule, Row(text_a, text_b, labels[label], labels), split.ids[number])
        if changed is not None and (changed.text_a, changed.text_b) != (text_a, text_b):
            yield _Case(number, changed)


def _applied(rule: Rule, row: Row, id: str) -> Changed | None:
    with _of_user(f"rule '{rule.name}', row '{id}'"):
        changed = rule.change(row)
    if changed is None:
        return None
    if not isinstance(changed, Changed) or not all(isinstance(t, str) for t in (changed.text_a, changed.text_b)):
        raise UserError(f"rule '{rule.name}', row '{id}': it returns no Changed", "return Changed(...) or None")
    if not isinstance(changed.expected, (str, Expected)) or changed.expected not in (SAME, FLIP, *row.labels):
        known = ", ".join(("SAME", "FLIP", *row.labels))
        raise UserError(f"rule '{rule.name}' expects '{str(changed.expected)[:80]}'", f"choose one of: {known}")
    return changed


@contextmanager
def _of_user(where: str) -> Iterator[None]:
    """A user's own code may raise anything, and may end the process."""
    try:
        yield
    except (Exception, SystemExit) as error:
        raise UserError(f"{where}: {told(error)}", "correct it") from error


def _answers(part: Sequence[_Case], models: Sequence[Classifier]) -> np.ndarray:
    """By model and case."""
    text_a, text_b = [case.changed.text_a for case in part], [case.changed.text_b for case in part]
    return np.stack([collect_logits(model, text_a, text_b).argmax(axis=1) for model in models])


def _failed(
    expected: Sequence[Expected | str], gold: np.ndarray, labels: tuple[str, ...], before: np.ndarray, after: np.ndarray
) -> np.ndarray:
    """By model and case. `same`: another answer than before; `flip`: the old label; a label: another than that."""
    same, flip = (np.array([each is what for each in expected]) for what in (SAME, FLIP))
    wanted = np.array([labels.index(each) if each in labels else -1 for each in expected])
    failed: np.ndarray = np.where(same, before != after, np.where(flip, after == gold, after != wanted))
    return failed


def _failure(
    case: _Case, split: Split, labels: tuple[str, ...], before: np.ndarray, after: np.ndarray, fails: np.ndarray
) -> Failure:
    row = case.number
    return Failure(
        split.ids[row],
        case.changed.text_a,
        case.changed.text_b,
        split.text_a[row],
        split.text_b[row],
        labels[split.labels[row]],
        _written(case.changed.expected),
        tuple(labels[each] for each in before),
        tuple(labels[each] for each in after),
        tuple(bool(each) for each in fails),
    )


def _written(expected: Expected | str) -> str:
    return expected.value if isinstance(expected, Expected) else expected
