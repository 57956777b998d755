"""What reaches the terminal: no control characters of names and texts, and something at any width."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from commands import run
from fuzz.valid import ROWS, csv_text, write_task
from rich.table import Table

from srnet.core.progress import Reporter, Terminal

ESCAPES = "\x1b[31m\x9b31m\x07\x08\r\x7f\u202e"
"""A colour in two ways, a bell, a step back, a return, a deletion, and text that runs to the left."""


def is_clean(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


def shown(*objects: Any) -> str:
    file = io.StringIO()
    Terminal(file=file, soft_wrap=True).print(*objects, sep="\n")
    return file.getvalue()


def test_lines_and_tables_hold_no_control_characters() -> None:
    table = Table(f"a column{ESCAPES}", title=f"a title{ESCAPES}")
    table.add_row(f"a cell{ESCAPES}")
    printed = shown(f"a line{ESCAPES}\nanother [bold]line[/x]", table)
    assert is_clean(printed)
    assert "another [bold]line[/x]\n" in printed
    assert all(part in printed for part in ("a line", "a column", "a title", "a cell"))
    assert len({len(row) for row in printed.splitlines()[3:]}) == 1, "the columns are aligned"


def test_what_words_need_and_colours_of_our_own_stay() -> None:
    assert shown("\u0645\u06cc\u200c\u062e é 日本 🤯") == "\u0645\u06cc\u200c\u062e é 日本 🤯\n"
    file = io.StringIO()
    Terminal(file=file, force_terminal=True, color_system="standard", width=80).print("a\x1b[31m", style="dim")
    assert file.getvalue() == "\x1b[2ma\ufffd[31m\x1b[0m\n"


def test_json_stays_exact() -> None:
    data, file = {f"é{ESCAPES}": ["\U000e0001\ud800", 1.5, None]}, io.StringIO()
    Terminal(file=file).print_json(data=data)
    assert is_clean(file.getvalue())
    assert json.loads(file.getvalue()) == data
    assert "é" in file.getvalue()


def test_progress_holds_none(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    reporter = Reporter()
    reporter.say(f"said{ESCAPES}")
    reporter.warn(f"warned{ESCAPES}")
    assert is_clean(capsys.readouterr().err)
    file = io.StringIO()
    reporter.console, reporter.live = Terminal(file=file, force_terminal=True, width=200), True
    with reporter.session():
        reporter.begin(1, 2, f"[/x] a step{ESCAPES}").finish()
    assert "[1/2] [/x] a step" in file.getvalue()
    assert "\x1b[31m" not in file.getvalue()
    assert "\x9b" not in file.getvalue()


@pytest.mark.parametrize("columns", ["0", "1", "5"])
def test_an_unknown_width_hides_nothing(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    table = Table("a column")
    table.add_row("a cell")
    printed = shown("a line", table)
    assert all(part in printed for part in ("a line", "a column", "a cell"))


def test_names_of_folders_columns_and_labels_are_printed_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / f"folder{ESCAPES}"
    folder.mkdir()
    task = write_task(folder, labels=["no", f"yes{ESCAPES}"], train="t.csv")
    (folder / "t.csv").write_text(csv_text([(*texts, "no") for *texts, _ in ROWS], ("text_a", ESCAPES, "label")))
    assert run(monkeypatch, "data", "check", task) != 0
    write_task(folder)
    assert run(monkeypatch, "data", "write", task, "--out", folder / "made") == 0
    captured = capsys.readouterr()
    assert all("folder" in text for text in captured)
    assert is_clean(captured.out)
    assert is_clean(captured.err)
