"""A task from a user's own files: every option has its effect, every mistake is named with file and line."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from commands import Shell
from refusals import refused
from small_files import DEV, many, spec, tsv

from srnet.recipes.tasks import _load_task_file, read_task
from srnet.tasks.base import Task
from srnet.tasks.check import check_data
from srnet.tasks.describe import describe_files, write_csv
from srnet.tasks.files import FilesTask
from srnet.tasks.sources import DataFile
from srnet.tasks.splits import Split

CSV = "text_a,text_b,label,case\nthe cat sat,a cat,yes,one\na dog,a cat,no,two\n"
JSONL = (
    '{"text_a": "the cat sat", "text_b": "a cat", "label": "yes", "case": "one"}\n'
    '{"text_a": "a dog", "text_b": "a cat", "label": "no", "case": "two", "more": null}\n'
)


def load(folder: Path, content: str | bytes, name: str = "data.csv", **changes: Any) -> Split:
    """The training split of one file, which is also dev."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return FilesTask("mine", ("no", "yes"), str(path), str(path), **{"leaks": "keep", **changes}).load().train


@pytest.mark.parametrize(("name", "content"), [("d.csv", CSV), ("d.jsonl", JSONL)])
def test_rows_become_examples(name: str, content: str, tmp_path: Path) -> None:
    split = load(tmp_path, content, name, group="case")
    assert split.text_a == ("the cat sat", "a dog")
    assert split.text_b == ("a cat", "a cat")
    assert split.labels.tolist() == [1, 0]
    assert split.groups == ("one", "two")
    assert len(set(split.ids)) == 2


def test_single_sentences(tmp_path: Path) -> None:
    split = load(tmp_path, "review,stars\ngood,yes\nbad,no\n", text_a="review", text_b=None, label="stars")
    assert split.text_b == ("", "")


def test_every_split_is_read(tmp_path: Path) -> None:
    loaded = spec(tmp_path, ood=(("hans", tsv(tmp_path / "hans.tsv", many("hans", 3))),)).load()
    assert loaded.scored == ("dev", "hans")
    assert {name: split.kind for name, split in loaded.splits.items()} == {"train": "ID", "dev": "ID", "hans": "OOD"}
    assert (loaded.shortcut, loaded.ood_train) == ("overlap", None)


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("d.jsonl", "", ("no rows",)),
        ("d.csv", "text_a,text_b,label\n", ("no rows", "at least one example")),
        ("d.csv", "premise,text_b,label\na,b,yes\n", ("line 2", "'text_a'", "premise, text_b, label")),
        ("d.csv", "text_a;text_b;label,more\na;b;yes,1\n", ("line 2", "'label'", "text_a;text_b;label, more")),
        ("d.jsonl", '{"text_a": "a", "label": "yes"}\n', ("line 1", "'text_b'", "text_a, label")),
        ("d.jsonl", JSONL + '{"text_a": "a", "text_b": null, "label": "no"}\n', ("line 3", "'text_b'")),
        ("d.csv", CSV + "a,b,perhaps,one\n", ("line 4", "'perhaps'", "no, yes", "bad_rows: skip")),
        ("d.csv", CSV + "a,b,Yes,one\n", ("line 4", "'Yes'")),
        ("d.csv", CSV + "a,b,,one\n", ("line 4", "label ''")),
        ("d.csv", CSV + "a,b,yes\n", ("line 4", "3 cells", "4 columns", "bad_rows: skip")),
        ("d.csv", CSV + " ,b,yes,one\n", ("line 4", "empty", "'text_a'")),
        ("d.csv", CSV + "a,,yes,one\n", ("line 4", "empty", "'text_b'")),
        ("d.csv", 'text_a,text_b,label\n"one\ntwo",b,yes\n\nc,d,maybe\n', ("line 5", "'maybe'")),
        ("d.csv", 'text_a,text_b,label\na,b,"' + "word\n" * 1000 + '"\n', ("'word word", "never declared")),
    ],
)
def test_mistakes_are_named(name: str, content: str, named: tuple[str, ...], tmp_path: Path) -> None:
    with refused(tmp_path / name, *named):
        load(tmp_path, content, name)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"labels": ("one",)}, ("['one']",)),
        ({"labels": ("one", "one")}, ("['one', 'one']",)),
        ({"labels": ()}, ("'labels'",)),
        ({"train": ""}, ("'train'",)),
        ({"dev": "", "dev_share": 0.6}, ("dev_share", "0.6")),
        ({"metric": "bleu"}, ("'bleu'", "accuracy")),
        ({"shortcut": "overlap,"}, ("'overlap,'",)),
        ({"leaks": "some"}, ("'some'",)),
        ({"bad_rows": "mend"}, ("'mend'",)),
        ({"rows": (("gone", 5),)}, ("'gone'",)),
        ({"rows": (("dev", 0),)}, ("rows: dev", "0")),
        ({"spellings": (("1", "maybe"),)}, ("'1'", "'maybe'", "no, yes")),
        ({"ood": (("dev", "x.csv"),)}, ("'dev'",)),
        ({"ood": (("ood_train", "x.csv"),)}, ("'ood_train'",)),
        ({"ood": (("ood_train1", "x.csv"),)}, ("'ood_train1'",)),
        ({"ood": (("one", "x.csv"), ("one", "x.csv"))}, ("'one'",)),
        ({"id_tests": (("one", "x.csv"),), "ood": (("one", "y.csv"),)}, ("'one'",)),
        ({"ood_train": DataFile("x.csv", classes=(("no", "x"), ("yes", "y")))}, ("x.csv", "classes")),
        ({"answer": "score"}, ("labels", "scores")),
        ({"answer": "score", "labels": (), "metric": "accuracy"}, ("'accuracy'", "pearson, spearman")),
        ({"answer": "span"}, ("'span'", "class, score")),
        *(({"train": DataFile(path, columns=("a", "b"))}, (path, "columns")) for path in ("x.jsonl", "hub:a/b:train")),
    ],
)
def test_descriptions_that_make_no_sense(changes: dict[str, Any], named: tuple[str, ...]) -> None:
    with refused(*named):
        FilesTask(**{"name": "mine", "labels": ("no", "yes"), "train": "a.csv", "dev": "b.csv", **changes})


