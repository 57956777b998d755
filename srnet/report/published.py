"""The papers' own numbers, beside ours: of BERT-sized models on real data; those of SMP with distillation."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class PublishedTable:
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


@lru_cache(maxsize=1)
def _published() -> Any:
    return json.loads(files("srnet.report").joinpath("published.json").read_text(encoding="utf-8"))


def statements() -> dict[str, str]:
    """What the papers say about a figure, by its name."""
    found: dict[str, str] = _published()["statements"]
    return found


def published_table(figure: str, task: str) -> PublishedTable | None:
    """The papers' numbers for a figure on a task like this one, if they print any."""
    like = _published()["like"].get(task, task)
    for table in _published()["tables"]:
        if (table["figure"], table["task"]) == (figure, like):
            rows = tuple((label, tuple(cells)) for label, cells in table["rows"].items())
            return PublishedTable(tuple(table["columns"]), rows)
    return None
