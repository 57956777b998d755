"""What a training sees: the ID training data, and the OOD training data where somebody asks for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from srnet.core.errors import UserError
from srnet.recipes.tasks import load_task_file, task_from
from srnet.tasks.base import Task
from srnet.tasks.files import FilesTask
from srnet.tasks.splits import Example, Split, joined


def split_of(name: str, size: int) -> Split:
    rows = [Example(f"{name}-{n}", f"a {n}", f"b {n}", n % 2, f"g {n % 3}") for n in range(size)]
    return Split.of(name, "ID" if name == "train" else "OOD", rows)


def rows(split: Split) -> list[tuple[object, ...]]:
    return list(zip(split.ids, split.text_a, split.text_b, split.labels.tolist(), split.groups, strict=True))


def task(copies: int = 1, extra: Split | None = None) -> Task:
    dev = Split.of("dev", "ID", [Example("d", "a", "b", 0)])
    return Task("t", ("no", "yes"), "accuracy", "overlap", split_of("train", 5), dev, {}, extra, copies)


# --- a sample ------------------------------------------------------------------------------------------------------


@given(st.integers(1, 60), st.integers(1, 80))
def test_a_sample_is_a_bounded_subset_in_the_same_order(size: int, wanted: int) -> None:
    split = split_of("ood", size)
    sample = split.sample(wanted)
    assert len(sample) == len(set(sample.ids)) == min(size, wanted)
    positions = [split.ids.index(id) for id in sample.ids]
    assert positions == sorted(positions)
    assert rows(sample) == [rows(split)[position] for position in positions]
    assert (sample.name, sample.kind) == (split.name, split.kind)


def test_a_sample_is_always_the_same_one() -> None:
    split = split_of("ood", 100)
    first = split.sample(10)
    np.random.seed(3)
    assert split.sample(10).ids == first.ids == split_of("ood", 100).sample(10).ids


def test_a_sample_is_drawn_from_the_whole_split() -> None:
    # rows of a file are often sorted by label: the first ones would say nothing
    positions = [int(id.split("-")[1]) for id in split_of("ood", 1000).sample(100).ids]
    assert np.histogram(positions, bins=10, range=(0, 1000))[0].min() >= 3


def test_a_sample_of_everything_is_everything() -> None:
    split = split_of("ood", 7)
    assert split.sample(7).fingerprint() == split.sample(99).fingerprint() == split.fingerprint()


# --- several splits as one -----------------------------------------------------------------------------------------


def test_joined_splits_keep_their_rows_and_order() -> None:
    train, ood = split_of("train", 3), split_of("ood", 2)
    one = joined((train, ood, ood))
    assert rows(one) == rows(train) + rows(ood) + rows(ood)
    assert (one.name, one.kind, len(one)) == ("train", "ID", 7)
    assert joined((train,)).fingerprint() == train.fingerprint()


def test_what_a_training_sees() -> None:
    extra = split_of("ood_train", 2)
    assert [split.name for split in task(3, extra).training_data("id")] == ["train"]
    assert [split.name for split in task(1, extra).training_data("id+ood")] == ["train", "ood_train"]
    assert [split.name for split in task(3, extra).training_data("id+ood")] == ["train"] + 3 * ["ood_train"]
    with pytest.raises(UserError, match="task 't' has no OOD training data; give it an ood_train split"):
        task().training_data("id+ood")


def test_copies_count_and_cannot_be_none() -> None:
    extra = split_of("ood_train", 2)
    assert task(1, extra).fingerprint != task(2, extra).fingerprint
    assert task(1, extra).fingerprint != task(1, split_of("ood_train", 3)).fingerprint
    for copies in (0, -1):
        with refused("ood_copies", copies):
            task(copies, extra)


def test_repeated_ids() -> None:
    # bias predictions are found by id here too, so two examples must not share one
    twice = Split.of("ood_train", "OOD", [Example("1", "a", "b", 0), Example("1", "c", "d", 1)])
    with pytest.raises(UserError, match="repeats an example id"):
        task(1, twice)


# --- from files ----------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> FilesTask:
    for name, row in (("train", "the cat,a cat,yes"), ("dev", "the dog,a cat,no"), ("extra", "a bird,the bird,no")):
        (tmp_path / f"{name}.csv").write_text(f"text_a,text_b,label\n{row}\nx,y,yes\n")
    return FilesTask("mine", ("no", "yes"), *(str(tmp_path / f"{name}.csv") for name in ("train", "dev")))


def test_a_file_of_ood_training_data(files: FilesTask, tmp_path: Path) -> None:
    loaded = replace(files, ood_train=str(tmp_path / "extra.csv"), ood_copies=2).load()
    assert loaded.ood_train is not None
    assert rows(loaded.ood_train) == [
        ("ood_train-0", "a bird", "the bird", 0, ""),
        ("ood_train-1", "x", "y", 1, ""),
    ]
    assert loaded.ood_train.kind == "OOD"
    assert len(joined(loaded.training_data("id+ood"))) == 2 + 2 * 2
    assert loaded.scored == ("dev",), "it is no test set"


def test_without_one_there_is_none(files: FilesTask) -> None:
    assert files.load().ood_train is None
    assert set(files.load().splits) == {"train", "dev"}


def test_a_missing_file_is_named(files: FilesTask, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nope\.csv does not exist"):
        replace(files, ood_train=str(tmp_path / "nope.csv")).load()


def test_an_ood_test_file_cannot_take_its_name(files: FilesTask) -> None:
    with pytest.raises(UserError, match="cannot be called 'ood_train'"):
        replace(files, ood=(("ood_train", files.dev),))


def test_in_yaml_its_path_starts_from_the_folder(files: FilesTask, tmp_path: Path) -> None:
    path = tmp_path / "task.yaml"
    path.write_text(
        '{name: mine, labels: ["no", "yes"], train: train.csv, dev: dev.csv, ood_train: ./extra.csv, ood_copies: 3}'
    )
    assert load_task_file(path) == replace(files, ood_train=str(tmp_path / "extra.csv"), ood_copies=3)
    values = {"name": "mine", "labels": ["no", "yes"], "train": "t.csv", "dev": "d.csv", "ood_train": "/data/o.csv"}
    made = task_from(values, "here", tmp_path)
    assert isinstance(made, FilesTask)
    assert (made.ood_train, made.ood_copies) == ("/data/o.csv", 1)
    with pytest.raises(UserError, match=r"ood_copies.*whole number"):
        task_from({**values, "ood_copies": 1.5}, "here", tmp_path)