# --- samples, punctuation, groups, spellings -----------------------------------------------------------------------


def test_at_most_so_many_rows_always_the_same_with_a_note(tmp_path: Path) -> None:
    whole = spec(tmp_path, many("train", 3000), many("dev", 40))
    task = replace(whole, rows=(("train", 1200), ("dev", 50)))
    loaded = task.load()
    assert (len(loaded.train), len(loaded.dev)) == (1200, 40)
    assert loaded.notes == ("train: 1,200 of 3,000 rows",)
    assert loaded.fingerprint == task.load().fingerprint != whole.load().fingerprint
    assert check_data(task).splits[0].rows == 3000, "the check is of the files"


def test_rows_of_ood_training_data_count_all_its_files(tmp_path: Path) -> None:
    parts = tuple(tsv(tmp_path / f"part{n}.tsv", many(f"part{n}", 30)) for n in range(2))
    loaded = spec(tmp_path, ood_train=parts, rows=(("ood_train", 20),)).load()
    assert loaded.ood_train is not None
    assert len(loaded.ood_train) == len(set(loaded.ood_train.ids)) == 20
    assert {text.split()[0] for text in loaded.ood_train.text_a} == {"part0", "part1"}
    assert (loaded.ood_train.kind, loaded.scored) == ("OOD", ("dev",))
    assert loaded.notes == ("ood_train: 20 of 60 rows",)


def test_rows_are_dropped_before_a_sample_is_drawn(tmp_path: Path) -> None:
    train = many("train", 20)
    loaded = spec(tmp_path, train, train[:10], leaks="drop", rows=(("train", 10),)).load()
    assert loaded.train.text_a == tuple(text for text, _, _ in train[10:])


def test_final_punctuation_can_be_stripped_from_both_texts(tmp_path: Path) -> None:
    rows = [("A dog ran .", "It ran?!", "yes"), ("Mr. T. sat", "He: sat…", "no"), ("...", "It is 1.5", "no")]
    task = spec(tmp_path, rows, strip_final_punctuation=True).load()
    assert task.train.text_a == ("A dog ran", "Mr. T. sat", "..."), "a text of nothing but signs stays"
    assert task.train.text_b == ("It ran", "He: sat", "It is 1.5")


