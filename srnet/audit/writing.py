"""The folder of an audit: `audit.json`, `examples.csv` and `audit.html`, written whole or not at all."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from srnet.audit.disagreement import disagree
from srnet.audit.page import render_page
from srnet.audit.report import Audit
from srnet.audit.rows import Judged
from srnet.errors import UserError
from srnet.files import new_folder, require_writable, spreadsheet_cell, write_bytes, write_json

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
