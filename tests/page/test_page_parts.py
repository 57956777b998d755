"""What the page says about a pair: answers, shortcut, shared words, nearest rows, disagreements."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from audited import NLI, Scripted, split_of, task_of
from hypothesis import given
from hypothesis import strategies as st
from served import PEOPLE, by_order, by_overlap, nli_task, page_of, softmax, view_of

from srnet.bias.features import words
from srnet.bias.model import fit_bias_model, fit_bias_scorer
from srnet.core.errors import UserError
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.bias import BiasSpec
from srnet.experiment.nodes.models import Pretrained
from srnet.page.comparison import Comparison, ModelThread, small_parts
from srnet.page.options import PageOptions
from srnet.page.pair import TrainingRows, load_shortcut, marked, overlap_of, tokens_of
from srnet.page.run import load_view
from srnet.tasks.synthetic import SyntheticTask


def test_a_pair_has_the_answers_of_both_models_and_of_the_shortcut() -> None:
    view = view_of()
    found = view.look("the pilot saw the judge", "the judge saw the pilot")
    for answer, logits in zip(found["answers"], (by_overlap, by_order), strict=True):
        expected = softmax(logits("the pilot saw the judge", "the judge saw the pilot"))
        np.testing.assert_allclose(answer["probabilities"], expected, rtol=1e-6)
    assert [each["answer"] for each in found["answers"]] == [0, 1]
    assert found["shortcut"]["answer"] == 0, "all words are in the first text"
    assert sum(found["shortcut"]["probabilities"]) == pytest.approx(1)
    assert [each["class"] for each in found["answers"]] == [None, None]


def test_in_a_split_with_fewer_classes_answers_are_also_given_as_those() -> None:
    found = view_of().look("the pilot saw the judge", "the judge saw the pilot", "hard")
    assert [each["class"] for each in found["answers"]] == ["entailment", "non-entailment"]


@pytest.mark.parametrize("family", ["inference", "verification"])
def test_the_shortcut_is_the_bias_model_that_scores_dev(family: str) -> None:
    spec = SyntheticTask(family, train_size=300, dev_size=50, ood_size=50)
    task = spec.load()
    scorer = fit_bias_scorer(task, task.shortcut, None)
    for split in (task.dev, *task.ood.values()):
        stored = fit_bias_model(task, task.shortcut, None, folds=5)[split.name]
        np.testing.assert_array_equal(scorer.log_probs(split.text_a, split.text_b), stored.log_probs)


def test_a_weak_model_is_the_shortcut_of_a_task_with_an_unknown_one(
    tiny_backbone: str, tiny_task: SyntheticTask, engine: Engine
) -> None:
    bias = BiasSpec(shortcut="unknown", examples=20, epochs=1.0, backbone=tiny_backbone)
    shortcut, notes = load_shortcut(tiny_task, engine, bias)
    assert shortcut is not None
    assert "trained on 20 examples" in shortcut.about
    assert notes == []
    assert np.exp(shortcut.log_probs(["the doctor slept"], ["the doctor slept"])).sum() == pytest.approx(1)


def test_without_a_shortcut_a_note_says_why(tmp_path: Any, engine: Engine) -> None:
    rows = "".join(f"some words {n}\t{'yes' if n % 2 else 'no'}\n" for n in range(8))
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text("text_a\tlabel\n" + rows)
    from srnet.recipes.tasks import task_from

    values = {
        "name": "own",
        "labels": ["no", "yes"],
        "train": "train.tsv",
        "dev": "dev.tsv",
        "leaks": "keep",
        "text_b": None,
    }
    models = [Scripted(lambda a, b: (0.0, 1.0)), Scripted(lambda a, b: (1.0, 0.0))]
    view = load_view(models, task_from(values, "here", tmp_path), engine)
    assert view.shortcut is None
    assert "no bias model" in view.notes[0]
    found = view.look("some words", "")
    assert found["shortcut"] is None
    assert found["overlap"] is None
    assert len(found["nearest"]) == 5


def test_long_pairs_say_how_much_is_read(raw: Pretrained, engine: Engine) -> None:
    engine.execute([raw])
    view = load_view([raw.key, raw.key], raw.task, engine, max_length=16)
    short, long = (view.look("the doctor slept " * times, "the doctor slept") for times in (1, 100))
    assert [each["tokens"] for each in short["answers"]] == [None, None]
    # 300 words and 3, each a token, and [CLS] and two [SEP]
    assert [each["tokens"] for each in long["answers"]] == [{"read": 16, "all": 306}] * 2
    assert tokens_of(view_of().models[0], "word " * 1000, "") is None, "a classifier that has no tokens"


# --- words ---------------------------------------------------------------------------------------------------------


def test_shared_words_are_marked_as_the_bias_model_counts_them() -> None:
    found = overlap_of("The doctor, the pilot.", "the Pilot waited")
    assert found.a == [("The", True), (" doctor, ", False), ("the", True), (" ", False), ("pilot", True), (".", False)]
    assert found.b == [("the", True), (" ", False), ("Pilot", True), (" waited", False)]
    assert (found.inside, found.words, found.share) == (2, 3, pytest.approx(2 / 3))


@given(st.text(), st.text())
def test_the_pieces_are_the_text_and_their_number_is_the_share(text_a: str, text_b: str) -> None:
    found = overlap_of(text_a, text_b)
    assert "".join(piece for piece, _ in found.a) == text_a
    assert "".join(piece for piece, _ in found.b) == text_b
    assert found.words == len(words(text_b))
    if words(text_a) and words(text_b):
        assert found.share == pytest.approx(found.inside / found.words)


def test_only_the_beginning_of_a_long_text_is_marked() -> None:
    pieces, left = marked("a b c d", {"a", "d"}, most=2)
    assert pieces == [("a", True), (" b ", False)]
    assert left == 2


# --- training rows -------------------------------------------------------------------------------------------------


def test_the_nearest_row_is_the_same_pair() -> None:
    task = nli_task()
    training = TrainingRows(task)
    for row in (0, 5, 11):
        nearest = training.nearest(task.train.text_a[row], task.train.text_b[row])
        assert (nearest[0].text_a, nearest[0].text_b) == (task.train.text_a[row], task.train.text_b[row])
        assert nearest[0].similarity == pytest.approx(1)
        assert [each.similarity for each in nearest] == sorted((each.similarity for each in nearest), reverse=True)
        assert {each.label for each in nearest} <= set(NLI)


def test_similarity_is_the_mean_cosine_of_both_texts() -> None:
    """Two words that are equally frequent have equal weights: one of two has a cosine of 1/sqrt(2)."""
    train = split_of([("x y", "z w"), ("u v", "s t")], [0, 1], "train")
    task = replace(task_of(split_of([("a", "b")], [0])), train=train)
    (found,) = TrainingRows(task).nearest("x unknown", "z w")
    assert found.similarity == pytest.approx((1 / np.sqrt(2) + 1) / 2, abs=1e-6), "unknown words are left out"
    assert found.label == "no"


def test_nothing_is_near_without_a_shared_word() -> None:
    training = TrainingRows(nli_task())
    assert training.nearest("", "") == []
    assert training.nearest("🙂 !!", "unheard") == []


def test_training_rows_are_bounded() -> None:
    training = TrainingRows(nli_task(), most=7)
    assert len(training) == 7
    assert training.nearest("the doctor slept", "a pilot danced today")


# --- all rows ------------------------------------------------------------------------------------------------------


def test_disagreements_of_ood_sets_come_first_and_worst_first() -> None:
    comparison = page_of().comparison
    state = comparison.state()
    assert state["done"] == state["total"] == 2 * (6 + 6)
    assert [(each["name"], each["disagreements"]) for each in state["splits"]] == [("hard", 5), ("dev", 0)]
    rows = [comparison.row(number) for number in range(5)]
    assert all(row is not None and row["split"] == "hard" and row["label"] == "non-entailment" for row in rows)
    assert comparison.row(5) is None
    assert comparison.row(0, "dev") is None


def test_all_rows_can_be_read_before_any_model_has_read_them() -> None:
    comparison = page_of(compare=False).comparison
    assert comparison.row(0) is None
    row = comparison.row(6, all_rows=True)
    assert row is not None
    assert (row["split"], row["position"], row["total"], row["text_a"]) == ("dev", 6, 12, f"the {PEOPLE[0]} slept")
    assert comparison.row(12, all_rows=True) is None


def test_a_comparison_that_fails_says_why() -> None:
    view = view_of(None, Scripted(lambda a, b: (np.nan, 0.0, 0.0), NLI, "broken"), Scripted(by_order, NLI))
    comparison = Comparison(view.task, view.models, ModelThread())
    comparison._run_and_report()
    assert "non-finite" in comparison.failed


@given(st.lists(st.integers(0, 300), max_size=40), st.integers(1, 400))
def test_small_parts_hold_every_row_once_and_little_at_a_time(lengths: list[int], most: int) -> None:
    parts = list(small_parts(np.array(lengths, dtype=np.int64), most))
    assert sorted(row for part in parts for row in part) == list(range(len(lengths)))
    assert all(len(part) == 1 or len(part) * max(lengths[row] for row in part) <= most for part in parts)


@pytest.mark.parametrize("options", [{"port": 70_000}, {"host": " "}])
def test_impossible_addresses_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        PageOptions(**options)