def test_group_columns_where_dev_is_split_off(tmp_path: Path) -> None:
    rows = "".join(f"text {n}\tother {n}\t{'yes' if n % 2 else 'no'}\tcase {n % 3}\n" for n in range(60))
    (tmp_path / "t.tsv").write_text(f"text_a\ttext_b\tlabel\tcase\n{rows}")
    task = FilesTask("mine", ("no", "yes"), str(tmp_path / "t.tsv"), group="case")
    assert {*task.load().dev.groups} <= {"case 0", "case 1", "case 2"}
    with refused("nosuch"):
        replace(task, group="nosuch").load()


def test_group_columns_that_only_some_files_have(tmp_path: Path) -> None:
    path = tmp_path / "ood.tsv"
    path.write_text("text_a\ttext_b\tlabel\tcase\tkind\na\tb\tyes\tone\tx\nc\td\tno\ttwo\t\ne\tf\tno\t\t\n")
    loaded = spec(tmp_path, group=("case", "kind"), ood=(("ood", str(path)),)).load()
    assert loaded.ood["ood"].groups == ("one > x", "two", "")
    assert set(loaded.train.groups) == {""}
    with refused("'mine'", "'subcase'"):
        spec(tmp_path, group="subcase").load()


def test_test_sets_may_be_called_almost_anything(tmp_path: Path) -> None:
    path = tsv(tmp_path / "ood.tsv", many("ood", 3))
    loaded = spec(tmp_path, ood=(("ood_training_is_not_this", path), ("train2", path))).load()
    assert loaded.scored == ("dev", "ood_training_is_not_this", "train2")


def test_a_two_way_file_may_spell_its_classes(tmp_path: Path) -> None:
    path = tmp_path / "two.tsv"
    path.write_text("text_a\ttext_b\tlabel\na\tb\t0\nc\td\tother\n")
    classes = (("yes", "same"), ("no", "other"), ("maybe", "other"))
    two = DataFile(str(path), classes=classes, spellings=(("0", "same"),))
    loaded = replace(spec(tmp_path), labels=("no", "maybe", "yes"), ood=(("two", two),)).load()
    assert [loaded.classes_of(loaded.ood["two"])[label] for label in loaded.ood["two"].labels] == ["same", "other"]
    with refused("'0'", "'yes'", "same, other"):
        replace(spec(tmp_path), ood=(("two", replace(two, spellings=(("0", "yes"),))),))


# --- descriptions in YAML ------------------------------------------------------------------------------------------


def test_a_description_loads_again_to_the_same_task(tmp_path: Path) -> None:
    data, path = tmp_path / "data", tmp_path / "tasks" / "mine.yaml"
    data.mkdir()
    path.parent.mkdir()
    ood, extra = (("challenge", tsv(data / "ood.tsv", many("ood", 4))),), tsv(data / "extra.tsv", many("extra", 4))
    options: dict[str, Any] = {
        "id_tests": (("more", tsv(data / "more.tsv", many("more", 3))),),
        "metric": "f1", "shortcut": "claim", "spellings": (("1", "yes"), ("0", "no")), "rows": (("dev", 1),),
        "unlabelled": ("-",), "leaks": "drop", "bad_rows": "skip", "strip_final_punctuation": True, "ood_copies": 3,
    }  # fmt: skip
    wanted = spec(data, ood=ood, ood_train=extra, **options)
    describe_files(path, wanted.files["train"].path, wanted.files["dev"].path, ood, ood_train=extra, **options)
    again = _load_task_file(path)
    assert again == wanted
    fingerprint = wanted.load().fingerprint
    assert str(tmp_path) not in path.read_text(), "paths are relative, so that the folder can be moved"
    tmp_path.rename(moved := tmp_path.with_name(f"{tmp_path.name}_moved"))
    assert _load_task_file(moved / "tasks" / "mine.yaml").load().fingerprint == fingerprint


def test_paths_in_yaml_start_from_its_folder(tmp_path: Path) -> None:
    values = {"name": "mine", "labels": ["no", "yes"], "train": "t.csv", "dev": "hub:a:dev", "ood_train": "/data/o.csv"}
    made = read_task(values, "here", tmp_path)
    assert made == FilesTask("mine", ("no", "yes"), str(tmp_path / "t.csv"), "hub:a:dev", ood_train="/data/o.csv")
    with refused("here", "ood_copies", "1.5"):
        read_task({**values, "ood_copies": 1.5}, "here", tmp_path)


