"""Rows of every format: what is right comes back as it was, what is wrong is named with file and line."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from refusals import refused

from srnet.core.names import DOWNLOAD_VARIABLE
from srnet.tasks.layout import _from_bytes_literal
from srnet.tasks.reading import SUFFIXES, Nested, _parse_hub, python_literal, read_rows

Rows = list[dict[str, str]]
ROWS = [
    {"text_a": "the cat, black", "text_b": "a cat", "label": "yes"},
    {"text_a": "für", "text_b": "🙂", "label": "no"},
]


def as_csv(rows: Rows) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def as_tsv(rows: Rows) -> bytes:
    lines = [list(rows[0]), *([row[name] for name in rows[0]] for row in rows)]
    return "".join("\t".join(line) + "\n" for line in lines).encode()


def as_jsonl(rows: list[Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def as_parquet(rows: list[dict[str, Any]]) -> bytes:
    file = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    return file.getvalue()


WRITERS: dict[str, Callable[[Rows], bytes]] = {
    ".csv": as_csv, ".tsv": as_tsv, ".txt": as_tsv, ".jsonl": as_jsonl, ".parquet": as_parquet,
}  # fmt: skip


def written(rows: Rows, suffix: str) -> bytes:
    content = WRITERS[suffix.removesuffix(".gz")](rows)
    return gzip.compress(content, mtime=0) if suffix.endswith(".gz") else content


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str, str | bytes], str]:
    def write(name: str, content: str | bytes) -> str:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write


File = Callable[[str, str | bytes], str]


def cells(source: str) -> Rows:
    return [dict(row) for _, row in read_rows(source)]


# --- right ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt.gz", ".jsonl", ".jsonl.gz"])
def test_a_byte_order_mark_windows_line_ends_and_blank_lines(suffix: str, file: File) -> None:
    content = WRITERS[suffix.removesuffix(".gz")](ROWS).replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    content = b"\xef\xbb\xbf" + content + b"\r\n\r\n"
    assert cells(file(f"d{suffix}", gzip.compress(content, mtime=0) if suffix.endswith(".gz") else content)) == ROWS


def test_a_blank_line_before_the_header(file: File) -> None:
    assert cells(file("d.tsv", b"\n" + as_tsv(ROWS))) == ROWS


def test_a_quote_in_a_tsv_is_a_character(file: File) -> None:
    assert cells(file("d.tsv", 'a\tb\n"one\ttwo "three"\n""\t"\n')) == [
        {"a": '"one', "b": 'two "three"'},
        {"a": '""', "b": '"'},
    ]


def test_quotes_and_line_breaks_in_a_csv_and_the_lines_they_end_on(file: File) -> None:
    path = file("d.csv", 'a,b\n"one\ntwo ""three""",x\n\ny,z\n')
    assert list(read_rows(path)) == [(3, {"a": 'one\ntwo "three"', "b": "x"}), (5, {"a": "y", "b": "z"})]


def test_a_very_long_cell(file: File) -> None:
    long = "word " * 200_000
    for suffix in (".csv", ".tsv", ".jsonl", ".parquet"):
        assert cells(file(f"d{suffix}", written([{"a": long, "b": "x"}], suffix))) == [{"a": long, "b": "x"}]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (1.0, "1"),
        (0.5, "0.5"),
        (-1, "-1"),
        (["Page", 7, "its text"], "its text"),
        ([["Page", 7, "one"], ["Other page", 0, "two"]], "one two"),
        ([[["Page", 7, "one"]], [["Page", 8, "two"]]], "one two"),
        ([["Page", "7", "one"], ["Page", "8", ""]], "one"),
        ([[92206, 104971, "Page", 7]], ""),
        ([[None, None, None, None]], ""),
        ([], ""),
    ],
    ids=json.dumps,
)
def test_values_of_json_as_text(value: object, text: str, file: File) -> None:
    ((found,),) = (row.values() for row in cells(file("d.jsonl", as_jsonl([{"a": value}]))))
    assert (found, type(found)) == (text, str)


@pytest.mark.parametrize(
    "value", [["one", "two"], ["3", "4", "5"], [["a", "B-LOC"]], [1], {"en": "one"}], ids=json.dumps
)
def test_other_lists_and_objects_are_no_text(value: object, file: File) -> None:
    for suffix in (".jsonl", ".parquet"):
        ((found,),) = (row.values() for row in cells(file(f"d{suffix}", written([{"a": value}], suffix))))
        assert (found, type(found)) == (str(value), Nested)


