"""Metadata: columns beside the texts, which stay with their rows and change nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from srnet.tasks.files import FilesTask, metadata_columns, with_metadata
from srnet.tasks.reading import Nested
from srnet.tasks.sources import DataFile
from srnet.tasks.splits import Split, joined
from srnet.tasks.synthetic import SyntheticTask


def task(folder: Path, **changes: Any) -> FilesTask:
    """A cell of `source` names its row, whatever becomes of the row."""
    for name, count in (("train", 12), ("dev", 6)):
        rows = [f"{name} {n},{'yes' if n % 3 else 'no'},of {name} {n},{n}\n" for n in range(count)]
        (folder / f"{name}.csv").write_text("text,label,source,age\n" + "".join(rows))
    files = {"train": str(folder / "train.csv"), "dev": str(folder / "dev.csv")}
    return FilesTask("mine", ("no", "yes"), **{**files, "text_a": "text", "text_b": None, **changes})


def test_columns_are_read_only_where_they_are_wanted(tmp_path: Path) -> None:
    spec = task(tmp_path)
    assert spec.load().train.columns == {}
    named, every = with_metadata(spec, ("source",)).load(), with_metadata(spec).load()
    assert named.train.columns == {"source": tuple(f"of train {n}" for n in range(12))}
    assert every.dev.columns == {"source": tuple(f"of dev {n}" for n in range(6)), "age": tuple(map(str, range(6)))}
    assert spec.load().fingerprint == named.fingerprint == every.fingerprint
    assert metadata_columns(spec) == ("source", "age")


def test_pairs_are_always_kept(tmp_path: Path) -> None:
    spec = task(tmp_path)
    before = spec.load().fingerprint
    for name in ("train", "dev"):
        lines = (tmp_path / f"{name}.csv").read_text().splitlines()
        rows = [f"{line},{n // 2}" for n, line in enumerate(lines[1:])]
        (tmp_path / f"{name}.csv").write_text("\n".join([f"{lines[0]},pair", *rows]))
    loaded = spec.load()
    assert loaded.dev.columns == {"pair": ("0", "0", "1", "1", "2", "2")}
    assert (spec.metadata, loaded.fingerprint) == ((), before), "no key depends on it"
    assert set(with_metadata(spec).load().dev.columns) == {"source", "age", "pair"}
    assert replace(spec, metadata=("pair",)).load().dev.columns.keys() == {"pair"}


@pytest.mark.parametrize("changes", [{"text_a": "pair"}, {"text_b": "pair"}, {"label": "pair"}])
def test_a_text_or_a_label_is_no_pair(changes: dict[str, Any], tmp_path: Path) -> None:
    rows = "text,label,pair\none,no,yes\ntwo,yes,no\n"
    for name in ("train", "dev"):
        (tmp_path / f"{name}.csv").write_text(rows)
    files = {"train": str(tmp_path / "train.csv"), "dev": str(tmp_path / "dev.csv"), "leaks": "keep"}
    spec = FilesTask("mine", ("no", "yes"), **{"text_a": "text", "text_b": None, **files, **changes})
    assert spec.load().dev.columns == {}


def test_descriptions_with_metadata_already_stay_as_they_are(tmp_path: Path) -> None:
    spec = task(tmp_path, metadata=("source",))
    assert with_metadata(spec, ("source",)) is spec
    assert with_metadata(spec, ("age",)).metadata == ("source", "age")
    embedded = SyntheticTask(train_size=10, dev_size=5, ood_size=5)
    assert with_metadata(embedded) is embedded
    assert metadata_columns(embedded) == ()


@pytest.mark.parametrize(
    "changes",
    [{"rows": (("train", 5),)}, {"leaks": "drop", "ood": (("hard", "hard.csv"),)}, {"dev": "", "dev_share": 0.3}],
)
def test_cells_stay_with_their_rows(changes: dict[str, Any], tmp_path: Path) -> None:
    spec = task(tmp_path, **changes)
    (tmp_path / "hard.csv").write_text("text,label,source\ntrain 3,no,x\ntrain 4,no,y\n")
    loaded = with_metadata(spec.resolved(tmp_path), ("source",)).load()
    for split in (loaded.train, loaded.dev):
        assert split.columns["source"] == tuple(f"of {text}" for text in split.text_a)
    assert 0 < len(loaded.train) < 12


def test_ood_training_files_keep_the_columns_that_all_have(tmp_path: Path) -> None:
    first, second = tmp_path / "one.csv", tmp_path / "two.csv"
    first.write_text("text,label,source,age\nq,no,a,1\n")
    second.write_text("text,label,source\nr,yes,b\n")
    loaded = with_metadata(task(tmp_path, ood_train=(str(first), str(second)))).load()
    assert loaded.ood_train is not None
    assert loaded.ood_train.columns == {"source": ("a", "b")}


def test_rows_of_json_may_lack_a_column_and_hold_lists(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"text": "a", "label": "no"}, {"text": "b", "label": "yes", "tag": "x", "p": [0.5, 0.5]},
        {"text": "c", "label": "bad label", "tag": "left out"}, {"text": "d", "label": "no", "tag": None, "n": 3.0},
    ]  # fmt: skip
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    spec = task(tmp_path, train=str(path), bad_rows="skip", leaks="keep")
    columns = with_metadata(spec).load().train.columns
    assert columns == {"tag": ("", "x", ""), "p": ("", "[0.5, 0.5]", ""), "n": ("", "", "3")}
    assert type(columns["p"][1]) is Nested
    assert metadata_columns(spec) == ("tag", "p", "n")


@pytest.mark.parametrize("column", ["text", "label", "other", "given"])
def test_texts_and_labels_are_no_metadata(column: str, tmp_path: Path) -> None:
    spec = task(tmp_path, label="label|given", ood=(("hard", DataFile("hard.csv", text_a="other")),))
    with refused(f"'{column}'", "'mine'"):
        with_metadata(spec, (column,))


@pytest.mark.parametrize(
    ("changes", "shortcut"),
    [
        ({}, "words"),
        ({"text_b": "second"}, "overlap"),
        ({"shortcut": "source"}, "source"),
        ({"shortcut": ["length", "source"]}, ("length", "source")),
        ({"shortcut": "length,source"}, ("length", "source")),
        ({"shortcut": ("length",)}, "length"),
    ],
)
def test_the_shortcut_fits_the_data(changes: dict[str, Any], shortcut: Any, tmp_path: Path) -> None:
    assert task(tmp_path, **changes).presumed_shortcut == shortcut
    if "text_b" not in changes:
        assert task(tmp_path, **changes).load().shortcut == shortcut


def test_files_of_a_shortcut_have_absolute_paths(tmp_path: Path) -> None:
    spec = task(tmp_path, shortcut=("scores:s.npz", "scores:p", "length")).resolved(tmp_path)
    assert spec.shortcut == (f"scores:{tmp_path / 's.npz'}", "scores:p", "length")


@st.composite
def splits(draw: st.DrawFn) -> Split:
    """Every column names the row, so that a cell in another row is noticed."""
    name, count = draw(st.sampled_from("abc")), draw(st.integers(1, 12))
    ids = tuple(f"{name}{n}" for n in range(count))
    columns = {column: tuple(f"{column} {id}" for id in ids) for column in draw(st.sets(st.sampled_from("xyz")))}
    return Split(name, "ID", ids, ids, ids, np.arange(count), ids, None, columns)


def aligned(split: Split) -> None:
    assert split.text_a == split.text_b == split.groups == split.ids
    for column, cells in split.columns.items():
        assert cells == tuple(f"{column} {id}" for id in split.ids)


@given(splits(), st.data())
def test_taken_and_sampled_rows_keep_their_cells(split: Split, data: st.DataObject) -> None:
    rows = np.array(data.draw(st.lists(st.integers(0, len(split) - 1), max_size=20)), dtype=np.int64)
    taken = split.take(rows)
    aligned(taken)
    assert taken.columns.keys() == split.columns.keys()
    assert taken.ids == tuple(split.ids[row] for row in rows)
    aligned(split.sample(data.draw(st.integers(1, 20))))


@given(st.lists(splits(), min_size=1, max_size=3))
def test_joined_rows_keep_the_columns_that_all_have(parts: list[Split]) -> None:
    whole = joined(parts)
    aligned(whole)
    assert whole.ids == tuple(id for part in parts for id in part.ids)
    assert whole.columns.keys() == set.intersection(*(set(part.columns) for part in parts))
