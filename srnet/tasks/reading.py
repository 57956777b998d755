"""Rows of a file in any format: csv, tsv, txt, jsonl or parquet, plain or gzipped, or a dataset of the Hub.

Every reader yields (line number, {column: text}). A row that cannot be read is passed to `bad` with its line number;
by default that is an error, so that nothing is skipped silently.
"""

from __future__ import annotations

import ast
import gzip
import io
import json
import math
import re
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, NoReturn

from srnet.core.errors import UserError, reason, shortened
from srnet.core.files import open_data
from srnet.core.names import DOWNLOAD_VARIABLE
from srnet.core.network import guarded_hub, may_download
from srnet.tasks.tables import Bad, Row, check_names, table_rows

HUB = "hub:"
_TABLES = (".csv", ".tsv", ".txt")
_TEXTS = (*_TABLES, ".jsonl")
SUFFIXES = (*_TEXTS, *(f"{suffix}.gz" for suffix in _TEXTS), ".parquet")

_DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile)
_SURROGATE = re.compile("[\ud800-\udfff]")


class Nested(str):
    """A list or an object of a file, as text. It is neither a label nor a text of an example."""


def is_table(source: str) -> bool:
    """Whether `source` is a file with a header, which may be missing."""
    return not source.startswith(HUB) and source.removesuffix(".gz").endswith(_TABLES)


def read_rows(source: str, bad: Bad | None = None, columns: tuple[str, ...] = ()) -> Iterator[Row]:
    """The rows of a file, or of `hub:REPOSITORY[@REVISION][:CONFIGURATION]:SPLIT`.

    `columns` names the columns of a table without a header.
    """
    if source.startswith(HUB):
        yield from _hub_rows(source)
        return
    suffix = "".join(Path(source).suffixes[-2:]) if source.endswith(".gz") else Path(source).suffix
    if suffix not in SUFFIXES:
        raise UserError(f"{source} has an unknown ending", f"give a file that ends in {', '.join(SUFFIXES)}")
    complain = bad or partial(_refuse, source)
    with open_source(source) as file:
        if suffix == ".parquet":
            yield from _parquet_rows(source, file)
            return
        text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        if suffix.startswith(".jsonl"):
            yield from json_rows(text, complain)
        else:
            yield from table_rows(source, text, lambda: _lines_of(source), complain, list(columns))


def _lines_of(source: str) -> Iterator[str]:
    with open_source(source) as file:
        yield from io.TextIOWrapper(file, encoding="utf-8-sig", newline="")


@contextmanager
def open_source(source: str) -> Iterator[IO[bytes]]:
    """A file of data, unpacked. Whatever is wrong with the file is a `UserError`."""
    try:
        with open_data(source) as file:
            yield file
    except UnicodeDecodeError:
        raise UserError(f"{source}{_undecodable_line(source)}: not UTF-8 text", "save it as UTF-8") from None
    except _DAMAGED as error:
        raise UserError(f"{source} is a damaged or truncated gzip file ({error})", "fetch it again") from None
    except FileNotFoundError:
        raise UserError(f"{source} does not exist", "check the path") from None
    except NotADirectoryError:
        raise UserError(f"{source} does not exist: a part of its path is a file", "check the path") from None
    except OSError as error:
        raise UserError(f"{source} cannot be read ({error.strerror or error})", "check the path") from None


def bad_row(source: str, line: int, problem: str) -> UserError:
    fix = "correct it, or leave such rows out: bad_rows: skip (--bad-rows skip)"
    return UserError(f"{source}, line {line}: {problem}", fix)