def test_labels_are_those_of_the_training_data_and_stay_text(tmp_path: Path) -> None:
    rows = [("a", "b", "1"), ("c", "d", "no"), ("e", "f", "null"), ("g", "h", "-"), ("i", "j", "")]
    files = tsv(tmp_path / "train.tsv", rows), tsv(tmp_path / "dev.tsv", [("x", "y", "no")])
    path = describe_files(tmp_path / "mine.yml", *files, unlabelled=("-",), bad_rows="skip")
    loaded = _load_task_file(path).load()
    assert loaded.labels == ("1", "no", "null")
    assert loaded.train.labels.tolist() == [0, 1, 2]


@pytest.mark.parametrize("count", [1, 101])
def test_labels_that_cannot_be_guessed(count: int, tmp_path: Path) -> None:
    rows = [(f"a {n}", "b", str(n)) for n in range(count)]
    with refused("train.tsv", "'label'", count):
        describe_files(tmp_path / "m.yaml", tsv(tmp_path / "train.tsv", rows), tsv(tmp_path / "dev.tsv", DEV))


# --- numbers as answers --------------------------------------------------------------------------------------------

TRAIN_SCORES = "text_a,text_b,label\na,b,0\nc,d,2.5\ne,f, 5e0 \ng,h,-1.5\n"
DEV_SCORES = "text_a,text_b,label\ni,j,1\nk,l,3\n"


def scored(folder: Path, train: str = TRAIN_SCORES, dev: str = DEV_SCORES, **changes: Any) -> FilesTask:
    (folder / "train.csv").write_text(train)
    (folder / "dev.csv").write_text(dev)
    files = {name: str(folder / f"{name}.csv") for name in ("train", "dev")}
    return FilesTask("mine", **{"answer": "score", "metric": "pearson", **files, **changes})


def test_numbers_are_read_as_scores(tmp_path: Path) -> None:
    task = scored(tmp_path).load()
    assert (task.answer, task.labels) == ("score", ("score",))
    assert task.train.labels.tolist() == [0.0, 2.5, 5.0, -1.5]
    assert task.dev.labels.dtype == np.float64, "whole numbers are scores as well"


@pytest.mark.parametrize("value", ["high", "", "nan", "inf", "-Infinity", "1_000", "3;5", "5 stars"], ids=repr)
def test_what_is_no_number(value: str, tmp_path: Path) -> None:
    broken = TRAIN_SCORES + f"y,z,{value}\n"
    with refused("train.csv, line 6", f"'{value}'", "'label'", "bad_rows: skip"):
        scored(tmp_path, broken).load()
    skipped = scored(tmp_path, broken, bad_rows="skip").load()
    assert len(skipped.train) == 4
    assert skipped.notes == ("train: 1 rows that cannot be read were left out (lines 6)",)


def test_rows_without_a_score(tmp_path: Path) -> None:
    task = scored(tmp_path, TRAIN_SCORES + "y,z,\n", unlabelled=("", "-1.5")).load()
    assert task.train.labels.tolist() == [0.0, 2.5, 5.0]
    assert task.notes == ("train: 2 rows without a label were left out",)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"spellings": (("high", "score"),)}, "spellings"),
        ({"ood": (("hard", DataFile("x.csv", classes=(("a", "b"),))),)}, "classes"),
        ({"label_words": ("Yes", "No")}, "label_words"),
    ],
)
def test_what_is_for_classes(changes: dict[str, Any], named: str, tmp_path: Path) -> None:
    with refused(named):
        scored(tmp_path, **changes)


def test_leaks_of_scores(tmp_path: Path) -> None:
    leaky = DEV_SCORES + "A ,b!,4\na,b,4\n"
    with refused("2 of 4 rows", "'dev'"):
        scored(tmp_path, dev=leaky).load()
    assert scored(tmp_path, dev=leaky, leaks="drop").load().train.labels.tolist() == [2.5, 5.0, -1.5]


