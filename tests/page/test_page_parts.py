"""What the page says about a pair: answers, shortcut, shared words, nearest rows, disagreements."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import transformers
from architectures import ARCHITECTURES, tokenizer_for
from audited import NLI, Scripted, split_of, task_of
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax
from served import PEOPLE, by_order, by_overlap, nli_task, page_of, view_of
from small_models import tiny

from srnet.bias.model import fit_bias_model, fit_bias_scorer
from srnet.bias.texts import words
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.bias import BiasSpec
from srnet.experiment.nodes.models import Pretrained
from srnet.models.model import in_memory, match
from srnet.page.comparison import _small_parts
from srnet.page.pair import TrainingRows, _overlap_of, load_shortcut, marked, unknown_to
from srnet.page.run import _load_view
from srnet.tasks.files import FilesTask
from srnet.tasks.synthetic import SyntheticTask


def test_a_pair_has_the_answers_of_both_models_and_of_the_shortcut() -> None:
    pair = "the pilot saw the judge", "the judge saw the pilot"
    found = view_of().look(*pair)
    for answer, logits in zip(found["answers"], (by_overlap, by_order), strict=True):
        np.testing.assert_allclose(answer["probabilities"], softmax(logits(*pair)), rtol=1e-6)
    assert [each["answer"] for each in found["answers"]] == [0, 1]
    assert found["shortcut"]["answer"] == 0, "all words are in the first text"
    assert sum(found["shortcut"]["probabilities"]) == pytest.approx(1)
    assert [each["class"] for each in found["answers"]] == [None, None]
    assert [each["class"] for each in view_of().look(*pair, "hard")["answers"]] == ["entailment", "non-entailment"]
    assert view_of().look("word " * 1000, "")["answers"][0]["tokens"] is None, "a classifier that has no tokens"


@pytest.mark.parametrize(
    ("family", "shortcut"),
    [("inference", "overlap"), ("verification", "claim"), ("inference", "words"), ("inference", ("overlap", "length"))],
)
def test_the_shortcut_is_the_bias_model_that_scores_dev(family: str, shortcut: Any) -> None:
    spec = SyntheticTask(family, train_size=300, dev_size=50, ood_size=50)
    task = spec.load()
    scorer = fit_bias_scorer(task, shortcut)
    for split in (task.dev, *task.ood.values()):
        stored = fit_bias_model(task, shortcut)[split.name]
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


def test_a_column_has_no_answer_to_a_typed_text(tmp_path: Any, engine: Engine) -> None:
    for name in ("train", "dev"):
        rows = "".join(f"{name} {n},{('no', 'yes')[n % 2]},{'wn'[n % 2]}\n" for n in range(20))
        (tmp_path / f"{name}.csv").write_text("text_a,label,source\n" + rows)
    files = [str(tmp_path / f"{name}.csv") for name in ("train", "dev")]
    task = FilesTask("own", ("no", "yes"), *files, text_b=None)
    shortcut, notes = load_shortcut(task, engine, BiasSpec("source"))
    assert shortcut is None
    assert "columns:source" in notes[0]


def test_without_a_shortcut_a_note_says_why(tmp_path: Any, engine: Engine) -> None:
    for name in ("train", "dev"):
        rows = "".join(f"some {name} words {n}\t{'yes' if n % 2 else 'no'}\n" for n in range(8))
        (tmp_path / f"{name}.tsv").write_text("text_a\tlabel\n" + rows)
    files = [str(tmp_path / f"{name}.tsv") for name in ("train", "dev")]
    models = [Scripted(lambda a, b: (0.0, 1.0)), Scripted(lambda a, b: (1.0, 0.0))]
    view = _load_view(models, FilesTask("own", ("no", "yes"), *files, text_b=None), engine)
    assert "no bias model" in view.notes[0]
    found = view.look("some words", "")
    assert (found["shortcut"], found["overlap"], len(found["nearest"])) == (None, None, 5)


def test_long_pairs_say_how_much_is_read(raw: Pretrained, engine: Engine) -> None:
    engine.execute([raw])
    view = _load_view([raw.key, raw.key], raw.task, engine, max_length=16)
    short, long = (view.look("the doctor slept " * times, "the doctor slept") for times in (1, 100))
    assert [each["tokens"] for each in short["answers"]] == [None, None]
    # 300 words and 3, each a token, and [CLS] and two [SEP]
    assert [each["tokens"] for each in long["answers"]] == [{"read": 16, "all": 306}] * 2


# --- words ---------------------------------------------------------------------------------------------------------


def test_shared_words_are_marked_as_the_bias_model_counts_them() -> None:
    found = view_of().look("The doctor, the pilot.", "the Pilot waited")
    first = [("The", True), (" doctor, ", False), ("the", True), (" ", False), ("pilot", True), (".", False)]
    second = [("the", True), (" ", False), ("Pilot", True), (" waited", False)]
    assert found["texts"] == [([(*piece, "") for piece in pieces], 0) for pieces in (first, second)]
    assert found["overlap"] == {"inside": 2, "words": 3, "share": pytest.approx(2 / 3)}
    assert found["unknown"] == "", "classifiers without a tokenizer"


@given(st.text(), st.text(), st.sets(st.text(max_size=2)))
def test_the_pieces_are_the_text_and_their_number_is_the_share(text_a: str, text_b: str, unknown: set[str]) -> None:
    for text, other in ((text_a, text_b), (text_b, text_a)):
        pieces, left = marked(text, set(words(other)), {"B": unknown})
        assert "".join(piece for piece, _, _ in pieces) == text
        assert left == 0
        assert {piece for piece, _, letters in pieces if letters} <= unknown
    found = _overlap_of(text_a, text_b)
    assert found["words"] == len(words(text_b))
    if words(text_a) and words(text_b):
        assert found["share"] == pytest.approx(found["inside"] / found["words"])


def test_only_the_beginning_of_a_long_text_is_marked() -> None:
    assert marked("a b c d", {"a", "d"}, {}, most=2) == ([("a", True, ""), (" b ", False, "")], 2)


def test_words_that_a_tokenizer_does_not_know_are_marked(raw: Pretrained, engine: Engine) -> None:
    """A is a model with a closed vocabulary, B has none."""
    engine.execute([raw])
    view = _load_view([raw.key, Scripted(lambda a, b: (0.0, 1.0), raw.task.load().labels)], raw.task, engine)
    found = view.look("the doctor slept Zanzibar", "the doctor 🙂 slept")
    assert found["unknown"] == "A"
    letters = [{piece: letters for piece, _, letters in pieces if letters} for pieces, _ in found["texts"]]
    assert letters == [{"Zanzibar": "A"}, {"🙂": "A"}]
    assert view.look("the doctor slept", "the doctor slept")["unknown"] == ""


@pytest.mark.parametrize(("kind", "placeholder"), [("bert", True), ("gpt2", False)])
def test_a_tokenizer_without_a_placeholder_knows_every_word(kind: str, placeholder: bool) -> None:
    tokenizer = tokenizer_for(ARCHITECTURES[kind])
    model = in_memory(kind, tiny(kind), tokenizer)
    found = unknown_to(match(model, model.labels), "zanzibar 🙂")
    assert bool(found) == placeholder
    if placeholder:  # as of an ONNX folder, which has tokenizer.json alone
        file = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer.backend_tokenizer)
        assert file.unk_token_id is None
        assert unknown_to(match(in_memory(kind, tiny(kind), file), model.labels), "zanzibar 🙂") == found


# --- training rows -------------------------------------------------------------------------------------------------


def test_the_nearest_row_is_the_same_pair() -> None:
    task = nli_task()
    for training in (TrainingRows(task), TrainingRows(task, most=7)):
        row = training._train.take(np.array([5]))
        first, *others = training.nearest(row.text_a[0], row.text_b[0])
        assert (first["text_a"], first["text_b"], first["similarity"]) == (*row.text_a, *row.text_b, pytest.approx(1))
        assert first["similarity"] >= max(each["similarity"] for each in others)
        assert {each["label"] for each in others} <= set(NLI)
    assert len(training) == 7


def test_similarity_is_the_mean_cosine_of_both_texts() -> None:
    """Two words that are equally frequent have equal weights: one of two has a cosine of 1/sqrt(2)."""
    train = split_of([("x y", "z w"), ("u v", "s t")], [0, 1], "train")
    training = TrainingRows(replace(task_of(split_of([("a", "b")], [0])), train=train))
    (found,) = training.nearest("x unknown", "z w")
    assert found["similarity"] == pytest.approx((1 / np.sqrt(2) + 1) / 2, abs=1e-6), "unknown words are left out"
    assert found["label"] == "no"
    assert training.nearest("", "") == training.nearest("🙂 !!", "unheard") == [], "no shared word"


def test_what_would_be_printed_as_similarity_0_is_not_near() -> None:
    """A long text of rare words that shares one frequent word with every row."""
    train = split_of([(f"the word{row}", "") for row in range(50)], [0, 1] * 25, "train")
    training = TrainingRows(replace(task_of(split_of([("a", "")], [0])), train=train))
    assert training.nearest("the", "")[0]["similarity"] > 0.05
    rare = " ".join(f"word{row} word{row}" for row in range(50))
    assert all(each["similarity"] >= 0.005 for each in training.nearest(f"the {rare}", "", most=50))


# --- all rows ------------------------------------------------------------------------------------------------------


def test_disagreements_of_ood_sets_come_first_and_worst_first() -> None:
    rows = page_of().rows
    state = rows.state()
    assert state["done"] == state["total"] == 2 * (6 + 6)
    assert [(each["name"], each["disagreements"]) for each in state["splits"]] == [("hard", 5), ("dev", 0)]
    found = [rows.row(number) for number in range(5)]
    assert all(row is not None and row["split"] == "hard" and row["label"] == "non-entailment" for row in found)
    assert rows.row(5) is rows.row(0, "dev") is None


def test_all_rows_can_be_read_before_any_model_has_read_them() -> None:
    rows = page_of(compare=False).rows
    row = rows.row(6, all_rows=True)
    assert row is not None
    assert (row["split"], row["position"], row["total"], row["text_a"]) == ("dev", 6, 12, f"the {PEOPLE[0]} slept")
    assert rows.row(0) is rows.row(12, all_rows=True) is None


def test_a_comparison_that_fails_says_why() -> None:
    broken = Scripted(lambda a, b: (np.nan, 0.0, 0.0), NLI, "broken")
    assert "broken gives non-finite" in page_of(view_of(broken, Scripted(by_order, NLI))).rows.state()["failed"]


@given(st.lists(st.integers(0, 300), max_size=40), st.integers(1, 400))
def test_small_parts_hold_every_row_once_and_little_at_a_time(lengths: list[int], most: int) -> None:
    parts = list(_small_parts(np.array(lengths, dtype=np.int64), most))
    assert sorted(row for part in parts for row in part) == list(range(len(lengths)))
    assert all(len(part) == 1 or len(part) * max(lengths[row] for row in part) <= most for part in parts)
