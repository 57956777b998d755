"""Which output stands for which label."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from audited import NLI, Scripted
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from srnet.models.model import Matched, match


def matched(theirs: Sequence[str], ours: Sequence[str], **spellings: str) -> Matched:
    return match(Scripted(lambda a, b: [1.0], tuple(theirs), "the model"), tuple(ours), spellings)


@given(st.permutations(NLI))
def test_names_are_matched_whatever_their_order(theirs: list[str]) -> None:
    order = matched([name.upper() for name in theirs], NLI).order
    assert [theirs[each] for each in order] == list(NLI)


@pytest.mark.parametrize(
    ("theirs", "ours", "spellings", "order"),
    [
        (("not_enough-info", "Refutes", "supports"), ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO"), {}, (2, 1, 0)),
        (("1", "0"), ("not_duplicate", "duplicate"), {"0": "not_duplicate", "1": "duplicate"}, (1, 0)),
        (("LABEL_0", "LABEL_1"), ("1", "0"), {}, (1, 0)),
        (("0", "1"), ("1", "0"), {}, (1, 0)),
        (("1", "-1"), ("-1", "1"), {"minus": "-1", "plus": "1"}, (1, 0)),
        (("PLUS", "minus"), ("-1", "1"), {"minus": "-1", "plus": "1"}, (1, 0)),
    ],
)
def test_spellings_of_a_label(
    theirs: tuple[str, ...], ours: tuple[str, ...], spellings: dict[str, str], order: tuple[int, ...]
) -> None:
    """Case, spaces and hyphens make no difference; the task's own spellings count; an exact name is preferred."""
    found = matched(theirs, ours, **spellings)
    assert found.order == order
    assert not found.note


def test_outputs_without_names_are_taken_in_order_with_a_note() -> None:
    found = matched(["LABEL_0", "LABEL_1", "LABEL_2"], NLI)
    assert found.order == (0, 1, 2)
    assert "the model" in found.note
    assert "entailment, neutral, contradiction" in found.note


def test_logits_are_put_into_the_tasks_order() -> None:
    model = match(Scripted(lambda a, b: (1.0, 2.0, 3.0), ("contradiction", "entailment", "neutral")), NLI)
    np.testing.assert_array_equal(model.logits(["x"], ["y"]), [[2.0, 3.0, 1.0]])


@pytest.mark.parametrize("labels", [("-1", "1"), ("-1", "0", "1"), ("Yes", "yes"), ("a b", "ab"), ("+", "-")])
def test_labels_that_differ_in_hyphens_or_case_only(labels: tuple[str, ...]) -> None:
    for theirs in (labels, labels[::-1]):
        assert [theirs[each] for each in matched(theirs, labels).order] == list(labels)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        *((theirs, NLI) for theirs in (("negative", "positive", "mixed"), ("LABEL_0", "LABEL_1"), ("entailment",) * 3)),
        (("YES", "yes"), ("Yes", "yes")),
        (("-1", "0"), ("1", "0")),
        (("- 1", "1"), ("-1", "1")),
        (("a_b", "ab"), ("a b", "a-b")),
    ],
)
def test_what_is_ambiguous_or_another_label_does_not_match(theirs: tuple[str, ...], ours: tuple[str, ...]) -> None:
    with refused("the model", *theirs, *ours):
        matched(theirs, ours)
