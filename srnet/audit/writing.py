"""One HTML page that needs no network: tables, and the rows to filter and search."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment

from srnet import __version__
from srnet.audit.outcomes import Failure
from srnet.audit.report import Audit
from srnet.audit.rows import Found, Judged, disagree, worst_first
from srnet.audit.tables import tables_of
from srnet.core.errors import UserError
from srnet.core.files import new_folder, require_writable, spreadsheet_cell, write_bytes, write_json

LARGEST = 6_000_000
"""Bytes of a page."""
LONGEST = 1000
"""Characters of a text on the page."""
TABLE_ROWS = 200
LEAD = 4
"""Tables that are open; the others are folded."""
FAILURES = 8
"""Failures of a rule that are shown."""
_PLACE = "<!-- data -->"


def render_page(audit: Audit, largest: int = LARGEST) -> bytes:
    """The page, with as many rows as fit into `largest` bytes, the worst first."""
    # the longest that the page can become without rows: what it says about rows left out is part of it
    empty = _filled(audit, [], audit.rows)
    rows, room = [], largest - len(empty)
    for found in worst_first(audit.splits):
        row = _script_safe(_row(found))
        room -= len(row.encode(errors="replace")) + 1
        if room < 0:
            break
        rows.append(row)
    return _filled(audit, rows, audit.rows - len(rows))


def _filled(audit: Audit, rows: list[str], left_out: int) -> bytes:
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
        files("srnet.audit").joinpath("page.html").read_text(encoding="utf-8")
    )
    body = template.render(
        audit=audit,
        named=list(zip(audit.letters, audit.models, strict=True)),
        tables=tables_of(audit),
        lead=LEAD,
        most=TABLE_ROWS,
        failures=_failures(audit),
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
    before, after = body.split(_PLACE)
    return f"{before}{data}{after}".encode(errors="replace")


def _has_long_text(judged: Judged) -> bool:
    return any(len(text) > LONGEST for text in (*judged.split.text_a, *judged.split.text_b))


def _script_safe(value: Any) -> str:
    """JSON in which nothing can end the script or begin a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _row(found: Found) -> list[Any]:
    judged, row = found.judged, found.row
    split, bias = judged.split, judged.bias
    return [
        found.place,
        split.ids[row],
        split.groups[row],
        shortened(split.text_a[row]),
        shortened(split.text_b[row]),
        int(judged.labels[row]),
        [int(each.answers[row]) for each in judged.models],
        [round(float(each.probabilities[row, each.answers[row]]), 4) for each in judged.models],
        None if judged.overlap is None else round(float(judged.overlap[row]), 3),
        None if bias is None else int(bias.answers[row]),
        None if bias is None else round(float(bias.probabilities[row, bias.answers[row]]), 3),
        int(found.disagree),
    ]


def shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


def _failures(audit: Audit) -> list[tuple[str, str, list[dict[str, Any]]]]:
    return [
        (each.rule, each.says, [_shown(audit, failure) for failure in each.examples[:FAILURES]])
        for each in audit.contrast
        if each.examples
    ]


def _shown(audit: Audit, failure: Failure) -> dict[str, Any]:
    texts = {name: shortened(getattr(failure, name)) for name in ("text_a", "text_b", "original_a", "original_b")}
    return {
        **texts,
        "label": failure.label,
        "expected": failure.expected,
        "answers": list(zip(audit.letters, failure.before, failure.after, failure.fails, strict=True)),
    }


# --- the folder of an audit: `audit.json`, `examples.csv` and `audit.html`, written whole or not at all ---

JSON, CSV, PAGE = "audit.json", "examples.csv", "audit.html"


def check_writable(out: Path) -> None:
    """Refuse a folder that cannot be written, or that holds anything but an earlier audit."""
    if out.resolve() == Path.cwd() or (out.exists() and not out.is_dir()):
        raise UserError(f"{out} cannot be the folder of an audit", "choose a new folder: --out DIR")
    if out.is_dir():
        foreign = sorted(each.name for each in out.iterdir() if each.name not in (JSON, CSV, PAGE))
        if foreign:
            raise UserError(f"{out} holds other files, such as {foreign[0][:80]}", "choose a new folder: --out DIR")
    require_writable(out)


def write_audit(audit: Audit, out: Path) -> Path:
    """The files of an audit; an earlier audit there is replaced."""
    page = render_page(audit)
    with new_folder(out, replace=True) as staging:
        write_json(staging / JSON, audit.to_json())
        write_bytes(staging / PAGE, page)
        with (staging / CSV).open("w", newline="", encoding="utf-8", errors="replace") as file:
            table = csv.writer(file)
            table.writerow(_header(audit))
            table.writerows(map(spreadsheet_cell, row) for judged in audit.splits for row in _rows(judged))
    return out


def _header(audit: Audit) -> list[str]:
    of_models = [f"{what}_{letter.lower()}" for letter in audit.letters for what in ("answer", "probability", "right")]
    more = ["disagree", "word_overlap", "shortcut_answer", "shortcut_probability"]
    return ["split", "kind", "id", "group", "label", *of_models, *more, "text_a", "text_b"]


def _rows(judged: Judged) -> Iterator[list[Any]]:
    split, classes, bias = judged.split, judged.classes, judged.bias
    differ = disagree(judged)
    for row in range(len(split)):
        models = [
            cell
            for each in judged.models
            for cell in (
                classes[each.answers[row]],
                f"{each.probabilities[row, each.answers[row]]:.6f}",
                int(each.answers[row] == split.labels[row]),
            )
        ]
        shortcut = ["", ""]
        if bias is not None:
            shortcut = [classes[bias.answers[row]], f"{bias.probabilities[row, bias.answers[row]]:.6f}"]
        overlap = "" if judged.overlap is None else f"{judged.overlap[row]:.6f}"
        yield [
            *(split.name, split.kind, split.ids[row], split.groups[row], classes[split.labels[row]]),
            *models,
            *(int(differ[row]), overlap, *shortcut),
            *(split.text_a[row], split.text_b[row]),
        ]
