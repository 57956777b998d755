"""A task as a value: what is refused, and what makes two tasks different."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from srnet.core.errors import UserError
from srnet.tasks.answers.classes import CLASSES
from srnet.tasks.answers.numbers import NUMBERS
from srnet.tasks.base import Task
from srnet.tasks.splits import Coarse, Example, Split, joined

ROWS = (Example("1", "a", "b", 0), Example("2", "c", "d", 1))


def task(train: tuple[Example, ...] = ROWS, dev: tuple[Example, ...] = ROWS) -> Task:
    ood = {"challenge": Split.of("challenge", "OOD", ROWS)}
    return Task(
        name="toy",
        labels=("no", "yes"),
        metric="accuracy",
        shortcut="overlap",
        train=Split.of("train", "ID", train),
        dev=Split.of("dev", "ID", dev),
        ood=ood,
        ood_train=Split.of("ood_train", "OOD", ROWS),
    )


@pytest.mark.parametrize("label", [2, -1])
def test_labels_out_of_range(label: int) -> None:
    wrong = (ROWS[0], replace(ROWS[1], label=label))
    with pytest.raises(UserError, match="split 'dev' holds label"):
        task(dev=wrong)


def test_repeated_ids() -> None:
    # bias predictions are found by id, so two examples must not share one
    with pytest.raises(UserError, match="repeats an example id"):
        task(train=(ROWS[0], replace(ROWS[1], id="1")))


def test_empty_split() -> None:
    with pytest.raises(UserError, match="split 'dev' has no examples"):
        task(dev=())


def test_splits_and_what_is_scored() -> None:
    assert set(task().splits) == {"train", "dev", "challenge", "ood_train"}
    assert task().scored == ("dev", "challenge"), "OOD training data is no test set"


@pytest.mark.parametrize(
    "changed",
    [{"label": 1}, {"text_a": "x"}, {"text_b": "x"}, {"id": "x"}, {"group": "x"}],
    ids=lambda change: next(iter(change)),
)
def test_any_change_to_an_example_changes_the_fingerprint(changed: dict[str, object]) -> None:
    rows = (replace(ROWS[0], **changed), ROWS[1])  # type: ignore[arg-type]
    assert task(train=rows).fingerprint != task().fingerprint
    assert task(dev=rows).fingerprint != task().fingerprint


def test_the_fingerprint_is_of_content_and_order() -> None:
    assert task().fingerprint == task().fingerprint
    assert task(train=ROWS[::-1]).fingerprint != task().fingerprint, "the order of examples decides the batches"
    assert task(train=ROWS[:1]).fingerprint != task().fingerprint


@pytest.mark.parametrize(
    "changed",
    [{"name": "x"}, {"labels": ("a", "b")}, {"metric": "f1"}],
    ids=lambda change: next(iter(change)),
)
def test_any_change_to_the_task_changes_the_fingerprint(changed: dict[str, object]) -> None:
    assert replace(task(), **changed).fingerprint != task().fingerprint  # type: ignore[arg-type]


def test_what_one_suspects_does_not_change_the_fingerprint() -> None:
    assert replace(task(), shortcut="claim").fingerprint == task().fingerprint


def test_moving_a_word_between_the_texts_changes_the_fingerprint() -> None:
    # a digest of joined strings would not see the border between two fields
    first, second = (Example("1", "ab", "c", 0),), (Example("1", "a", "bc", 0),)
    assert task(train=first).fingerprint != task(train=second).fingerprint


# --- answers that are no classes -----------------------------------------------------------------------------------


SCORED = (Example("1", "a", "b", 2.5), Example("2", "c", "d", 4))


def scores(rows: tuple[Example, ...] = SCORED, **changes: object) -> Task:
    train, dev = Split.of("train", "ID", rows), Split.of("dev", "ID", rows)
    given = {"labels": ("score",), "metric": "pearson", "answer": "score", "ood": {}, **changes}
    return Task("toy", shortcut="unknown", train=train, dev=dev, **given)  # type: ignore[arg-type]


def spans(**changes: object) -> Task:
    train, dev = (
        replace(Split.of(name, "ID", ROWS), labels=np.array([[0, 1], [3, 5]]))  # type: ignore[arg-type]
        for name in ("train", "dev")
    )
    given = {"labels": ("start", "end"), "metric": "span_f1", "answer": "span", "ood": {}, **changes}
    return Task("toy", shortcut="unknown", train=train, dev=dev, **given)  # type: ignore[arg-type]


def test_one_number_with_a_point_makes_scores() -> None:
    assert scores().train.labels.tolist() == [2.5, 4.0]
    assert scores().train.labels.dtype == np.float64
    assert task().train.labels.dtype == np.int64


def test_the_answer_to_a_score_is_the_model_s_only_output() -> None:
    assert NUMBERS.decode(scores().dev, np.array([[0.5], [7.0]])).tolist() == [0.5, 7.0]
    assert CLASSES.decode(task().dev, np.array([[0.5, 0.1], [7.0, 8.0]])).tolist() == [0, 1]


def test_a_part_of_scores_is_scores() -> None:
    part = scores().train.take(np.array([1]))
    assert part.labels.dtype == np.float64
    assert NUMBERS.decode(part, np.array([[3.0]])).tolist() == [3.0]


def test_the_kind_of_answer_is_in_the_fingerprint_only_where_it_is_unusual() -> None:
    # results that were stored before there were other answers keep their keys
    assert task().fingerprint == "149352fc9d0b8b598fc4afc9244f895601a6fb06af208dbab1b7a95234bd1149"
    assert scores().fingerprint == "3e1fb7d3177ba34f48edcd90c6717d9c5d28ea450a49c7620cd253986293f99a"
    assert replace(scores(), metric="spearman").fingerprint != scores().fingerprint


def test_the_words_for_labels_change_no_data() -> None:
    assert replace(task(), label_words=("No", "Yes")).fingerprint == task().fingerprint


@pytest.mark.parametrize(
    "words", [("Yes",), ("Yes", "No", "Maybe"), ("Yes", "Yes"), ("Yes", " ")], ids=lambda words: "-".join(words)
)
def test_every_label_needs_a_word_of_its_own(words: tuple[str, ...]) -> None:
    with pytest.raises(UserError, match="give one word per label"):
        replace(task(), label_words=words)


@pytest.mark.parametrize(
    ("make", "metric", "says"),
    [
        (task, "pearson", "metric 'pearson' does not fit classes; choose one of: accuracy, f1, matthews, positive_f1"),
        (task, "exact_match", "does not fit classes"),
        (scores, "accuracy", "metric 'accuracy' does not fit scores; choose one of: pearson, spearman"),
        (spans, "f1", "metric 'f1' does not fit spans; choose one of: exact_match, span_f1"),
        (scores, "rmse", "metric 'rmse' is unknown; choose one of: pearson, spearman"),
    ],
    ids=["class", "class-span", "score", "span", "unknown"],
)
def test_a_metric_that_does_not_fit(make: object, metric: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        replace(make(), metric=metric)  # type: ignore[operator]


def test_the_f1_of_class_1_is_for_two_classes() -> None:
    assert replace(task(), metric="positive_f1").metric == "positive_f1"
    with pytest.raises(UserError, match="metric 'positive_f1' is for 2 labels, not 3; choose one of: accuracy, f1"):
        replace(task(), metric="positive_f1", labels=("no", "yes", "maybe"))


@pytest.mark.parametrize("value", [float("nan"), float("inf")], ids=str)
def test_a_score_that_is_no_number(value: float) -> None:
    with pytest.raises(UserError, match="holds a non-finite score"):
        scores((SCORED[0], replace(SCORED[1], label=value)))


@pytest.mark.parametrize(
    ("answer", "labels", "says"),
    [
        ("class", ("no", "yes"), "split 'train' does not hold classes"),
        ("span", ("start", "end"), "split 'train' does not hold spans"),
        ("score", ("a", "b"), r"labels of scores are \('score',\), not \('a', 'b'\)"),
    ],
    ids=["class", "span", "labels"],
)
def test_labels_that_do_not_fit_the_answer(answer: str, labels: tuple[str, ...], says: str) -> None:
    with pytest.raises(UserError, match=says):
        scores(answer=answer, labels=labels)


def test_coarser_classes_are_for_classes() -> None:
    challenge = replace(Split.of("hard", "OOD", SCORED), coarse=Coarse(("x",), (0,)))
    with pytest.raises(UserError, match="coarser classes are for classes, not scores"):
        scores(ood={"hard": challenge})


def test_what_needs_classes_says_so() -> None:
    task().need_classes("a bias model")
    with pytest.raises(UserError, match="a bias model needs a task with classes; 'toy' has scores"):
        scores().need_classes("a bias model")
    with pytest.raises(UserError, match="has spans"):
        spans().need_classes("a bias model")


class Passages(Split):
    """As a task with spans has them."""


def test_one_split_stays_what_it_is() -> None:
    train = Passages(**vars(spans().train))
    assert joined((train,)) is train
    with pytest.raises(UserError, match="such rows cannot be joined"):
        joined((train, train))