def test_evidence_lists_and_numbers_in_parquet(file: File) -> None:
    rows = [{"evidence": [["Page", "0", "one"], ["Page", "1", "two"]], "label": 1.0}, {"evidence": [], "label": None}]
    assert cells(file("d.parquet", as_parquet(rows))) == [{"evidence": "one two", "label": "1"}, {"evidence": ""}]


@pytest.mark.parametrize("nothing", ["null", "NaN"])
def test_a_column_without_a_value_is_not_there(nothing: str, file: File) -> None:
    assert cells(file("d.jsonl", f'{{"a": {nothing}, "b": "x"}}\n')) == [{"b": "x"}]


def test_text_that_parquet_has_as_bytes(file: File) -> None:
    rows = [{"a": "für".encode(), "picture": b"\xff\xd8"}]
    assert cells(file("d.parquet", as_parquet(rows))) == [{"a": "für"}], "a picture is no text, and in nobody's way"


# --- wrong ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("d.csv", b"", ("empty", "header")),
        ("d.tsv", b"\n\n", ("empty",)),
        ("d.csv.gz", b"", ("empty",)),
        ("d.csv", b"a,b\n1,2\n1,2,3\n", ("line 3", "3 cells under 2 columns", "bad_rows: skip")),
        ("d.tsv", b"a\tb\n1\n", ("line 2", "1 cells under 2 columns")),
        ("d.txt.gz", gzip.compress(b"a\tb\n1\n", mtime=0), ("line 2", "1 cells")),
        ("d.csv", b"a,b,a\n1,2,3\n", ("line 1", "'a' is named twice")),
        ("d.csv", b'a,b\n"one"two,x\n', ("line 2", "quotes")),
        ("d.csv", b'a,b\nx,y\n"one,x\n', ("line 3", "quotes")),
        ("d.tsv", b"a\tb\nx\ty\nf\xfcr\tz\n", ("line 3", "UTF-8")),
        ("d.tsv.gz", gzip.compress(b"a\tb\nx\ty\nf\xfcr\tz\n", mtime=0), ("line 3", "UTF-8")),
        ("d.jsonl", b'{"a": "x"}\n{"a": "f\xfcr"}\n', ("line 2", "UTF-8")),
        ("d.csv", "a,b\nx,y\n".encode("utf-16"), ("line 1", "UTF-8")),
        ("d.csv.gz", b"a,b\n1,2\n", ("gzip",)),
        ("d.csv.gz", gzip.compress(b"a,b\n1,2\n", mtime=0) + b"more", ("gzip",)),
        ("d.jsonl", b'{"a": "x"}\n["a"]\n', ("line 2", "JSON object", "one object per line")),
        ("d.jsonl", b'{"a": "x"}\n7\n', ("line 2", "JSON object")),
        ("d.jsonl", b"null\n", ("line 1", "JSON object")),
        ("d.jsonl", b'\n{"a": \n', ("line 2", "JSON", "Expecting value", "one object per line")),
        ("d.jsonl", b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n", ("line 1", "JSON")),
        ("d.jsonl", b'{"a": ' + b"[" * 700 + b"]" * 700 + b"}\n", ("line 1", "JSON")),
        ("d.jsonl", b'{"a": "\\ud83d"}\n', ("line 1", "half a character")),
        ("d.parquet", b"", ("parquet", "complete")),
        ("d.parquet", b"PAR1 no, not at all PAR1", ("read as parquet",)),
        ("d.parquet", as_parquet(ROWS)[:-20], ("read as parquet",)),
        ("d.xlsx", b"a,b\n", ("ending", ".csv, .tsv, .txt, .jsonl", ".parquet")),
        ("d.parquet.gz", b"", ("ending",)),
        ("d.gz", b"", ("ending",)),
        ("data", b"", ("ending",)),
    ],
)  # fmt: skip
def test_mistakes_are_named(name: str, content: bytes, named: tuple[str, ...], file: File) -> None:
    path = file(name, content)
    with refused(path, *named):
        cells(path)


def test_a_gzip_file_that_ends_too_early_is_refused_wherever_it_ends(file: File) -> None:
    rows = [{"a": os.urandom(40).hex(), "b": "x"} for _ in range(2000)]
    whole = written(rows, ".csv.gz")
    for share in (0.001, 0.5, 0.999):
        with refused("d.csv.gz", "gzip"):
            cells(file("d.csv.gz", whole[: int(share * len(whole))]))


