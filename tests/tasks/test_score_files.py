"""Files of one's own with numbers for answers, and files without a header."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from srnet.cli.program import app
from srnet.core.errors import UserError
from srnet.recipes.tasks import load_task_file, task_from
from srnet.tasks.base import Task
from srnet.tasks.check import check_data
from srnet.tasks.describe import describe_files, write_csv
from srnet.tasks.files import DataFile, FilesTask
from srnet.tasks.splits import Split
from srnet.tasks.squad import SquadTask

TRAIN = "text_a,text_b,label\na,b,0\nc,d,2.5\ne,f, 5e0 \ng,h,-1.5\n"
DEV = "text_a,text_b,label\ni,j,1\nk,l,3\n"


def files(folder: Path, train: str = TRAIN, dev: str = DEV) -> dict[str, str]:
    (folder / "train.csv").write_text(train)
    (folder / "dev.csv").write_text(dev)
    return {name: str(folder / f"{name}.csv") for name in ("train", "dev")}


def spec(folder: Path, train: str = TRAIN, dev: str = DEV, **changes: object) -> FilesTask:
    given = {"answer": "score", "metric": "pearson", **files(folder, train, dev), **changes}
    return FilesTask("mine", **given)  # type: ignore[arg-type]


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


# --- scores --------------------------------------------------------------------------------------------------------


def test_numbers_are_read_as_scores(tmp_path: Path) -> None:
    task = spec(tmp_path).load()
    assert task.answer == "score"
    assert task.labels == ("score",)
    assert task.train.labels.tolist() == [0.0, 2.5, 5.0, -1.5]
    assert task.dev.labels.dtype == np.float64, "whole numbers are scores as well"


@pytest.mark.parametrize("value", ["high", "", "nan", "inf", "-Infinity", "1_000", "3;5", "5 stars"], ids=repr)
def test_what_is_no_number(value: str, tmp_path: Path) -> None:
    broken = TRAIN + f"y,z,{value}\n"
    with pytest.raises(
        UserError, match=r"train.csv, line 6: '.*' under 'label' is not a number; correct it, or leave such"
    ):
        spec(tmp_path, broken).load()
    skipped = spec(tmp_path, broken, bad_rows="skip").load()
    assert len(skipped.train) == 4
    assert skipped.notes == ("train: 1 rows that cannot be read were left out (lines 6)",)


def test_rows_without_a_score(tmp_path: Path) -> None:
    task = spec(tmp_path, TRAIN + "y,z,\n", unlabelled=("", "-1.5")).load()
    assert task.train.labels.tolist() == [0.0, 2.5, 5.0]
    assert task.notes == ("train: 2 rows without a label were left out",)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"metric": "accuracy"}, "metric 'accuracy' does not fit scores; choose one of: pearson, spearman"),
        ({"labels": ("low", "high")}, "labels are for classes, and its answers are scores"),
        ({"spellings": (("high", "score"),)}, "spellings are for classes"),
        ({"ood": (("hard", DataFile("x.csv", classes=(("a", "b"),))),)}, "classes are for classes"),
        ({"label_words": ("Yes", "No")}, "give one word per label"),
        ({"answer": "span"}, "unknown answer 'span'; choose one of: class, score"),
        ({"answer": "class", "metric": "f1"}, "task 'mine': 'labels' is missing; give labels, train, dev"),
    ],
    ids=["metric", "labels", "spellings", "classes", "words", "span", "class"],
)
def test_what_does_not_go_with_scores(changes: dict[str, object], says: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=says):
        spec(tmp_path, **changes)


@pytest.mark.parametrize("missing", ["train", "dev"])
def test_both_files_are_needed(missing: str) -> None:
    given = {"train": "train.csv", "dev": "dev.csv", missing: ""}
    with pytest.raises(UserError, match=f"task 'mine': '{missing}' is missing; give labels, train, dev"):
        FilesTask("mine", ("no", "yes"), **given)  # type: ignore[arg-type]


def test_leaks_of_scores(tmp_path: Path) -> None:
    leaky = DEV + "A ,b!,4\na,b,4\n"
    with pytest.raises(UserError, match="2 of 4 rows of 'dev' are also in train"):
        spec(tmp_path, dev=leaky).load()
    task = spec(tmp_path, dev=leaky, leaks="drop").load()
    assert task.train.labels.tolist() == [2.5, 5.0, -1.5]


def test_a_description_in_yaml_needs_no_labels(tmp_path: Path) -> None:
    files(tmp_path)
    said = {"name": "mine", "train": "train.csv", "dev": "dev.csv", "answer": "score", "metric": "spearman"}
    assert task_from(said, "x", tmp_path) == spec(tmp_path, metric="spearman")


def test_a_check_says_where_scores_lie(tmp_path: Path) -> None:
    train, dev = check_data(spec(tmp_path)).splits
    assert train.labels == train.final_sign == {}
    # mean 6 / 4; deviations -1.5, 1, 3.5, -3, so squares 24.5, over 4 is 6.125
    assert train.scores == {"mean": 1.5, "sd": pytest.approx(2.4749, abs=1e-4), "min": -1.5, "max": 5.0}
    assert dev.scores == {"mean": 2.0, "sd": 1.0, "min": 1.0, "max": 3.0}


def test_from_files_to_a_description_to_a_check(tmp_path: Path) -> None:
    paths, out = files(tmp_path), tmp_path / "mine.yaml"
    said = invoke("data", "describe", "--train", paths["train"], "--dev", paths["dev"], "--answer", "score",
                  "--out", str(out))  # fmt: skip
    assert "labels of the training file" not in said
    assert yaml.safe_load(out.read_text()) == {
        "name": "mine", "train": "train.csv", "dev": "dev.csv", "answer": "score", "metric": "pearson",
    }  # fmt: skip
    assert load_task_file(out) == spec(tmp_path)
    printed = invoke("data", "check", str(out))
    for words in ("scores", "mean 1.50", "sd 2.47", "min -1.50", "max 5.00"):
        assert words in printed
    assert "labels" not in printed
    assert json.loads(invoke("data", "check", str(out), "--json"))["splits"][1]["scores"]["max"] == 3.0


def test_what_is_written_can_be_read_again(tmp_path: Path) -> None:
    task = spec(tmp_path).load()
    train, dev = write_csv(task, tmp_path / "out")
    assert [row["label"] for row in csv.DictReader(train.open())] == ["0.0", "2.5", "5.0", "-1.5"]
    again = FilesTask("mine", train=str(train), dev=str(dev), answer="score", metric="pearson").load()
    assert again.fingerprint == task.fingerprint


def test_spans_are_not_written(tmp_path: Path) -> None:
    train, dev = (Split("x" * n, "ID", ("1",), ("a",), ("b",), np.array([[0, 1]]), ("",)) for n in (1, 2))
    task = Task("mine", ("start", "end"), "span_f1", "unknown", train, dev, {}, answer="span")
    with pytest.raises(UserError, match="has spans, which do not fit into a csv file"):
        write_csv(task, tmp_path / "out")


def test_a_check_of_spans(tmp_path: Path) -> None:
    answers = [{"text": "Two pilots", "answer_start": 0}]
    for name in ("train", "dev"):
        question = {"id": name, "question": f"Who slept ({name})?", "answers": answers}
        paragraph = {"context": f"Two pilots slept. So says the {name} set.", "qas": [question]}
        (tmp_path / f"{name}.json").write_text(json.dumps({"data": [{"title": "x", "paragraphs": [paragraph]}]}))
    spec = SquadTask(train=str(tmp_path / "train.json"), dev=str(tmp_path / "dev.json"))
    found = check_data(spec)
    train, dev = found.splits
    assert train.labels == train.scores == train.final_sign == {}
    assert (dev.rows, dev.in_train, dev.source) == (1, 0, str(tmp_path / "dev.json"))
    assert found.fingerprint == spec.load().fingerprint


# --- files without a header ----------------------------------------------------------------------------------------


BARE = {"text_a": "first", "text_b": None, "label": "answer", "columns": ("answer", "first")}


def bare(folder: Path) -> dict[str, str]:
    (folder / "train.tsv").write_text('yes\ta "b\nno\tc\n')
    (folder / "dev.tsv").write_text("no\td\nyes\te\n")
    return {name: str(folder / f"{name}.tsv") for name in ("train", "dev")}


def test_columns_named_by_the_task(tmp_path: Path) -> None:
    task = FilesTask("mine", ("no", "yes"), **bare(tmp_path), **BARE).load()  # type: ignore[arg-type]
    assert task.train.text_a == ('a "b', "c")
    assert task.train.labels.tolist() == [1, 0]


def test_columns_named_by_one_file(tmp_path: Path) -> None:
    paths = bare(tmp_path)
    other = tmp_path / "dev.csv"
    other.write_text("answer,first\nno,d\n")
    layout = {key: value for key, value in BARE.items() if key != "columns"}
    train = DataFile(paths["train"], columns=("answer", "first"))
    task = FilesTask("mine", ("no", "yes"), train, str(other), **layout).load()  # type: ignore[arg-type]
    assert (len(task.train), len(task.dev)) == (2, 1)


def test_columns_of_a_file_that_has_others(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"train.tsv, line 1: 2 cells under 3 columns"):
        FilesTask("mine", ("no", "yes"), **bare(tmp_path), **{**BARE, "columns": ("a", "b", "c")}).load()  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"line 1: no column 'answer'; columns here: a, b"):
        FilesTask("mine", ("no", "yes"), **bare(tmp_path), **{**BARE, "columns": ("a", "b")}).load()  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"columns of .*train.tsv: column 'a' is named twice"):
        FilesTask("mine", ("no", "yes"), **bare(tmp_path), **{**BARE, "columns": ("a", "a")}).load()  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["x.jsonl", "x.parquet", "hub:a/b:train"])
def test_columns_of_a_file_that_names_them(path: str) -> None:
    with pytest.raises(UserError, match="names its columns itself; leave columns out"):
        FilesTask("mine", ("no", "yes"), DataFile(path, columns=("a", "b")), "dev.csv")


def test_a_description_of_files_without_a_header(tmp_path: Path) -> None:
    paths, out = bare(tmp_path), tmp_path / "mine.yaml"
    said = invoke("data", "describe", "--train", paths["train"], "--dev", paths["dev"], "--columns", "answer, first",
                  "--text-a", "first", "--text-b", "", "--label", "answer", "--metric", "positive_f1",
                  "--out", str(out))  # fmt: skip
    assert "labels of the training file: no: 1, yes: 1" in said
    task = load_task_file(out).load()
    assert (task.labels, task.metric) == (("no", "yes"), "positive_f1")
    assert task.dev.text_a == ("d", "e")


def test_describing_from_python(tmp_path: Path) -> None:
    paths = bare(tmp_path)
    out = describe_files(tmp_path / "mine.yaml", paths["train"], paths["dev"], **BARE)  # type: ignore[arg-type]
    assert yaml.safe_load(out.read_text())["columns"] == ["answer", "first"]
