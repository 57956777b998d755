"""Dev rows that are split off: by label, always the same, and without texts that are trained on."""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from small_files import many, spec

from srnet.tasks.check import check_data
from srnet.tasks.files import FilesTask
from srnet.tasks.holdout import MOST_ROWS, split_off
from srnet.tasks.layout import SplitFile
from srnet.tasks.leaks import TextKeys
from srnet.tasks.splits import Example, Split

Rows = list[tuple[int, int, int]]


def split_of(rows: Rows) -> SplitFile:
    """A split of (first text, second text, label); a second text 0 is none."""
    texts = [(f"first {a}", f"second {b}" if b else "", label) for a, b, label in rows]
    examples = [Example(f"train-{n}", a, b, label) for n, (a, b, label) in enumerate(texts)]
    return SplitFile("train.csv", Split.of("train", "ID", examples))


def parts(rows: Rows, share: float = 0.2) -> tuple[Split, Split, str]:
    file = split_of(rows)
    train, dev = split_off(file, share, file.split.labels)
    return train.split, dev.split, dev.origin


def pairs(split: Split) -> list[tuple[str, str, int]]:
    return list(zip(split.text_a, split.text_b, split.labels.tolist(), strict=True))


ALONE = [(100 + n, 100 + n, n % 3) for n in range(60)]
"""Rows that share nothing, so that something can be split off."""
ROWS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(0, 2)), max_size=150).map(ALONE.__add__)


@given(ROWS, st.floats(0.05, 0.5))
def test_every_row_is_in_one_part_and_equal_rows_are_together(rows: Rows, share: float) -> None:
    whole = split_of(rows).split
    train, dev, _ = parts(rows, share)
    assert Counter(pairs(train)) + Counter(pairs(dev)) == Counter(pairs(whole))
    assert not {row[:2] for row in pairs(train)} & {row[:2] for row in pairs(dev)}
    assert 1 <= len(dev) <= max(share * len(whole) + 1, 3)
    assert (dev.name, len(set(dev.ids))) == ("dev", len(dev))


@given(ROWS)
def test_what_the_note_says_stays_together(rows: Rows) -> None:
    train, dev, note = parts(rows)
    firsts = set(train.text_a) & set(dev.text_a)
    seconds = (set(train.text_b) & set(dev.text_b)) - {""}
    assert not firsts or "equal rows" in note
    assert not seconds or "equal rows" in note or "same first text" in note


def test_labels_keep_their_shares() -> None:
    train, dev, note = parts([(n, 0, int(n % 10 < 3)) for n in range(1000)])
    assert Counter(dev.labels.tolist()) == {0: 140, 1: 60}
    assert Counter(train.labels.tolist()) == {0: 560, 1: 240}
    assert "200 of the 1,000 rows" in note


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30)), min_size=1, max_size=80))
def test_rows_of_a_pair_stay_together_although_their_texts_differ(rows: list[tuple[int, int]]) -> None:
    """An original and its revision: a model that was trained on one of them knows much of the other."""
    some = [(1000 + n, 0, n % 2) for n, _ in enumerate(rows)] + ALONE
    names = [str(pair) if pair < 20 else " " for _, pair in rows] + [""] * len(ALONE)  # from 20 on they have no pair
    file = split_of(some)
    file = replace(file, split=replace(file.split, columns={"pair": tuple(names)}))
    train, dev = split_off(file, 0.3, file.split.labels)
    assert not set(filter(str.strip, train.split.columns["pair"])) & set(filter(str.strip, dev.split.columns["pair"]))
    assert "and pairs" in dev.origin
    assert len(train.split) + len(dev.split) == len(some)


def test_premises_stay_together_and_a_frequent_hypothesis_does_not_join_all() -> None:
    rows = [(n // 3, n % 2 and n, n % 3) for n in range(300)]  # every other hypothesis is the same
    train, dev, note = parts([(a, b or 7, label) for a, b, label in rows])
    assert "same first text" in note
    assert not set(train.text_a) & set(dev.text_a)
    assert len(dev) > 40


def test_a_text_that_is_first_in_one_row_and_second_in_another() -> None:
    chain = [("a", "b"), ("c", "b"), ("c", "d")]
    examples = [Example(f"c{n}", *pair, n % 2) for n, pair in enumerate(chain)]
    examples += [Example(f"x{n}", f"one {n}", f"two {n}", n % 2) for n in range(97)]
    file = SplitFile("t.csv", Split.of("train", "ID", examples))
    for share in (0.2, 0.3, 0.4, 0.5):
        _, dev = split_off(file, share, file.split.labels)
        in_dev = [text in dev.split.text_a or text in dev.split.text_b for text in "abcd"]
        assert len(set(in_dev)) == 1, "all or none"


def test_at_most_so_many_rows() -> None:
    _, dev, _ = parts([(n, 0, n % 2) for n in range(30_000)])
    assert len(dev) == MOST_ROWS


def test_a_label_with_one_row_is_trained_on() -> None:
    train, dev, _ = parts([(n, 0, 2 if n == 5 else n % 2) for n in range(50)])
    assert 2 in train.labels
    assert 2 not in dev.labels


def test_it_does_not_depend_on_the_hashes_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(n % 90, n % 70, n % 2) for n in range(300)]
    before = pairs(parts(rows)[1])
    monkeypatch.setattr("srnet.tasks.leaks.hash", lambda text: zlib.crc32(text), raising=False)
    assert TextKeys.of(split_of(rows).split).first.max() < 2**32
    assert pairs(parts(rows)[1]) == before


def test_too_few_rows() -> None:
    with refused("train.csv", "9 rows", "--dev"):
        parts([(n, 0, n % 2) for n in range(9)])
    with refused("train.csv", "--dev"):
        parts([(1, 1, n % 2) for n in range(50)])


# --- as a task -----------------------------------------------------------------------------------------------------


def test_a_task_without_a_dev_file(tmp_path: Path) -> None:
    alone = replace(spec(tmp_path, many("row", 100)), dev="")
    task = alone.load()
    assert (len(task.train), len(task.dev)) == (80, 20)
    assert not set(task.train.text_a) & set(task.dev.text_a)
    assert [note for note in task.notes if note.startswith("dev: 20 of the 100 rows")]
    assert task.fingerprint == alone.load().fingerprint
    assert len(replace(alone, dev_share=0.5).load().dev) == 50
    found = check_data(alone)
    assert [(split.name, split.rows) for split in found.splits] == [("train", 80), ("dev", 20)]
    assert found.fingerprint == task.fingerprint


def test_scores_are_split_by_their_size(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("text_a,label\n" + "".join(f"text {n},{n}\n" for n in range(100)))
    task = FilesTask("s", train=str(path), answer="score", metric="pearson", text_b=None).load()
    assert np.histogram(task.dev.labels, bins=5, range=(0, 100))[0].tolist() == [4] * 5
