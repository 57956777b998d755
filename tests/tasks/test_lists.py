"""Lists and objects where one text, label or sub-case is needed: what they mean is not supported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from commands import Shell
from pyarrow import parquet
from refusals import refused

from srnet.tasks.describe import describe_files
from srnet.tasks.files import FilesTask
from srnet.tasks.layout import label_counts
from srnet.tasks.squad import SquadTask

GOOD = {"text_a": "a", "text_b": "b", "label": "no", "case": "one"}


def written(folder: Path, suffix: str, **changes: Any) -> str:
    """A good row, and one with changed cells."""
    path, rows = folder / f"d{suffix}", [GOOD, {**GOOD, **changes}]
    if suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif suffix == ".parquet":  # one type for a column
        same = [{**{name: type(value)() for name, value in changes.items()}, **row} for row in rows[1:] * 2]
        parquet.write_table(pyarrow.Table.from_pylist(same), path)
    else:
        cells = (",".join('"' + str(cell).replace('"', '""') + '"' for cell in row.values()) for row in rows)
        path.write_text("\n".join([",".join(GOOD), *cells]))
    return str(path)


def task(path: str, **options: Any) -> FilesTask:
    return FilesTask("mine", ("no", "yes"), path, path, leaks="keep", **options)


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".csv"])
@pytest.mark.parametrize(
    ("column", "cell", "meaning"),
    [
        ("text_a", ["Paris", "is", "big"], "token tags"),
        ("text_b", ["4", "5", "6"], "multiple choice"),
        ("label", ["yes", "no"], "multi-label"),
        ("label", [1, 0], "multi-label"),
        ("case", ["one", "two"], "sub-case"),
    ],
)
@pytest.mark.parametrize("bad_rows", ["refuse", "skip"])
def test_a_list_is_refused_by_name(
    suffix: str, column: str, cell: list[Any], meaning: str, bad_rows: Any, tmp_path: Path
) -> None:
    path = written(tmp_path, suffix, **{column: cell})
    with refused(path, f"'{column}'", "line ", meaning):
        task(path, group="case", bad_rows=bad_rows).load()


def test_an_object_is_refused_by_name(tmp_path: Path) -> None:
    path = written(tmp_path, ".jsonl", text_b={"text": ["x", "y"], "label": ["A", "B"]})
    with refused("'text_b'", "objects", "multiple choice"):
        task(path).load()


@pytest.mark.parametrize(("suffix", "cell"), [(".jsonl", ["yes", "no"]), (".csv", ["yes"]), (".csv", [0, 2])])
def test_lists_are_not_counted_as_labels(suffix: str, cell: list[Any], tmp_path: Path) -> None:
    path = written(tmp_path, suffix, label=cell)
    with refused(path, "'label'", "multi-label"):
        label_counts(path, "label")
    with refused(path, "'label'", "multi-label"):
        describe_files(tmp_path / "mine.yaml", path, path)


def test_lists_in_columns_that_are_not_read(tmp_path: Path) -> None:
    path = written(tmp_path, ".jsonl", annotator_labels=["no", "yes"], more={"x": 1})
    assert len(task(path).load().train) == 2


TEXTS = ["[laughter]", "[1]", "[1, 2]", "[sic] 'so'", "{x}", "['a'] and ['b'] differ", "[]", '["Stop," he said, "now"]']


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_in_brackets_is_a_text(text: str, tmp_path: Path) -> None:
    assert task(written(tmp_path, ".csv", text_a=text, case=text), group="case").load().train.text_a[1] == text


@pytest.mark.parametrize(
    ("column", "cell"),
    [("text_a", " ['yes', 'no'] "), ("label", " ['yes', 'no'] "), ("text_a", "['Paris' 'is'\n 'big']")],
    ids=["text", "label", "numpy"],  # which writes lists without commas
)
def test_other_ways_to_write_a_list(column: str, cell: str, tmp_path: Path) -> None:
    with refused(f"'{column}'", "lists"):
        task(written(tmp_path, ".csv", **{column: cell})).load()


@pytest.mark.parametrize("label", ["[1]", " [1]"])
def test_a_declared_label_may_look_like_a_list(label: str, tmp_path: Path) -> None:
    path = written(tmp_path, ".csv", label=label)
    assert FilesTask("mine", ("no", "[1]"), path, path, leaks="keep").load().train.labels.tolist() == [0, 1]


def test_a_described_label_may_look_like_a_list(shell: Shell, tmp_path: Path) -> None:
    path, out = written(tmp_path, ".csv", label="[1]"), str(tmp_path / "mine.yaml")
    said = shell("data", "describe", "--train", path, "--dev", path, "--out", out, "--labels", "no,[1]")
    assert "2 labels: no 1, [1] 1" in said.out


def test_a_context_of_several_texts(tmp_path: Path) -> None:
    path = tmp_path / "squad.jsonl"
    answers = {"text": ["x"], "answer_start": [0]}
    path.write_text(json.dumps({"id": "1", "question": "?", "context": ["x", "y"], "answers": answers}))
    with refused("'context'", "lists"):
        SquadTask(str(path), str(path)).load()
