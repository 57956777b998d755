"""Rules: what each does with a row, what counts as a failure, and rules of a user's own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audited import NLI, Scripted, split_of
from hypothesis import given
from hypothesis import strategies as st

from srnet.audit.contrast import FLIP, RULES, SAME, Changed, Row, Rule, load_rules, names_in, restyled, rule
from srnet.audit.outcomes import RuleOutcome, apply_rule
from srnet.core.errors import UserError

QQP = ("not_duplicate", "duplicate")


def changed(name: str, text_a: str, text_b: str, label: str = "neutral", labels: tuple[str, ...] = NLI) -> object:
    return RULES[name].change(Row(text_a, text_b, label, labels))


# --- the rules -----------------------------------------------------------------------------------------------------


def test_texts_are_swapped_where_their_order_means_nothing() -> None:
    assert changed("swap-texts", "one", "two", "duplicate", QQP) == Changed("two", "one", SAME)
    assert RULES["swap-texts"].applies(QQP)
    assert not RULES["swap-texts"].applies(NLI)


def test_a_premise_that_repeats_the_claim_entails_it() -> None:
    for label in ("entailment", "neutral"):
        assert changed("repeat-claim", "A man sleeps", "He dreams.", label) == Changed(
            "A man sleeps. He dreams.", "He dreams.", "entailment"
        )
    assert changed("repeat-claim", "A man sleeps", "He dreams.", "contradiction") is None
    assert changed("repeat-claim", "a", "b", "not_entailment", ("not_entailment", "entailment")) is None
    assert not RULES["repeat-claim"].applies(QQP)


def test_a_clause_shares_words_and_says_nothing() -> None:
    assert changed("shared-clause", "A man sleeps.", "The man dreams.") == Changed(
        "A man sleeps. Somebody asked whether the man dreams.", "The man dreams.", SAME
    )
    both = changed("shared-clause", "Who is he?", "Who is she?", "duplicate", QQP)
    assert both == Changed("Who is he? That is what was said.", "Who is she? That is what was said.", SAME)
    assert changed("shared-clause", "A man sleeps.", "") is None


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("A man sleeps.", "a man sleeps"), ("a man sleeps", "A man sleeps."), ("Who?", "who"), ("", ""), ("...", "...")],
)
def test_case_and_punctuation(text: str, wanted: str) -> None:
    assert restyled(text) == wanted


def test_two_names_change_places_in_both_texts() -> None:
    assert changed("swap-names", "Ann met Bob Lee in May.", "Bob Lee was met by Ann.") == Changed(
        "Bob Lee met Ann in May.", "Ann was met by Bob Lee.", SAME
    )
    assert changed("swap-names", "A man met Bob.", "Bob was met.") is None


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        (("The man saw Ann.", "Ann saw Bob."), ["Ann", "Bob"]),
        (("Is India larger than China?",), ["India", "China"]),
        (("We saw Ann Lee and Ann.",), ["Ann Lee"]),
        (("the man saw the woman",), []),
        (("What Is The Best Way To Cook?",), []),
    ],
)
def test_names_are_capitalised_words_inside_a_sentence(texts: tuple[str, ...], names: list[str]) -> None:
    assert names_in(*texts) == names


@given(st.text(), st.text(), st.sampled_from(NLI))
def test_every_rule_takes_any_text(text_a: str, text_b: str, label: str) -> None:
    for each in RULES.values():
        found = each.change(Row(text_a, text_b, label, NLI))
        assert found is None or (isinstance(found, Changed) and found.expected in (SAME, FLIP, *NLI))


# --- failures ------------------------------------------------------------------------------------------------------

ROWS = [("a", "one"), ("b", "two"), ("c", "three"), ("d", "four")]


def outcome(rule: Rule, *models: Scripted) -> RuleOutcome:
    split = split_of(ROWS, [0, 1, 2, 0])
    before = [each.logits(split.text_a, split.text_b).argmax(axis=1) for each in models]
    return apply_rule(rule, split, NLI, models, before)


def with_mark(expected: object) -> Rule:
    return rule("mark", "adds a mark")(lambda row: Changed(f"{row.text_a} !", row.text_b, expected))  # type: ignore[arg-type]


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
    """Labels are entailment, neutral, contradiction, entailment; FIRST keeps 1 and 4, FOOLED keeps 1 and 2."""
    assert outcome(with_mark(FLIP), FIRST, FOOLED).directional == (0.5, 0.5)


@given(st.lists(st.sampled_from([SAME, FLIP, *NLI, None]), min_size=4, max_size=4))
def test_rates_are_shares_of_the_rows_that_were_changed(expected: list[object]) -> None:
    wanted = dict(zip((a for a, _ in ROWS), expected, strict=True))

    @rule("some", "changes some rows")
    def some(row: Row) -> Changed | None:
        want = wanted[row.text_a]
        return None if want is None else Changed(f"{row.text_a} !", row.text_b, want)  # type: ignore[arg-type]

    found = outcome(some, FOOLED)
    assert found.invariance_rows == expected.count(SAME)
    assert found.directional_rows == 4 - expected.count(SAME) - expected.count(None)
    assert all(rate is None or 0.0 <= rate <= 1.0 for rate in (*found.invariance, *found.directional))


def test_a_rule_that_changes_nothing_has_no_rows() -> None:
    kept = outcome(rule("keep", "keeps")(lambda row: Changed(row.text_a, row.text_b)), FIRST)
    assert (kept.invariance_rows, kept.invariance) == (0, (None,))
    never = outcome(rule("never", "applies never", lambda labels: False)(lambda row: Changed("x", "y")), FIRST)
    assert never.invariance_rows == 0


# --- rules of a user's own -----------------------------------------------------------------------------------------


def test_a_file_of_rules_is_read_in_its_order(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from srnet.audit.contrast import FLIP, RULES, Changed, rule, swap_texts\n"
        "@rule('negate', 'the second text is negated; the answer flips')\n"
        "def negate(row):\n    return Changed(row.text_a, 'It is not true that ' + row.text_b, FLIP)\n"
        "@rule('shout', 'upper case')\n"
        "def shout(row):\n    return Changed(row.text_a.upper(), row.text_b.upper())\n"
    )
    first, second = load_rules(file)
    assert (first.name, second.name) == ("negate", "shout")
    found = first.change(Row("a", "b", "entailment", NLI))
    assert found == Changed("a", "It is not true that b", FLIP)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("def broken(:\n", "line 1"),
        ("x = 1\ny = x / 0\n", "line 2: ZeroDivisionError"),
        ("raise SystemExit(0)\n", "line 1: SystemExit"),
        ("import json\nx = json.loads('[')\n", "mine.py, line 2: JSONDecodeError"),
        ("\0", r"mine\.py(, line 1)?: SyntaxError|ValueError"),
        ("class E(Exception):\n    def __str__(self):\n        return 3\nraise E\n", "line 4: E; correct"),
        *(
            (f"from srnet.audit.contrast import rule\n@rule({name}, 'x')\ndef f(row):\n    return None\n", "be text")
            for name in ("3", "None", "['a']", "{}")
        ),
        ("x = 1\n", "defines no rule"),
        (
            "from srnet.audit.contrast import rule\n@rule('swap-names', 'again')\ndef f(row):\n    return None\n",
            "two rules called 'swap-names'",
        ),
    ],
)
def test_a_mistake_in_a_file_of_rules_is_one_line(
    tmp_path: Path, source: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(source)
    monkeypatch.chdir(tmp_path)
    for path in (file, Path("mine.py")):
        with pytest.raises(UserError, match=told) as error:
            load_rules(path)
        assert "None" not in str(error.value)


def test_rules_come_from_python_files_alone(tmp_path: Path) -> None:
    for path, told in ((tmp_path / "absent.py", "does not exist"), (tmp_path, "not a Python file")):
        with pytest.raises(UserError, match=told):
            load_rules(path)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda row: 1 / 0, "rule 'bad', row 'dev-0': ZeroDivisionError"),
        (lambda row: sys.exit(0), "rule 'bad', row 'dev-0': SystemExit"),
        (lambda row: ("a", "b"), "returns no Changed"),
        (lambda row: Changed("x", "y", "maybe"), "expects 'maybe'"),
        (lambda row: Changed("x", "y", np.arange(3)), "expects"),
    ],
)
def test_a_rule_that_goes_wrong_is_one_line(change: object, told: str) -> None:
    with pytest.raises(UserError, match=told):
        outcome(rule("bad", "goes wrong")(change), FIRST)  # type: ignore[arg-type]


def test_labels_that_a_rule_cannot_read_are_one_line() -> None:
    bad: Any = rule("bad", "goes wrong", "entailment")(lambda row: None)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="rule 'bad', its labels: TypeError"):
        outcome(bad, FIRST)


def test_the_rules_of_the_documentation_can_be_run(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "audit.md").read_text()
    file = tmp_path / "documented.py"
    file.write_text(text.split("```python\n")[1].split("```")[0])
    negate, polite = load_rules(file)
    assert negate.change(Row("a", "b", "neutral", NLI)) is None
    assert negate.change(Row("a", "b", "entailment", NLI)) == Changed("a", "It is not true that b", FLIP)
    assert (polite.applies(NLI), polite.applies(QQP)) == (False, True)
