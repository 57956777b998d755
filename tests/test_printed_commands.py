"""Commands that are printed to be run next work in the shell of the user, however the program was started."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from commands import Shell

import srnet
from srnet.cli.program import program, runnable


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with nothing on PATH."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str = "srnet") -> Path:
    """A program in `folder` by which this process was started."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(path)])
    return path


@pytest.mark.parametrize(
    ("folder", "name", "printed"),
    [
        ("bin", "srnet", "srnet"),  # on PATH
        (".venv/bin", "srnet", ".venv/bin/srnet"),
        ("with a space/bin", "srnet", "'with a space/bin/srnet'"),
        (".", "srnet", "./srnet"),
        ("scripts", "mine.py", "srnet"),  # a script that imports srnet
    ],
)
def test_a_program_is_named_as_it_was_started(
    folder: str, name: str, printed: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(here / folder, monkeypatch, name)
    assert program() == printed


def test_another_srnet_on_path_is_not_taken_for_this_one(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(here / "bin", monkeypatch)
    installed(here / ".venv" / "bin", monkeypatch)
    assert program() == ".venv/bin/srnet"


def test_a_module_is_started_as_a_module(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = installed(here / ".venv" / "bin", monkeypatch, "python")
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(sys, "argv", [str(Path(srnet.__file__).with_name("__main__.py"))])
    assert program() == ".venv/bin/python -m srnet"
    monkeypatch.setenv("PATH", str(python.parent))
    assert program() == "python -m srnet"


def test_every_command_of_a_text_and_nothing_else_is_adapted(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(here / ".venv" / "bin", monkeypatch)
    assert runnable("srnet page a b") == ".venv/bin/srnet page a b"
    text = "srnet: of srnet models, see `srnet store ls`, then `srnet --help`, in srnet-demo"
    assert runnable(text) == text.replace("`srnet ", "`.venv/bin/srnet ")


def test_hints_of_errors_are_adapted(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srnet.cli.program.program", lambda: ".venv/bin/srnet")
    assert "`.venv/bin/srnet data check --help`" in shell.fails("data", "check", "--nonsense")
    assert "`.venv/bin/srnet store ls`" in shell.fails("evaluate", "0123456789")
