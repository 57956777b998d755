"""Rows of a test set that are also in train: found, refused, dropped or noted. A million rows are checked in 1 GiB."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from small_files import LEAKING, TRAIN, many, spec, tsv

from srnet.tasks.check import check_data
from srnet.tasks.leaks import Shared, TextKeys
from srnet.tasks.splits import Example, Split


def test_leaks_are_refused_and_the_fix_is_named(tmp_path: Path) -> None:
    with refused("2 of 10 rows of 'dev'", "leaks: drop", "--leaks drop", "leaks: keep"):
        spec(tmp_path, dev=LEAKING).load()
    assert check_data(spec(tmp_path, dev=LEAKING)).splits[1].in_train == 2


def test_dropping_leaks_drops_exactly_those_rows(tmp_path: Path) -> None:
    task = spec(tmp_path, dev=LEAKING, leaks="drop").load()
    assert task.train.text_a == ("A dog ran.", "a DOG ran")
    assert task.train.labels.tolist() == [1, 0]
    assert len(task.dev) == 10
    assert task.notes == ("train: 2 rows that are also in a test set were not trained on",)


def test_every_copy_of_a_leaked_row_is_dropped(tmp_path: Path) -> None:
    task = spec(tmp_path, dev=[("a dog ran", "It: ran", "yes")], leaks="drop").load()
    assert task.train.text_a == ("A cat sat.", "He sat down on a chair.")


def test_leaks_that_are_kept_are_noted(tmp_path: Path) -> None:
    task = spec(tmp_path, dev=LEAKING, leaks="keep").load()
    assert len(task.train) == 4
    assert task.notes == ("dev: 2 of 10 rows are also in train",)


def test_one_row_in_a_hundred_is_kept_with_a_note(tmp_path: Path) -> None:
    train = many("train", 50)
    allowed = spec(tmp_path, train, [*many("dev", 198), *train[:2]]).load()
    assert allowed.notes == ("dev: 2 of 200 rows are also in train",)
    with refused("3 of 200 rows of 'dev'"):
        spec(tmp_path, train, [*many("dev", 197), *train[:3]]).load()


def test_a_small_test_set_does_not_hide_the_leaks_of_a_large_one(tmp_path: Path) -> None:
    train = many("train", 50)
    small = tsv(tmp_path / "small.tsv", [*many("small", 9), train[0]])  # one row is let pass, though it is 10 %
    large = tsv(tmp_path / "large.tsv", [*many("large", 950), *train])
    with refused("50 of 1,000 rows of 'large'"):
        spec(tmp_path, train, ood=(("small", small), ("large", large))).load()


def test_ood_training_data_must_not_leak_either(tmp_path: Path) -> None:
    rows = many("ood", 10)
    challenge, extra = tsv(tmp_path / "ood.tsv", rows), tsv(tmp_path / "extra.tsv", [*many("extra", 5), *rows[:4]])
    task = spec(tmp_path, ood=(("challenge", challenge),), ood_train=extra)
    with refused("4 of 10 rows of 'challenge'", "ood_train"):
        task.load()
    loaded = replace(task, leaks="drop").load()
    assert loaded.ood_train is not None
    assert loaded.ood_train.text_a == tuple(f"extra {n}" for n in range(5))


def test_nothing_is_left_to_train_on(tmp_path: Path) -> None:
    with refused("every row of train"):
        spec(tmp_path, dev=TRAIN, leaks="drop").load()


WORDS = st.lists(st.sampled_from(["Ein", "großes", "Haus", "ÜBER", "2", "1990", "日本", "🙂"]), min_size=1)


@given(WORDS, WORDS, st.sampled_from([" ", "  ", "\t", ", ", " - ", "_", "! ", "。", " «"]), st.booleans())
def test_leaks_are_found_whatever_case_spaces_and_punctuation(a: list[str], b: list[str], gap: str, up: bool) -> None:
    changed = [gap.join(words) + gap for words in (a, b)]
    changed = [text.upper() if up else text.lower() for text in changed]
    train = Split.of("train", "ID", [Example("0", "x", "y", 0), Example("1", " ".join(a), " ".join(b), 0)])
    dev = Split.of("dev", "ID", [Example("0", *changed, 1)])  # type: ignore[arg-type]
    assert TextKeys.of(train).leaked([TextKeys.of(dev)]) == [1]
    assert TextKeys.of(train).shared_with(TextKeys.of(dev)).rows == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("It is good 🙂", "It is good 🙁"),
        ("कि", "का"),  # the same consonant with another vowel
        ("!", "?"),
        ("a 1", "a 2"),
        ("5 €", "5 £"),
    ],
)
def test_texts_that_are_not_the_same(one: str, other: str) -> None:
    splits = [Split.of(name, "ID", [Example("0", text, "b", 0)]) for name, text in (("train", one), ("dev", other))]
    train, dev = map(TextKeys.of, splits)
    assert train.leaked([dev]) == []
    assert train.shared_with(dev) == Shared(rows=0, first=0, second=1)


def test_moving_a_word_between_the_texts_makes_another_row() -> None:
    train = Split.of("train", "ID", [Example("0", "a b", "c", 0)])
    dev = Split.of("dev", "ID", [Example("0", "a", "b c", 0)])
    assert TextKeys.of(train).leaked([TextKeys.of(dev)]) == []


# --- a million rows ------------------------------------------------------------------------------------------------

LOAD = """
import sys
from pathlib import Path
from srnet.tasks.files import FilesTask
task = FilesTask("big", ("no", "yes"), sys.argv[1], sys.argv[2], leaks="check").load()
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(len(task.train), int(status["VmHWM"].split()[0]) // 1024)  # ru_maxrss includes the peak of the parent process
"""


def test_a_million_rows_load_within_a_gibibyte(tmp_path: Path) -> None:
    train = tmp_path / "train.tsv"
    with train.open("w") as file:
        file.write("text_a\ttext_b\tlabel\n")
        file.writelines(
            f"premise {n:07d} with words up to fifty letters\thypothesis {n:07d} with as many as the other one\tyes\n"
            for n in range(1_000_000)
        )
    dev = tsv(tmp_path / "dev.tsv", many("dev", 100))
    ran = subprocess.run([sys.executable, "-c", LOAD, train, dev], capture_output=True, text=True, check=True)
    rows, megabytes = map(int, ran.stdout.split())
    assert rows == 1_000_000
    assert megabytes < 1024