def test_the_statistics_of_scores(tmp_path: Path) -> None:
    train, dev = check_data(scored(tmp_path)).splits
    assert train.labels == train.final_sign == {}
    # mean 6 / 4; deviations -1.5, 1, 3.5, -3, so squares 24.5, over 4 is 6.125
    assert train.scores == {"mean": 1.5, "sd": pytest.approx(2.4749, abs=1e-4), "min": -1.5, "max": 5.0}
    assert dev.scores == {"mean": 2.0, "sd": 1.0, "min": 1.0, "max": 3.0}


def test_scores_from_files_to_a_description_to_a_check(tmp_path: Path, shell: Shell) -> None:
    task, out = scored(tmp_path), tmp_path / "mine.yaml"
    files = ("--train", str(task.train), "--dev", str(task.dev))
    said = shell("data", "describe", *files, "--answer", "score", "--out", str(out)).out
    assert "labels of the training file" not in said
    assert yaml.safe_load(out.read_text()) == {
        "name": "mine", "train": "train.csv", "dev": "dev.csv", "answer": "score", "metric": "pearson",
    }  # fmt: skip
    assert _load_task_file(out) == task
    printed = shell("data", "check", str(out)).out
    assert [each for each in ("mean 1.50", "sd 2.47", "min -1.50", "max 5.00") if each not in printed] == []
    assert "labels" not in printed
    assert json.loads(shell("data", "check", str(out), "--json").out)["splits"][1]["scores"]["max"] == 3.0


def test_what_is_written_as_csv_can_be_read_again(tmp_path: Path) -> None:
    task = scored(tmp_path).load()
    train, dev = write_csv(task, tmp_path / "out")
    assert [row["label"] for row in csv.DictReader(train.open())] == ["0.0", "2.5", "5.0", "-1.5"]
    again = FilesTask("mine", train=str(train), dev=str(dev), answer="score", metric="pearson").load()
    assert again.fingerprint == task.fingerprint
    splits = (Split(name, "ID", ("1",), ("a",), ("b",), np.array([[0, 1]]), ("",)) for name in ("train", "dev"))
    with refused("'spans'", "csv"):
        write_csv(Task("spans", ("start", "end"), "span_f1", "unknown", *splits, {}, answer="span"), tmp_path / "new")


# --- files without a header ----------------------------------------------------------------------------------------

COLUMNS = ("answer", "first")


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "train.tsv").write_text('yes\ta "b\nno\tc\n')
    (tmp_path / "dev.tsv").write_text("no\td\nyes\te\n")
    layout = {"text_a": "first", "text_b": None, "label": "answer"}
    return {"labels": ("no", "yes"), **{name: str(tmp_path / f"{name}.tsv") for name in ("train", "dev")}, **layout}


def test_columns_named_by_the_task_or_by_one_file(bare: dict[str, Any], tmp_path: Path) -> None:
    task = FilesTask("mine", **bare, columns=COLUMNS).load()
    assert task.train.text_a == ('a "b', "c")
    assert task.train.labels.tolist() == [1, 0]
    (tmp_path / "dev.csv").write_text("answer,first\nno,d\n")
    train = DataFile(bare["train"], columns=COLUMNS)
    mixed = FilesTask("mine", **{**bare, "train": train, "dev": str(tmp_path / "dev.csv")}).load()
    assert (len(mixed.train), len(mixed.dev)) == (2, 1)


@pytest.mark.parametrize(
    ("columns", "named"), [("abc", "2 cells under 3 columns"), ("ab", "'answer'"), ("aa", "'a' is named twice")]
)
def test_columns_that_a_file_does_not_have(columns: str, named: str, bare: dict[str, Any]) -> None:
    with refused("train.tsv", named):
        FilesTask("mine", **bare, columns=tuple(columns)).load()


def test_a_description_of_files_without_a_header(bare: dict[str, Any], tmp_path: Path, shell: Shell) -> None:
    out = tmp_path / "mine.yaml"
    layout = ("--columns", "answer, first", "--text-a", "first", "--text-b", "", "--label", "answer")
    files = ("--train", bare["train"], "--dev", bare["dev"], "--out", str(out))
    assert "2 labels: no 1, yes 1" in shell("data", "describe", *files, *layout, "--metric", "positive_f1").out
    task = _load_task_file(out).load()
    assert (task.labels, task.metric) == (("no", "yes"), "positive_f1")
    assert task.dev.text_a == ("d", "e")
