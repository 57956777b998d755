"""Which output stands for which label."""

from __future__ import annotations

import numpy as np
import pytest
from audited import NLI, Scripted
from hypothesis import given
from hypothesis import strategies as st
from srnet.audit.classifiers import match, match_labels

from srnet.core.errors import UserError


@given(st.permutations(NLI))
def test_names_are_matched_whatever_their_order(theirs: list[str]) -> None:
    order = match_labels("m", [name.upper() for name in theirs], NLI).order
    assert [theirs[each] for each in order] == list(NLI)


def test_case_spaces_and_hyphens_make_no_difference() -> None:
    ours = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")
    assert match_labels("m", ["not_enough-info", "Refutes", "supports"], ours).order == (2, 1, 0)


def test_the_tasks_own_spellings_count() -> None:
    found = match_labels("m", ["1", "0"], ["not_duplicate", "duplicate"], {"0": "not_duplicate", "1": "duplicate"})
    assert found.order == (1, 0)
    assert not found.note


def test_outputs_without_names_are_taken_in_order_with_a_note() -> None:
    found = match_labels("the model", ["LABEL_0", "LABEL_1", "LABEL_2"], NLI)
    assert found.order == (0, 1, 2)
    assert "the model" in found.note
    assert "entailment, neutral, contradiction" in found.note


@pytest.mark.parametrize("theirs", [["LABEL_0", "LABEL_1"], ["0", "1"]])
def test_a_number_is_the_label_that_is_called_so(theirs: list[str]) -> None:
    found = match_labels("m", theirs, ["1", "0"])
    assert found.order == (1, 0)
    assert not found.note


@pytest.mark.parametrize("theirs", [["negative", "positive", "mixed"], ["LABEL_0", "LABEL_1"], ["entailment"] * 3])
def test_a_mismatch_is_one_line_that_names_both(theirs: list[str]) -> None:
    with pytest.raises(UserError) as error:
        match_labels("the model", theirs, NLI)
    told = str(error.value)
    assert all(word in told for word in ("the model", theirs[0], *NLI))
    assert "\n" not in told


def test_logits_are_put_into_the_tasks_order() -> None:
    model = match(Scripted(lambda a, b: (1.0, 2.0, 3.0), ("contradiction", "entailment", "neutral")), NLI)
    np.testing.assert_array_equal(model.logits(["x"], ["y"]), [[2.0, 3.0, 1.0]])


@pytest.mark.parametrize("labels", [("-1", "1"), ("-1", "0", "1"), ("Yes", "yes"), ("a b", "ab"), ("+", "-")])
def test_labels_that_differ_in_hyphens_or_case_only(labels: tuple[str, ...]) -> None:
    for theirs in (labels, labels[::-1]):
        order = match_labels("m", theirs, labels).order
        assert [theirs[each] for each in order] == list(labels)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (("YES", "yes"), ("Yes", "yes")),
        (("-1", "0"), ("1", "0")),
        (("- 1", "1"), ("-1", "1")),
        (("a_b", "ab"), ("a b", "a-b")),
    ],
)
def test_what_is_ambiguous_or_another_number_does_not_match(theirs: tuple[str, ...], ours: tuple[str, ...]) -> None:
    with pytest.raises(UserError, match="tells"):
        match_labels("m", theirs, ours)


def test_an_exact_name_is_preferred_to_a_spelling() -> None:
    assert match_labels("m", ["1", "-1"], ["-1", "1"], {"minus": "-1", "plus": "1"}).order == (1, 0)
    assert match_labels("m", ["PLUS", "minus"], ["-1", "1"], {"minus": "-1", "plus": "1"}).order == (1, 0)
