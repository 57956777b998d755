"""Rules: what each changes, what counts as a failure, and rules of a user's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from audited import NLI, YES_NO, Scripted, split_of
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from srnet.audit.contrast import FLIP, RULES, SAME, Changed, Row, Rule
from srnet.audit.outcomes import RuleOutcome, apply_rule

QQP = ("not_duplicate", "duplicate")
TWO_WAY = ("not_entailment", "entailment")

# --- the rules -----------------------------------------------------------------------------------------------------

NAMES = ("swap-names", "neutral")
CLAUSE = "That is what was said."


@pytest.mark.parametrize(
    ("name", "label", "before", "after"),
    [
        ("swap-texts", "duplicate", ("one", "two"), Changed("two", "one", SAME)),
        ("repeat-claim", "entailment", ("He naps", "He is."), Changed("He naps. He is.", "He is.", "entailment")),
        ("repeat-claim", "neutral", ("He naps", "He is."), Changed("He naps. He is.", "He is.", "entailment")),
        ("repeat-claim", "contradiction", ("He naps", "He is."), None),
        ("repeat-claim", "not_entailment", ("a", "b"), None),
        ("shared-clause", "neutral", ("A.", "The B."), Changed("A. Somebody asked whether the B.", "The B.", SAME)),
        ("shared-clause", "duplicate", ("Who?", "She?"), Changed(f"Who? {CLAUSE}", f"She? {CLAUSE}", SAME)),
        ("shared-clause", "neutral", ("He naps.", ""), None),
        ("case-and-punctuation", "neutral", ("A man sleeps.", "Who?"), Changed("a man sleeps", "who", SAME)),
        ("case-and-punctuation", "neutral", ("a man sleeps", "..."), Changed("A man sleeps.", "...", SAME)),
        (*NAMES, ("Ann met Bob Lee in May.", "by Ann"), Changed("Bob Lee met Ann in May.", "by Bob Lee", SAME)),
        (*NAMES, ("The man saw Ann.", "Ann saw Bob."), Changed("The man saw Bob.", "Bob saw Ann.", SAME)),
        (*NAMES, ("Is India larger than China?", ""), Changed("Is China larger than India?", "", SAME)),
        (*NAMES, ("A man met Bob.", "Bob was met."), None),
        (*NAMES, ("We saw Ann Lee and Ann.", ""), None),
        (*NAMES, ("the man saw the woman", ""), None),
        (*NAMES, ("What Is The Best Way To Cook?", ""), None),
    ],
)
def test_what_a_rule_makes_of_a_row(name: str, label: str, before: tuple[str, str], after: Changed | None) -> None:
    labels = next(each for each in (NLI, QQP, TWO_WAY) if label in each)
    assert RULES[name].change(Row(*before, label, labels)) == after


def test_which_tasks_a_rule_applies_to() -> None:
    assert {name: tuple(map(each.applies, (NLI, QQP, YES_NO))) for name, each in RULES.items()} == {
        "swap-texts": (False, True, False),
        "repeat-claim": (True, False, False),
        "shared-clause": (True, True, False),
        "case-and-punctuation": (True, True, True),
        "swap-names": (True, True, True),
    }


@given(st.text(), st.text(), st.sampled_from(NLI))
def test_every_rule_takes_any_text(text_a: str, text_b: str, label: str) -> None:
    for each in RULES.values():
        found = each.change(Row(text_a, text_b, label, NLI))
        assert found is None or (isinstance(found, Changed) and found.expected in (SAME, FLIP, *NLI))


# --- failures ------------------------------------------------------------------------------------------------------

ROWS = [("a", "one"), ("b", "two"), ("c", "three"), ("d", "four")]


def outcome(rule: Rule, *models: Scripted) -> RuleOutcome:
    split = split_of(ROWS, [0, 1, 2, 2])
    before = [each.logits(split.text_a, split.text_b).argmax(axis=1) for each in models]
    return apply_rule(rule, split, NLI, models, before)


def with_mark(expected: object) -> Rule:
    return Rule("mark", "adds a mark", lambda row: Changed(f"{row.text_a} !", row.text_b, expected))  # type: ignore[arg-type]


FIRST = Scripted(lambda a, b: np.eye(3)[0], NLI, "always entailment")
FOOLED = Scripted(
    lambda a, b: np.eye(3)[int("!" in a and b != "one")], NLI, "neutral if there is a mark, except in row 1"
)


def test_an_invariance_failure_is_another_answer_than_before() -> None:
    found = outcome(with_mark(SAME), FIRST, FOOLED)
    assert (found.invariance, found.invariance_rows) == ((0.0, 0.75), 4)
    assert (found.directional, found.directional_rows) == ((None, None), 0)
    assert found.difference is not None
    assert found.difference.difference == pytest.approx(75.0)
    assert [each.id for each in found.examples] == ["dev-1", "dev-2", "dev-3"]
    assert found.examples[0].before == ("entailment", "entailment")
    assert found.examples[0].after == ("entailment", "neutral")
    assert found.examples[0].fails == (False, True)


def test_a_directional_failure_is_another_answer_than_demanded() -> None:
    found = outcome(with_mark("neutral"), FIRST, FOOLED)
    assert (found.directional, found.directional_rows) == ((1.0, 0.25), 4)
    assert found.invariance_rows == 0


def test_a_flip_fails_where_the_old_label_is_still_the_answer() -> None:
    """Labels are entailment, neutral, contradiction twice; FIRST keeps row 1, FOOLED keeps rows 1 and 2."""
    assert outcome(with_mark(FLIP), FIRST, FOOLED).directional == (0.25, 0.5)


@given(st.lists(st.sampled_from([SAME, FLIP, *NLI, None]), min_size=4, max_size=4))
def test_rates_are_shares_of_the_rows_that_were_changed(expected: list[object]) -> None:
    wanted = dict(zip((a for a, _ in ROWS), expected, strict=True))

    def some(row: Row) -> Changed | None:
        want = wanted[row.text_a]
        return None if want is None else Changed(f"{row.text_a} !", row.text_b, want)  # type: ignore[arg-type]

    found = outcome(Rule("some", "changes some rows", some), FOOLED)
    assert found.invariance_rows == expected.count(SAME)
    assert found.directional_rows == 4 - expected.count(SAME) - expected.count(None)
    assert all(rate is None or 0.0 <= rate <= 1.0 for rate in (*found.invariance, *found.directional))


def test_a_rule_that_changes_nothing_has_no_rows() -> None:
    for rule in (
        Rule("keep", "keeps", lambda row: Changed(row.text_a, row.text_b)),
        Rule("never", "applies never", lambda row: Changed("x", "y"), lambda labels: False),
    ):
        found = outcome(rule, FIRST, FOOLED)
        assert (found.invariance_rows, found.invariance, found.difference) == (0, (None, None), None)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda row: 1 / 0, "ZeroDivisionError"),
        (lambda row: ("a", "b"), "Changed"),
        (lambda row: Changed("x", "y", "maybe"), "maybe"),
        (lambda row: Changed("x", "y", np.arange(3)), "expects"),  # type: ignore[arg-type]
    ],
)
def test_a_rule_that_goes_wrong_is_named_with_the_row(change: object, named: str) -> None:
    with refused("rule 'bad', row 'dev-0'", named):
        outcome(Rule("bad", "goes wrong", change), FIRST)  # type: ignore[arg-type]


def test_the_rules_of_the_documentation_can_be_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("negate", "polite"):
        monkeypatch.setitem(RULES, name, None)  # so that they are removed at the end
    text = (Path(__file__).parents[2] / "docs" / "audit.md").read_text()
    exec(text.split("```python\n")[1].split("```")[0], {"srnet": None})
    negate, polite = RULES["negate"], RULES["polite"]
    assert negate.change(Row("a", "b", "neutral", NLI)) is None
    assert negate.change(Row("a", "b", "entailment", NLI)) == Changed("a", "It is not true that b", FLIP)
    assert (polite.applies(NLI), polite.applies(QQP)) == (False, True)
