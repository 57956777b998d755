"""A user's own files: what is right loads, what is wrong is named with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from srnet.core.errors import UserError
from srnet.tasks.files import FilesTask
from srnet.tasks.splits import Split

CSV = 'text_a,text_b,label,case\nthe cat sat,a cat,yes,one\n"a dog, big",a cat,no,two\n'
TSV = "text_a\ttext_b\tlabel\tcase\nthe cat sat\ta cat\tyes\tone\na dog, big\ta cat\tno\ttwo\n"
JSONL = (
    '{"text_a": "the cat sat", "text_b": "a cat", "label": "yes", "case": "one"}\n'
    '{"text_a": "a dog, big", "text_b": "a cat", "label": "no", "case": "two", "more": null}\n'
)


def task(path: Path, **changes: object) -> FilesTask:
    """One file as train and dev alike, which has to be allowed."""
    values = {"leaks": "keep", **changes}
    return FilesTask("mine", ("no", "yes"), str(path), str(path), **values)  # type: ignore[arg-type]


def load(folder: Path, content: str | bytes, name: str = "data.csv", **changes: object) -> Split:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return task(path, **changes).load().train


# --- right ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "content"), [("d.csv", CSV), ("d.tsv", TSV), ("d.jsonl", JSONL)])
def test_the_three_formats_say_the_same(name: str, content: str, tmp_path: Path) -> None:
    split = load(tmp_path, content, name, group="case")
    assert split.text_a == ("the cat sat", "a dog, big")
    assert split.text_b == ("a cat", "a cat")
    assert split.labels.tolist() == [1, 0]
    assert split.groups == ("one", "two")
    assert len(set(split.ids)) == 2


@pytest.mark.parametrize(("name", "content"), [("d.csv", CSV), ("d.tsv", TSV), ("d.jsonl", JSONL)])
def test_byte_order_mark_windows_line_ends_and_blank_lines(name: str, content: str, tmp_path: Path) -> None:
    plain = load(tmp_path, content, name)
    odd = load(tmp_path, b"\xef\xbb\xbf" + content.replace("\n", "\r\n").encode() + b"\r\n", name)
    assert (odd.text_a, odd.text_b, odd.labels.tolist()) == (plain.text_a, plain.text_b, plain.labels.tolist())


def test_a_quote_in_a_tsv_is_a_character(tmp_path: Path) -> None:
    split = load(tmp_path, 'text_a\ttext_b\tlabel\nhe said "yes\t"no" he said\tyes\n"a\tb\tno\n', "d.tsv")
    assert split.text_a == ('he said "yes', '"a')
    assert split.text_b == ('"no" he said', "b")


def test_quotes_and_line_breaks_in_a_csv(tmp_path: Path) -> None:
    split = load(tmp_path, 'text_a,text_b,label\n"one\ntwo ""three""",b,yes\nc,d,no\n')
    assert split.text_a == ('one\ntwo "three"', "c")


def test_umlauts_and_emoji(tmp_path: Path) -> None:
    assert load(tmp_path, "text_a,text_b,label\nfür dich,🙂,yes\n").text_b == ("🙂",)


def test_single_sentences(tmp_path: Path) -> None:
    split = load(tmp_path, "review,stars\ngood,yes\nbad,no\n", text_a="review", text_b=None, label="stars")
    assert split.text_b == ("", "")


def test_every_split_is_read(tmp_path: Path) -> None:
    for name in ("train", "dev", "hans"):
        (tmp_path / f"{name}.csv").write_text(CSV)
    files = {name: str(tmp_path / f"{name}.csv") for name in ("train", "dev")}
    ood = (("hans", str(tmp_path / "hans.csv")),)
    loaded = FilesTask("mine", ("no", "yes"), **files, ood=ood, leaks="keep").load()
    assert loaded.scored == ("dev", "hans")
    assert {name: split.kind for name, split in loaded.splits.items()} == {"train": "ID", "dev": "ID", "hans": "OOD"}
    assert loaded.shortcut == "overlap"


def test_the_same_file_as_train_and_dev_is_refused_unless_it_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="2 of 2 rows of 'dev' are also in train"):
        load(tmp_path, CSV, leaks="check")