def python_literal(text: str) -> Any:
    """The Python literal in a cell. Nothing is executed, and whatever is no literal raises a ValueError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about what looks like a mistake in a program
            return ast.literal_eval(text)
    except Exception as error:  # of texts that no one wrote by hand: MemoryError, RecursionError, TypeError, ...
        raise ValueError(f"not a literal: {type(error).__name__}") from error


def _refuse(source: str, line: int, problem: str) -> NoReturn:
    raise bad_row(source, line, problem)


def _undecodable_line(source: str) -> str:
    with open_data(source) as file, suppress(*_DAMAGED):
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return f", line {number}"
    return ""


def json_rows(file: Iterable[str], bad: Bad) -> Iterator[Row]:
    """The rows of JSON lines."""
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            cells = _plain(row) if isinstance(row, dict) else None
        except (ValueError, RecursionError) as error:
            bad(number, f"not JSON ({getattr(error, 'msg', error)}): one object per line is needed")
            continue
        if cells is None:
            bad(number, "not a JSON object: one object per line is needed")
        elif "\\u" in line and (problem := broken_character("".join((*cells, *cells.values())))):
            bad(number, problem)
        else:
            yield number, cells


def broken_character(text: str) -> str | None:
    """The problem of a text with half of a character, which JSON can write and UTF-8 cannot."""
    return "half a character (\\ud800 to \\udfff), which no model can read" if _SURROGATE.search(text) else None


def _plain(row: Mapping[str, Any]) -> dict[str, str]:
    """Values as text, without columns that have no value or bytes that are not text."""
    return {str(name): text for name, value in row.items() if (text := _text(value)) is not None}


def _text(value: Any) -> str | None:
    """A value as text. The lists of FEVER's evidence are one text, any other list and any object are `Nested`."""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)):
        evidence = _evidence(value)
        return Nested(list(value)) if evidence is None else " ".join(filter(None, evidence))
    if isinstance(value, dict):
        return Nested(value)
    if isinstance(value, bytes):
        return decoded(value)
    if isinstance(value, float):  # a column with a gap turns 1 into 1.0
        return None if math.isnan(value) else str(int(value) if value.is_integer() else value)
    return None if value is None else str(value)


def decoded(value: bytes) -> str | None:
    """Bytes as text; None if they are no text, such as a picture."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _evidence(items: list[Any] | tuple[Any, ...], inner: bool = False) -> list[str] | None:
    """The texts in the lists of FEVER's evidence, without page names and sentence numbers; None of any other list.

    `inner`: in another list, where a number may be a text, because parquet has one type for all items.
    """
    match items:
        case [str(), number, str(text)] if isinstance(number, int) or (inner and str(number).isdigit()):
            return [text]  # [page, number, text]
        case [int() | None, int() | None, str() | None, int() | None]:
            return []  # FEVER's own files only refer to the text: [annotation, evidence, page, number]
    parts = [_evidence(each, inner=True) if isinstance(each, (list, tuple)) else None for each in items]
    return None if None in parts else [text for part in parts if part is not None for text in part]


def _parquet_rows(source: str, file: IO[bytes]) -> Iterator[Row]:
    import pyarrow
    from pyarrow import parquet

    try:
        table = parquet.ParquetFile(file)
        names, number = table.schema_arrow.names, 0
        check_names(source, names)
        for batch in table.iter_batches(batch_size=8192):
            for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                number += 1
                yield number, _plain(dict(zip(names, values, strict=True)))
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
        why = shortened(str(error), 200)
        raise UserError(f"{source} cannot be read as parquet ({why})", "is it complete? Write it again") from None


# --- the Hub -------------------------------------------------------------------------------------------------------


def _hub_rows(source: str) -> Iterator[Row]:
    repository, revision, configuration, split = _parse_hub(source)
    from datasets import ClassLabel, load_dataset
    from datasets.utils import disable_progress_bars

    disable_progress_bars()
    try:
        # no code of a dataset is executed: `datasets` no longer supports scripts, so `trust_remote_code` is not passed
        with guarded_hub():
            data = load_dataset(repository, configuration, split=split, revision=revision)
    except Exception as error:  # many types, from several libraries
        why = shortened(reason(error), 200)
        allow = f"set {DOWNLOAD_VARIABLE}=1 to allow a download, or give files with --data"
        raise UserError(f"{source} cannot be loaded ({why})", "check the name" if may_download() else allow) from None
    names = {name: f for name, f in data.features.items() if isinstance(f, ClassLabel)}
    for number, row in enumerate(data, start=1):
        yield number, _plain({name: class_name(names.get(name), value) for name, value in row.items()})


def class_name(feature: Any, value: Any) -> Any:
    """The name of a class, which the Hub stores as a number; -1 is a missing label."""
    if feature is None or value is None:
        return value
    return feature.int2str(value) if value >= 0 else "-"


def _parse_hub(source: str) -> tuple[str, str | None, str | None, str]:
    """(repository, revision, configuration, split)."""
    parts = source.removeprefix(HUB).split(":")
    if len(parts) not in (2, 3) or not all(parts) or parts[0].startswith("@") or parts[0].endswith("@"):
        raise UserError(
            f"'{source}' is not a dataset of the Hub", "write hub:REPOSITORY[@REVISION][:CONFIGURATION]:SPLIT"
        )
    repository, _, revision = parts[0].partition("@")
    return repository, revision or None, parts[1] if len(parts) == 3 else None, parts[-1]
