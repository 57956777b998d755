"""Data in memory as rows of plain values: tables of pandas, pyarrow, polars and `datasets`, and Python's own."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from srnet.core.errors import UserError, reason
from srnet.tasks.reading import broken_character, class_name, decoded
from srnet.tasks.tables import check_names

_DEV = ("validation", "dev", "valid", "val", "validation_matched")
"""What datasets call the split that chooses checkpoints; the first that is there."""
_KINDS = "a file, a DataFrame, a datasets.Dataset, a list of dicts or a dict of lists"


def is_path(source: Any) -> bool:
    return isinstance(source, str | Path)


def is_splits(source: Any) -> bool:
    """Whether it is a `DatasetDict`, or another mapping of splits with rows of their own."""
    return isinstance(source, Mapping) and "train" in source and all(map(_is_table, source.values()))


def named_splits(splits: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Train, dev and test of a `DatasetDict`, and the names of its other splits."""
    dev = next((name for name in _DEV if name in splits), None)
    roles = {"train": "train", **({"dev": dev} if dev else {}), **({"test": "test"} if "test" in splits else {})}
    found = {role: splits[name] for role, name in roles.items()}
    return found, [name for name in splits if name not in roles.values()]


def json_lines(name: str, source: Any) -> bytes:
    """The rows of a split, one JSON object a line. Texts are exactly as they were."""
    lines = []
    for number, row in enumerate(_rows(name, source), start=1):
        try:
            check_names(f"{name}, row {number}", list(map(str, row)))
            line = json.dumps(_plain(row), ensure_ascii=False)
        except (ValueError, RecursionError) as error:  # a number of 5,000 digits, a list that contains itself
            raise UserError(f"{name}, row {number}: a value cannot be stored ({reason(error)})", "remove it") from None
        if problem := broken_character(line):
            raise UserError(f"{name}, row {number}: {problem}", "remove it")
        lines.append(line + "\n")
    if not lines:
        raise UserError(f"{name} has no rows", "give it at least one example")
    return "".join(lines).encode()


def _is_table(value: Any) -> bool:
    is_rows = isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(e, Mapping) for e in value)
    return is_rows or _is_foreign(value)


def _is_foreign(value: Any) -> bool:
    """Whether it is the table of a library. They are known by their methods, so that none has to be imported."""
    return any(hasattr(value, name) for name in ("to_dict", "to_dicts", "to_pylist", "features"))


def _rows(name: str, source: Any) -> Iterable[Mapping[Any, Any]]:
    if hasattr(source, "to_dicts"):  # of polars
        return list(source.to_dicts())
    if hasattr(source, "to_dict") and hasattr(source, "columns"):  # of pandas, whose columns are attributes as well
        # a table may have two columns of the same name; 1 and "1" are the same when they are stored
        check_names(name, list(map(str, source.columns)))
        return _of_columns(name, {column: source[column].tolist() for column in source.columns})
    if hasattr(source, "features"):  # of datasets
        return _of_dataset(source)
    if hasattr(source, "to_pylist"):  # of pyarrow
        return list(source.to_pylist())
    if isinstance(source, Mapping):
        return _of_columns(name, source)
    if isinstance(source, Sequence) and not isinstance(source, str | bytes):
        for row in source:
            if not isinstance(row, Mapping):
                raise UserError(f"{name}: {row!r:.80} is not a row with named columns", f"give {_KINDS}")
        return source
    raise UserError(f"{name}: {type(source).__name__} is no data", f"give {_KINDS}")


def _of_columns(name: str, columns: Mapping[Any, Any]) -> Iterator[dict[Any, Any]]:
    if not columns or not all(isinstance(cells, Sequence) and not isinstance(cells, str) for cells in columns.values()):
        raise UserError(f"{name}: a dict needs a list for each column", f"give {_KINDS}")
    lengths = {len(cells) for cells in columns.values()}
    if len(lengths) > 1:
        counts = " and ".join(map(str, sorted(lengths)))
        raise UserError(f"{name}: columns have {counts} rows", "make them equally long")
    return (dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True))


def _of_dataset(source: Any) -> Iterator[dict[str, Any]]:
    """The rows of a `datasets.Dataset`, with the names of its classes instead of their numbers."""
    from datasets import ClassLabel

    classes = {name: each for name, each in (source.features or {}).items() if isinstance(each, ClassLabel)}
    rows = source.with_format(None) if hasattr(source, "with_format") else source
    return ({name: class_name(classes.get(name), value) for name, value in row.items()} for row in rows)


def _plain(value: Any) -> Any:
    """A value that JSON can hold. What is missing, or no text, is None; dates, infinity and the like are texts."""
    if isinstance(value, str | bool | int | None):
        return value
    if isinstance(value, bytes):
        return decoded(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(each) for each in value]
    if hasattr(value, "tolist"):  # arrays and numbers of numpy
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    return None if str(value) in ("<NA>", "NaT") else str(value)