def test_a_gzip_file_that_is_both_truncated_and_not_utf8(file: File) -> None:
    whole = gzip.compress(b"a,b\n\xff" + os.urandom(100_000).replace(b"\n", b" "))
    with refused("d.csv.gz", "UTF-8"):
        cells(file("d.csv.gz", whole[:50_000]))


def test_a_column_that_parquet_names_twice(tmp_path: Path) -> None:
    path = tmp_path / "d.parquet"
    parquet.write_table(pyarrow.Table.from_arrays([pyarrow.array(["x"]), pyarrow.array(["y"])], ["a", "a"]), path)
    with refused(path, "'a' is named twice"):
        cells(str(path))


def test_a_damaged_page_inside_a_parquet_file(tmp_path: Path) -> None:
    path = tmp_path / "d.parquet"
    table = pyarrow.table({"a": [f"text {n}" for n in range(1000)]})
    parquet.write_table(table, path, compression="zstd", use_dictionary=False)
    content = bytearray(path.read_bytes())
    content[60:200] = bytes(140)
    path.write_bytes(content)
    with refused(path, "read as parquet"):
        cells(str(path))


@pytest.mark.parametrize("suffix", [".csv", ".jsonl.gz", ".parquet"])
@pytest.mark.parametrize(("kind", "named"), [("gone", "exist"), ("folder", "is a folder"), ("pipe", "is a pipe")])
def test_what_is_no_file(kind: str, named: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"{kind}{suffix}"
    if kind == "folder":
        path.mkdir()
    if kind == "pipe":
        os.mkfifo(path)  # nobody writes to it, so that a reader would wait forever
    with refused(path, named):
        cells(str(path))


def test_paths_that_cannot_exist(file: File, tmp_path: Path) -> None:
    inside = f"{file('d.csv', 'a,b')}/e.csv"
    with refused(inside, "is a file"):
        cells(inside)
    with refused("longlong", "cannot be read"):
        cells(str(tmp_path / ("long" * 100 + ".csv")))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(file: File) -> None:
    path = file("d.csv", as_csv(ROWS))
    Path(path).chmod(0)
    with refused(path, "permissions"):
        cells(path)


def test_bad_rows_can_be_collected_and_the_rest_is_read(file: File) -> None:
    found: list[tuple[int, str]] = []
    path = file("d.jsonl", '{"a": "x"}\nno\n[]\n\n{"a": "y"}\n')
    assert [row["a"] for _, row in read_rows(path, lambda *bad: found.append(bad))] == ["x", "y"]
    assert [line for line, _ in found] == [2, 3]
    path, found = file("d.csv", "a,b\nx,1\ny\nz,2,3\nv,4\n"), []
    assert [row["a"] for _, row in read_rows(path, lambda *bad: found.append(bad))] == ["x", "v"]
    assert [line for line, _ in found] == [3, 4]


# --- any rows, any format ------------------------------------------------------------------------------------------

# what csv and jsonl can carry; a tsv has no way to write a tab or the end of a line
ANY = st.text(st.characters(exclude_categories=("Cs",)), min_size=1)
ONE_LINE = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\t\r\n"), min_size=1)


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=50)
@given(data=st.data())
def test_rows_come_back_as_they_were_written(
    suffix: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = ONE_LINE if suffix.startswith((".tsv", ".txt")) else ANY
    rows = data.draw(st.lists(st.fixed_dictionaries({"one": text, "two": text, "label": text}), min_size=1))
    path = tmp_path_factory.mktemp("rows") / f"d{suffix}"
    path.write_bytes(written(rows, suffix))
    assert cells(str(path)) == rows


# --- the Hub, without the Hub --------------------------------------------------------------------------------------


def test_class_labels_of_a_hub_dataset_come_as_names(hub: Path) -> None:
    from datasets import ClassLabel, Dataset, Features, Value

    features = Features({"text": Value("string"), "label": ClassLabel(names=["no", "yes"])})
    rows = Dataset.from_dict({"text": ["one", "two", None, "four"], "label": [1, 0, -1, None]}, features=features)
    rows.to_parquet(str(hub / "train.parquet"))
    assert list(read_rows(f"hub:{hub}:train")) == [
        (1, {"text": "one", "label": "yes"}),
        (2, {"text": "two", "label": "no"}),
        (3, {"label": "-"}),
        (4, {"text": "four"}),
    ]


def test_a_hub_dataset_of_json_lines_with_evidence(hub: Path) -> None:
    rows = [{"claim": "c", "evidence": [["Page", "0", "one"], ["Page", "1", "two"]], "label": 1}]
    (hub / "validation.jsonl").write_bytes(as_jsonl(rows))
    assert cells(f"hub:{hub}:validation") == [{"claim": "c", "evidence": "one two", "label": "1"}]


def test_configurations_of_a_hub_dataset(hub: Path) -> None:
    for name in ("mnli", "qqp"):
        (hub / name).mkdir()
        (hub / name / "train.jsonl").write_bytes(as_jsonl([{"text": name}]))
    places = "".join(f"- config_name: {name}\n  data_dir: {name}\n" for name in ("mnli", "qqp"))
    (hub / "README.md").write_text(f"---\nconfigs:\n{places}---\n")
    assert cells(f"hub:{hub}:qqp:train") == [{"text": "qqp"}]
    assert cells(f"hub:{hub}:mnli:train") == [{"text": "mnli"}]
    with refused(f"hub:{hub}:snli:train", "snli"):
        cells(f"hub:{hub}:snli:train")


def test_a_split_that_a_hub_dataset_does_not_have(hub: Path) -> None:
    (hub / "train.jsonl").write_bytes(as_jsonl(ROWS))
    with refused(f"hub:{hub}:dev", 'Unknown split "dev"'):
        cells(f"hub:{hub}:dev")


@pytest.mark.parametrize(
    "source", ["hub:nobody/nothing:train", "hub:nyu-mll/glue:mnli:train", "hub:nobody/nothing@abc:train"]
)
def test_without_leave_to_download_the_hub_is_never_asked(source: str, hub: Path) -> None:
    with refused(source, f"{DOWNLOAD_VARIABLE}=1", "--data"):
        cells(source)


def test_with_leave_to_download_the_hub_is_asked(
    hub: Path, network: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("datasets.config", "huggingface_hub.constants"):
        monkeypatch.setattr(f"{module}.HF_HUB_OFFLINE", False)
    monkeypatch.setenv(DOWNLOAD_VARIABLE, "1")
    with refused("hub:nobody/nothing:train", "check the name"):
        cells("hub:nobody/nothing:train")
    assert network, "or the tests above could not fail"
    network.clear()


def test_an_empty_hub_dataset(hub: Path) -> None:
    with refused(f"hub:{hub}:train"):
        cells(f"hub:{hub}:train")


def test_reading_from_the_hub_leaves_no_offline_mode_behind(hub: Path) -> None:
    import datasets
    import huggingface_hub.constants as constants

    before = datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE
    with refused("hub:nobody/nothing:train"):
        cells("hub:nobody/nothing:train")
    assert before == (datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE)


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("hub:snli:train", ("snli", None, None, "train")),
        ("hub:a/b:train", ("a/b", None, None, "train")),
        ("hub:a/b:mnli:dev", ("a/b", None, "mnli", "dev")),
        ("hub:a/b@refs/convert/parquet:plain:dev", ("a/b", "refs/convert/parquet", "plain", "dev")),
    ],
)
def test_names_of_hub_datasets(source: str, parts: tuple[str | None, ...]) -> None:
    assert _parse_hub(source) == parts


@pytest.mark.parametrize(
    "source", ["hub:", "hub:snli", "hub::train", "hub:a:", "hub:a:b:c:d", "hub:@v1:train", "hub:a@:b"]
)
def test_names_that_are_no_hub_dataset(source: str) -> None:
    with refused(f"'{source}'", "hub:REPOSITORY"):
        cells(source)


# --- literals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cell", ["{[]: 1}", "-" * 100_000 + "1", "1+" * 100_000 + "1", "9" * 5000, "\0", "1if 0else 2"]
)
def test_what_is_no_literal_is_a_value_error(cell: str, recwarn: pytest.WarningsRecorder) -> None:
    with pytest.raises(ValueError, match="not a literal"):
        python_literal(cell)
    assert not recwarn.list


@pytest.mark.parametrize("inside", ["{[]: 1}", "-" * 100_000 + "1", "1+" * 100_000 + "1", "b''" * 100_000])
def test_a_text_that_is_no_literal_of_bytes_stays_as_it_is(inside: str) -> None:
    text = f"b'' + {inside} + b''"
    assert _from_bytes_literal(text) == text
    assert _from_bytes_literal("b'caf\\xc3\\xa9'") == "café"
