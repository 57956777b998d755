"""Which columns are the texts and the label: by name, by content, or not at all."""

from __future__ import annotations

import csv
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from srnet.core.errors import UserError
from srnet.tasks.guess import guess_columns
from srnet.tasks.own import name_of, task_of_files

CELLS = {
    "TEXT": lambda n: f"the film number {n} was long and dull",
    "OTHER": lambda n: f"nobody saw film {n} in the end",
    "ID": lambda n: f"ex{n}",
    "INDEX": str,
    "YEAR": lambda n: str(1990 + n % 30),
    "BOTH": lambda n: ("no", "yes")[n % 2],
    "THREE": lambda n: ("news", "blog", "shop")[n % 3],
    "MANY": lambda n: f"{n / 7:.2f}",
    "CLASS": lambda n: ("1", "0")[n % 2],
    "WORD": lambda n: ("red", "green")[n % 2],
    "CHINESE": lambda n: f"这部电影很长而且很无聊{n}",
}
"""The cell of row n, by what a column contains."""


def write(path: Path, rows: int = 40, **columns: str) -> str:
    """A csv file: names of columns and what they contain."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows([CELLS[kind](n) for kind in columns.values()] for n in range(rows))
    return str(path)


@pytest.mark.parametrize(
    ("columns", "text_a", "text_b", "label"),
    [
        ({"review": "TEXT", "sentiment": "BOTH"}, "review", None, "sentiment"),
        ({"sentiment": "BOTH", "pair": "INDEX", "review": "TEXT", "version": "WORD"}, "review", None, "sentiment"),
        ({"": "INDEX", "Text": "TEXT", "Label": "CLASS"}, "Text", None, "Label"),
        ({"text": "TEXT", "title": "OTHER", "y": "CLASS"}, "text", None, "y"),
        ({"words": "TEXT", "answer": "WORD"}, "words", None, "answer"),
        ({"内容": "CHINESE", "类": "CLASS"}, "内容", None, "类"),
        ({"hypothesis": "OTHER", "premise": "TEXT", "gold_label": "BOTH", "label": "WORD"},
         "premise", "hypothesis", "gold_label"),
        ({"claim": "OTHER", "evidence": "TEXT", "verdict": "BOTH"}, "evidence", "claim", "verdict"),
        ({"index": "INDEX", "sentence1": "TEXT", "sentence2": "OTHER", "label": "BOTH"},
         "sentence1", "sentence2", "label"),
        ({"Quality": "CLASS", "#1 ID": "INDEX", "#2 ID": "INDEX", "#1 String": "TEXT", "#2 String": "OTHER"},
         "#1 String", "#2 String", "Quality"),
        ({"sentence1_parse": "TEXT", "sentence2_parse": "OTHER", "sentence1": "TEXT", "sentence2": "OTHER",
          "label": "BOTH", "heuristic": "THREE"}, "sentence1", "sentence2", "label"),
        ({"lhs_a": "TEXT", "lhs_b": "OTHER", "kind": "BOTH"}, "lhs_a", "lhs_b", "kind"),
        ({"claim": "TEXT", "evidence": "OTHER", "sentence1": "OTHER", "sentence2": "TEXT", "label": "BOTH"},
         "evidence", "claim", "label"),
        ({"text": "TEXT", "label": "CLASS", "source": "THREE", "year": "YEAR"}, "text", None, "label"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else str(value),
)  # fmt: skip
def test_columns_are_found(
    columns: dict[str, str], text_a: str, text_b: str | None, label: str, tmp_path: Path
) -> None:
    assert guess_columns(write(tmp_path / "d.csv", **columns))[:3] == (text_a, text_b, label)


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ({"more": "TEXT", "less": "OTHER", "label": "BOTH"}, ("more or less", "--text-a", "more, less, label")),
        ({"comment": "TEXT", "tweet": "OTHER", "label": "BOTH"}, ("comment or tweet",)),
        ({"words": "TEXT", "one": "BOTH", "two": "THREE"}, ("one or two", "--label")),
        ({"text": "TEXT", "sentiment": "BOTH", "topic": "THREE"}, ("sentiment or topic",)),
        ({"text": "TEXT", "name": "ID"}, ("no column looks like the label", "text, name")),
        ({"kind": "BOTH", "name": "ID"}, ("no column looks like the text",)),
        ({"text": "TEXT", "score": "MANY"}, ("'score'", "--answer score")),
        ({"text1": "TEXT", "text2": "OTHER", "premise": "TEXT", "hypothesis": "TEXT", "label": "BOTH"},
         ("text1 and text2 or premise and hypothesis",)),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)  # fmt: skip
def test_what_is_ambiguous_is_asked(columns: dict[str, str], named: tuple[str, ...], tmp_path: Path) -> None:
    with refused(tmp_path / "d.csv", *named):
        guess_columns(write(tmp_path / "d.csv", **columns))


def test_what_is_given_is_not_guessed(tmp_path: Path) -> None:
    path = write(tmp_path / "d.csv", more="TEXT", less="OTHER", label="BOTH", kind="THREE")
    assert guess_columns(path, text_a="less", text_b="", label="kind")[:3] == ("less", None, "kind")
    assert guess_columns(path, text_a="less", text_b="")[:3] == ("less", None, "label")
    assert guess_columns(path, text_a="less", text_b="more")[:3] == ("less", "more", "label")
    with refused("'gone'", "more, less, label, kind"):
        guess_columns(path, text_a="gone", text_b="")
    with refused("second text", "--text less"):
        guess_columns(path, text_a="less")
    with refused("first text"):
        guess_columns(path, text_b="less")


def test_scores_are_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "d.csv", sentence1="TEXT", sentence2="OTHER", score="MANY", genre="THREE")
    assert guess_columns(path, numbers=True)[:3] == ("sentence1", "sentence2", "score")


def test_a_file_without_a_header(tmp_path: Path) -> None:
    path = tmp_path / "d.tsv"
    path.write_text("".join(f"gj04\t{n % 2}\t\tthe film number {n} was long\n" for n in range(40)))
    with refused(path, "'gj04'", "--columns"):
        guess_columns(str(path))
    names = ("source", "label", "mark", "sentence")
    assert guess_columns(str(path), names)[:3] == ("sentence", None, "label")


KINDS = st.sampled_from(["TEXT", "OTHER", "ID", "INDEX", "BOTH", "THREE", "MANY", "WORD"])
NAMES = st.sampled_from(["text", "label", "premise", "hypothesis", "a", "b", "id", "sentence1", "sentence2", "class"])


@given(st.dictionaries(NAMES, KINDS, min_size=1, max_size=6))
def test_a_guess_is_two_or_three_columns_of_the_file_or_a_question(columns: dict[str, str]) -> None:
    with TemporaryDirectory() as folder:
        path = write(Path(folder) / "d.csv", rows=12, **columns)
        try:
            found = guess_columns(path)
        except UserError:
            return
    read = [name for name in found[:3] if name is not None]
    assert len(set(read)) == len(read)
    assert set(read) <= columns.keys()
    assert not {columns[name] for name in read[:-1]} & {"INDEX", "MANY"}, "a text is no number"


# --- the task ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/data/reviews.csv", "reviews"),
        ("/data/imdb/train.csv", "imdb"),
        ("/data/imdb/Training.tsv.gz", "imdb"),
        ("/data/my: data.jsonl", "my- data"),
        ("/data/v1.2.parquet", "v1.2"),
        ("/train.csv", "train"),
    ],
)
def test_the_name_of_a_task(path: str, name: str) -> None:
    assert name_of(path) == name


def test_what_is_read_is_reported(tmp_path: Path) -> None:
    said: list[str] = []
    path = write(tmp_path / "d.csv", review="TEXT", sentiment="BOTH", title="OTHER")
    spec = task_of_files(path, say=said.append)
    assert said == ["reads review as the text and sentiment as the label (2 labels: no 20, yes 20); not read: title"]
    assert (spec.name, spec.labels, spec.text_a, spec.text_b) == ("d", ("no", "yes"), "review", None)


def test_rows_that_are_marked_as_unlabelled(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("text,gold_label\n" + "a film,no\nb film,yes\nc film,-\n" * 9)
    spec = task_of_files(str(tmp_path / "d.csv"))
    assert (spec.labels, spec.unlabelled) == (("no", "yes"), ("-",))


@pytest.mark.parametrize("split", ["dev", "ood"])
def test_every_file_has_the_same_columns(split: str, tmp_path: Path) -> None:
    train = write(tmp_path / "a.csv", review="TEXT", sentiment="BOTH")
    other = write(tmp_path / "b.csv", review="TEXT", stars="BOTH", more="ID")
    more: dict[str, Any] = {"dev": other} if split == "dev" else {"ood": {"hard": other}}
    with refused("b.csv", "'sentiment'", "a.csv", "review, stars, more"):
        task_of_files(train, **more)


def test_options_that_no_task_has(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", review="TEXT", sentiment="BOTH")
    with refused("'lables'"):
        task_of_files(path, lables=("no", "yes"))
    with refused("--text"):
        task_of_files(path, text="review", text_a="review")
