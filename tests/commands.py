"""Commands as a user types them, run in this process."""

from __future__ import annotations

import sys

import pytest

from srnet.cli import main


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    """The exit code."""
    monkeypatch.setattr(sys, "argv", ["srnet", *map(str, words)])
    with pytest.raises(SystemExit) as exit:
        main()
    return int(exit.value.code or 0)


def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The one line that a command ends with."""
    assert run(monkeypatch, *words) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1, said
    assert said[0].startswith("srnet: ")
    return said[0]