# --- wrong ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("d.csv", "", ("d.csv is empty", "header")),
        ("d.jsonl", "", ("d.jsonl holds no rows",)),
        ("d.csv", "text_a,text_b,label\n", ("d.csv holds no rows", "at least one example")),
        ("d.tsv", "text_a\ttext_b\tlabel\n\n", ("d.tsv holds no rows",)),
        ("d.csv", "premise,text_b,label\na,b,yes\n", ("d.csv, line 2", "'text_a'", "premise, text_b, label")),
        ("d.jsonl", '{"text_a": "a", "label": "yes"}\n', ("d.jsonl, line 1", "'text_b'", "text_a, label")),
        ("d.jsonl", JSONL + '{"text_a": "a", "text_b": null, "label": "no"}\n', ("line 3", "'text_b'")),
        (
            "d.csv",
            CSV + "a,b,perhaps,one\n",
            ("d.csv, line 4", "'perhaps' was never declared", "no, yes", "correct it", "bad_rows: skip"),
        ),
        ("d.csv", CSV + "a,b,Yes,one\n", ("d.csv, line 4", "'Yes' was never declared")),
        ("d.csv", CSV + "a,b,,one\n", ("d.csv, line 4", "label ''")),
        ("d.csv", CSV + "a,b,yes\n", ("d.csv, line 4", "3 cells under 4 columns")),
        ("d.tsv", TSV + "a\tb\tyes\tone\tmore\n", ("d.tsv, line 4", "5 cells under 4 columns")),
        ("d.csv", CSV + '"a,b,yes,one\n', ("d.csv, line 4", "quotes")),
        ("d.csv", CSV + " ,b,yes,one\n", ("d.csv, line 4", "an empty text")),
        ("d.csv", CSV + "a,,yes,one\n", ("d.csv, line 4", "an empty text")),
        ("d.jsonl", JSONL + "{'text_a': 1}\n", ("d.jsonl, line 3", "not JSON", "one object per line")),
        ("d.csv", CSV + "a,b,yes\n", ("correct it, or leave such rows out: bad_rows: skip",)),
        ("d.jsonl", JSONL + '{"text_a": "a"\n', ("d.jsonl, line 3", "not JSON")),
        ("d.jsonl", JSONL + '["a", "b"]\n', ("d.jsonl, line 3", "not a JSON object")),
        ("d.csv", CSV.encode() + b"f\xfcr,b,yes,one\n", ("d.csv, line 4: not UTF-8", "save it as UTF-8")),
        ("d.jsonl", CSV.encode("utf-16"), ("d.jsonl, line 1: not UTF-8",)),
        ("d.xlsx", CSV, ("d.xlsx has an unknown ending", ".csv, .tsv, .txt, .jsonl")),
        ("data", CSV, ("data has an unknown ending",)),
    ],
)
def test_mistakes_are_named(name: str, content: str | bytes, words: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        load(tmp_path, content, name)
    assert [word for word in words if word not in str(error.value)] == []
    assert "\n" not in str(error.value)


def test_line_numbers_count_lines_of_the_file(tmp_path: Path) -> None:
    text = 'text_a,text_b,label\n"one\ntwo",b,yes\n\nc,d,maybe\n'  # a row of two lines, and a blank one
    with pytest.raises(UserError, match="line 5: label 'maybe'"):
        load(tmp_path, text)


def test_a_missing_group_column(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no column 'subcase'"):
        load(tmp_path, CSV, group="subcase")


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"gone\.csv does not exist; check the path"):
        task(tmp_path / "gone.csv").load()
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(UserError, match=r"folder\.csv is a folder; give a file"):
        task(tmp_path / "folder.csv").load()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": ("one",)}, "at least two different labels"),
        ({"labels": ("one", "one")}, "at least two different labels"),
        ({"metric": "bleu"}, "metric 'bleu' is unknown"),
        ({"ood": (("dev", "x.csv"),)}, "a test file cannot be called 'dev'"),
        ({"id_tests": (("one", "x.csv"),), "ood": (("one", "y.csv"),)}, "a test file cannot be called 'one'"),
        ({"spellings": (("1", "maybe"),)}, "'1' is a spelling of 'maybe', which is not a label"),
    ],
)
def test_a_senseless_description(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        FilesTask(**{"name": "mine", "labels": ("no", "yes"), "train": "a.csv", "dev": "b.csv", **changes})  # type: ignore[arg-type]
