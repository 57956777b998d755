"""The folder of an audit: `audit.json`, `examples.csv`, and `audit.html`, one page that needs no network."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment

from srnet import __version__
from srnet.audit import chart
from srnet.audit.report import Audit
from srnet.audit.rows import Judged, RankedRow, worst_first
from srnet.audit.tables import detail_tables, main_tables
from srnet.core.errors import UserError
from srnet.core.files import new_folder, require_writable, spreadsheet_cell, write_bytes, write_json
from srnet.core.prose import html_of
from srnet.report.glossary import GLOSSARY

LARGEST = 6_000_000
"""Bytes of a page."""
LONGEST = 1000
"""Characters of a text on the page."""
_TABLE_ROWS = 200
_FAILURES = 8
"""Failures of a rule that are shown."""
_WORDS = ("ID", "OOD", "shortcut", "bias model", "worst group", "pair", "interval")
"""Of the glossary: those that are on the page."""
_DATA = "<!-- data -->"
_JSON, _CSV, _PAGE = "audit.json", "examples.csv", "audit.html"


def check_writable(out: Path) -> None:
    """Refuse a folder that cannot be written, or that holds anything but an earlier audit."""
    if out.resolve() == Path.cwd() or (out.exists() and not out.is_dir()):
        raise UserError(f"{out} cannot be the folder of an audit", "choose a new folder: --out DIR")
    if out.is_dir():
        foreign = sorted(each.name for each in out.iterdir() if each.name not in (_JSON, _CSV, _PAGE))
        if foreign:
            raise UserError(f"{out} holds other files, such as {foreign[0][:80]}", "choose a new folder: --out DIR")
    require_writable(out)


def write_audit(audit: Audit, out: Path) -> Path:
    """Write the files of an audit, all or none; an earlier audit in the folder is replaced."""
    page = _render_page(audit)
    with new_folder(out, replace=True) as staging:
        write_json(staging / _JSON, audit.to_json())
        write_bytes(staging / _PAGE, page)
        with (staging / _CSV).open("w", newline="", encoding="utf-8", errors="replace") as file:
            table = csv.writer(file)
            for number, judged in enumerate(audit.splits):
                columns = _columns(judged)
                if number == 0:
                    table.writerow(columns)
                table.writerows(map(spreadsheet_cell, row) for row in zip(*columns.values(), strict=True))
    return out


def _columns(judged: Judged) -> Mapping[str, Iterable[Any]]:
    """The cells of `examples.csv` for a split, by the names of the columns."""
    split, empty = judged.split, [""] * len(judged.split)
    columns: dict[str, Iterable[Any]] = {
        "split": [split.name] * len(split),
        "kind": [split.kind] * len(split),
        "id": split.ids,
        "group": split.groups,
        "label": _named(judged, split.labels),
    }
    for letter, model, right in zip("ab", judged.models, judged.right, strict=False):
        columns[f"answer_{letter}"] = _named(judged, model.answers)
        columns[f"probability_{letter}"] = _decimals(model.confidence)
        columns[f"right_{letter}"] = map(int, right)
    columns["disagree"] = map(int, judged.disagree)
    columns["word_overlap"] = empty if judged.overlap is None else _decimals(judged.overlap)
    columns["shortcut_answer"] = empty if judged.bias is None else _named(judged, judged.bias.answers)
    columns["shortcut_probability"] = empty if judged.bias is None else _decimals(judged.bias.confidence)
    return columns | {"text_a": split.text_a, "text_b": split.text_b}


def _named(judged: Judged, answers: np.ndarray) -> Iterable[str]:
    return (judged.classes[answer] for answer in answers)


def _decimals(values: np.ndarray) -> Iterable[str]:
    return (f"{value:.6f}" for value in values)


# --- the page: tables, and the rows to filter and search ---


def _render_page(audit: Audit, largest: int = LARGEST) -> bytes:
    """The page, with as many rows as fit into `largest` bytes, the worst first."""
    rows: list[str] = []
    room = largest - len(_filled(audit, rows, audit.rows))  # the longest page without rows: it names all as left out
    for found in worst_first(audit.splits):
        row = _script_safe(_row(found))
        room -= len(row.encode(errors="replace")) + 1
        if room < 0:
            break
        rows.append(row)
    return _filled(audit, rows, audit.rows - len(rows))


def _filled(audit: Audit, rows: list[str], left_out: int) -> bytes:
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["shortened"] = _shortened
    environment.filters["prose"] = html_of
    template = environment.from_string(files("srnet.audit").joinpath("page.html").read_text(encoding="utf-8"))
    body = template.render(
        audit=audit,
        tables=main_tables(audit),
        details=detail_tables(audit),
        chart=chart,
        panels=chart.panels_of(audit),
        pairs=any(each.overlap is not None for each in audit.splits),
        glossary={word: GLOSSARY[word] for word in _WORDS},
        most=_TABLE_ROWS,
        failures=_FAILURES,
        left_out=left_out,
        shortened=any(map(_has_long_text, audit.splits)),
        longest=LONGEST,
        version=__version__,
    )
    head = _script_safe(
        {
            "splits": [each.split.name for each in audit.splits],
            "classes": [list(each.classes) for each in audit.splits],
            "models": len(audit.models),
            "pairs": any(each.overlap is not None for each in audit.splits),
        }
    )
    data = f'{head[:-1]},"rows":[{",".join(rows)}]}}'
    before, after = body.split(_DATA)
    return f"{before}{data}{after}".encode(errors="replace")


def _has_long_text(judged: Judged) -> bool:
    return any(len(text) > LONGEST for text in (*judged.split.text_a, *judged.split.text_b))


def _script_safe(value: Any) -> str:
    """JSON in which nothing can end the script or begin a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _row(found: RankedRow) -> list[Any]:
    judged, row = found.judged, found.row
    split, bias = judged.split, judged.bias
    return [
        found.place,
        split.ids[row],
        split.groups[row],
        _shortened(split.text_a[row]),
        _shortened(split.text_b[row]),
        int(judged.labels[row]),
        [int(each.answers[row]) for each in judged.models],
        [round(float(each.confidence[row]), 4) for each in judged.models],
        None if judged.overlap is None else round(float(judged.overlap[row]), 3),
        None if bias is None else int(bias.answers[row]),
        None if bias is None else round(float(bias.confidence[row]), 3),
        int(found.disagree),
    ]


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."
