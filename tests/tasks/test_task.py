"""A task as a value: what is refused, what makes two tasks different, and which rows a training gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from srnet.tasks.answers.classes import CLASSES
from srnet.tasks.answers.numbers import NUMBERS
from srnet.tasks.base import Task
from srnet.tasks.splits import Coarse, Example, Split, joined

ROWS = (Example("1", "a", "b", 0), Example("2", "c", "d", 1))
SCORED = (Example("1", "a", "b", 2.5), Example("2", "c", "d", 4))


def task(train: tuple[Example, ...] = ROWS, dev: tuple[Example, ...] = ROWS, **changes: Any) -> Task:
    splits = {"train": Split.of("train", "ID", train), "dev": Split.of("dev", "ID", dev)}
    extra = {"ood": {"challenge": Split.of("challenge", "OOD", ROWS)}, "ood_train": Split.of("ood_train", "OOD", ROWS)}
    given = {"labels": ("no", "yes"), "metric": "accuracy", "shortcut": "overlap", **splits, **extra, **changes}
    return Task("toy", **given)


def scores(rows: tuple[Example, ...] = SCORED, **changes: Any) -> Task:
    given = {"labels": ("score",), "metric": "pearson", "answer": "score", "shortcut": "unknown"}
    return task(rows, rows, **{**given, "ood": {}, "ood_train": None, **changes})


def spans(**changes: Any) -> Task:
    labels = np.array([[0, 1], [3, 5]])
    train, dev = (replace(Split.of(name, "ID", ROWS), labels=labels) for name in ("train", "dev"))
    given = {"labels": ("start", "end"), "metric": "span_f1", "answer": "span", "ood": {}, **changes}
    return Task("toy", shortcut="unknown", train=train, dev=dev, **given)


def test_splits_and_what_is_scored() -> None:
    assert set(task().splits) == {"train", "dev", "challenge", "ood_train"}
    assert task().scored == ("dev", "challenge"), "OOD training data is no test set"


TWICE = (ROWS[0], replace(ROWS[1], id="1"))
COARSE = replace(Split.of("hard", "OOD", SCORED), coarse=Coarse(("x",), (0,)))


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: task(dev=(ROWS[0], replace(ROWS[1], label=2))), ("'dev'", "label 2")),
        (lambda: task(dev=(ROWS[0], replace(ROWS[1], label=-1))), ("'dev'", "label -1")),
        (lambda: task(dev=()), ("'dev'",)),
        # bias predictions are found by id, so two training examples must not share one
        (lambda: task(train=TWICE), ("train", "id")),
        (lambda: task(ood_train=Split.of("ood_train", "OOD", TWICE)), ("ood_train", "id")),
        (lambda: task(ood_copies=0), ("ood_copies", 0)),
        (lambda: task(ood_copies=-1), ("ood_copies", -1)),
        (lambda: task(label_words=("Yes",)), ("label_words", "['Yes']")),
        (lambda: task(label_words=("Yes", "No", "Maybe")), ("label_words",)),
        (lambda: task(label_words=("Yes", "Yes")), ("label_words",)),
        (lambda: task(label_words=("Yes", " ")), ("label_words",)),
        (lambda: task(metric="pearson"), ("'pearson'", "classes", "accuracy, f1, matthews, positive_f1")),
        (lambda: task(metric="exact_match"), ("'exact_match'", "classes")),
        (lambda: task(metric="positive_f1", labels=("no", "yes", "maybe")), ("'positive_f1'", 2, 3)),
        (lambda: scores(metric="accuracy"), ("'accuracy'", "scores", "pearson, spearman")),
        (lambda: scores(metric="rmse"), ("'rmse'", "unknown")),
        (lambda: spans(metric="f1"), ("'f1'", "spans", "exact_match, span_f1")),
        (lambda: scores((SCORED[0], replace(SCORED[1], label=float("nan")))), ("non-finite",)),
        (lambda: scores((SCORED[0], replace(SCORED[1], label=float("inf")))), ("non-finite",)),
        (lambda: scores(answer="class", labels=("no", "yes")), ("'train'", "classes")),
        (lambda: scores(answer="span", labels=("start", "end")), ("'train'", "spans")),
        (lambda: scores(labels=("a", "b")), ("('score',)", "('a', 'b')")),
        (lambda: scores(ood={"hard": COARSE}), ("coarser classes", "scores")),
        (lambda: scores().need_classes("a bias model"), ("a bias model", "'toy'", "scores")),
        (lambda: spans().need_classes("a bias model"), ("spans",)),
        (lambda: task(ood_train=None).training_data("id+ood"), ("'toy'", "ood_train")),
    ],
)
def test_what_is_refused(make: Callable[[], object], named: tuple[object, ...]) -> None:
    with refused(*named):
        make()


def test_what_is_not_refused() -> None:
    task().need_classes("a bias model")
    assert task(metric="positive_f1").metric == "positive_f1"


# --- the fingerprint -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changed", [{"label": 1}, {"text_a": "x"}, {"text_b": "x"}, {"id": "x"}, {"group": "x"}])
def test_any_change_to_an_example_changes_the_fingerprint(changed: dict[str, Any]) -> None:
    rows = (replace(ROWS[0], **changed), ROWS[1])
    assert task(train=rows).fingerprint != task().fingerprint
    assert task(dev=rows).fingerprint != task().fingerprint


def test_what_else_changes_the_fingerprint() -> None:
    changes: list[dict[str, Any]] = [{"labels": ("a", "b")}, {"metric": "f1"}, {"ood_copies": 2}, {"ood_train": None}]
    # the order of examples decides the batches; a digest of joined strings would not see the border between two texts
    changes += [{"train": rows} for rows in (ROWS[::-1], ROWS[:1], (Example("1", "ab", "c", 0),))]
    changes += [{"train": (Example("1", "a", "bc", 0),)}]
    found = {task(**change).fingerprint for change in changes}
    assert len(found | {task().fingerprint, replace(task(), name="x").fingerprint}) == len(changes) + 2
    assert scores(metric="spearman").fingerprint != scores().fingerprint


def test_the_presumed_shortcut_and_label_words_change_no_data() -> None:
    assert task(shortcut="claim").fingerprint == task(label_words=("No", "Yes")).fingerprint == task().fingerprint


def test_fingerprints_stay_what_they_were() -> None:
    # results that were stored before there were other answers keep their keys
    assert task().fingerprint == "149352fc9d0b8b598fc4afc9244f895601a6fb06af208dbab1b7a95234bd1149"
    assert scores().fingerprint == "3e1fb7d3177ba34f48edcd90c6717d9c5d28ea450a49c7620cd253986293f99a"


# --- scores --------------------------------------------------------------------------------------------------------


def test_one_number_with_a_point_makes_scores() -> None:
    assert scores().train.labels.tolist() == [2.5, 4.0]
    assert task().train.labels.dtype == np.int64
    part = scores().train.take(np.array([1]))
    assert part.labels.dtype == np.float64
    assert NUMBERS.decode(part, np.array([[3.0]])).tolist() == [3.0]


def test_the_answer_to_a_score_is_the_model_s_only_output() -> None:
    assert NUMBERS.decode(scores().dev, np.array([[0.5], [7.0]])).tolist() == [0.5, 7.0]
    assert CLASSES.decode(task().dev, np.array([[0.5, 0.1], [7.0, 8.0]])).tolist() == [0, 1]


# --- samples and joined splits -------------------------------------------------------------------------------------


def split_of(name: str, size: int) -> Split:
    rows = [Example(f"{name}-{n}", f"a {n}", f"b {n}", n % 2, f"g {n % 3}") for n in range(size)]
    return Split.of(name, "ID" if name == "train" else "OOD", rows)


def rows_of(split: Split) -> list[tuple[object, ...]]:
    return list(zip(split.ids, split.text_a, split.text_b, split.labels.tolist(), split.groups, strict=True))


@given(st.integers(1, 60), st.integers(1, 80))
def test_a_sample_is_a_bounded_subset_in_the_same_order(size: int, wanted: int) -> None:
    split = split_of("ood", size)
    sample = split.sample(wanted)
    assert len(sample) == len(set(sample.ids)) == min(size, wanted)
    positions = [split.ids.index(id) for id in sample.ids]
    assert positions == sorted(positions)
    assert rows_of(sample) == [rows_of(split)[position] for position in positions]
    assert (sample.name, sample.kind) == (split.name, split.kind)


def test_a_sample_is_always_the_same_and_of_the_whole_split() -> None:
    sample = split_of("ood", 1000).sample(100)
    np.random.seed(3)
    assert split_of("ood", 1000).sample(100).ids == sample.ids
    # rows of a file are often sorted by label, so that the first ones are no sample
    positions = [int(id.split("-")[1]) for id in sample.ids]
    assert np.histogram(positions, bins=10, range=(0, 1000))[0].min() >= 3


def test_joined_splits_keep_their_rows_and_order() -> None:
    train, ood = split_of("train", 3), split_of("ood", 2)
    one = joined((train, ood, ood))
    assert rows_of(one) == rows_of(train) + rows_of(ood) + rows_of(ood)
    assert (one.name, one.kind, len(one)) == ("train", "ID", 7)
    assert joined((train,)) is train


class Passages(Split):
    """A split with more than the columns of every split."""


def test_splits_of_another_type_cannot_be_joined() -> None:
    train = Passages(**vars(spans().train))
    assert joined((train,)) is train
    with refused("train", "joined"):
        joined((train, train))


def test_the_training_data() -> None:
    for copies, data, names in ((3, "id", ["train"]), (3, "id+ood", ["train", *["ood_train"] * 3])):
        assert [split.name for split in task(ood_copies=copies).training_data(data)] == names  # type: ignore[arg-type]
