"""A task as a value: what is refused, and what makes two tasks different."""

from __future__ import annotations

from dataclasses import replace

import pytest

from srnet.errors import UserError
from srnet.tasks.base import Example, Split, Task

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
