"""Commands as a user types them, run in this process."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer.main
from processes import PROGRESS

from srnet.cli.program import app, main


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    """The exit code of `srnet ...`."""
    monkeypatch.setattr(sys, "argv", ["srnet", *map(str, words)])
    with pytest.raises(SystemExit) as exit:
        main()
    return int(exit.value.code or 0)


def error_line(stderr: str) -> str:
    """The one line of an error, but for progress."""
    lines = [line for line in stderr.splitlines() if not line.startswith(PROGRESS)]
    assert len(lines) == 1, stderr
    assert lines[0].startswith("srnet: ")
    return lines[0]


def every_command(group: Any = None, *words: str) -> dict[tuple[str, ...], Any]:
    """Every command by its words, ("data", "check")."""
    found: dict[tuple[str, ...], Any] = {}
    for name, each in (group or typer.main.get_command(app)).commands.items():
        found |= every_command(each, *words, name) if hasattr(each, "commands") else {(*words, name): each}
    return found


@dataclass
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Shell:
    """`srnet ...` in this process, with a tiny task, a tiny backbone and a store of its own."""

    def __init__(
        self, folder: Path, backbone: str, trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
    ) -> None:
        self.folder, self.store, self.backbone, self.trained = folder, folder / "store", backbone, trained
        self._monkeypatch, self._capsys = monkeypatch, capsys
        self.task = folder / "task.yaml"
        self.task.write_text("{name: inference, train_size: 100, dev_size: 50, ood_size: 50}\n")
        monkeypatch.chdir(folder)
        monkeypatch.setenv("SRNET_STORE", str(self.store))

    def __call__(self, *words: object) -> Outcome:
        self._monkeypatch.setattr(sys, "argv", ["srnet", *map(str, words)])
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as exit:
            main()
        captured = self._capsys.readouterr()
        return Outcome(int(exit.value.code or 0), captured.out, captured.err)

    def fails(self, *words: object) -> str:
        """The one line that a mistake is answered with."""
        outcome = self(*words)
        assert outcome.code == 2, outcome
        return error_line(outcome.err)

    def reproduce(self, *words: object) -> Outcome:
        return self("reproduce", *words, "--tasks", self.task, "--backbone", self.backbone)

    def finetune(self, *words: object) -> Outcome:
        return self("finetune", "--task", self.task, "--backbone", self.backbone, "--steps", 10, *words)

    def key(self) -> str:
        """A fine-tuned model in the store, which was empty; it is trained once for all tests."""
        if self.trained.exists():
            shutil.copytree(self.trained, self.store)
        key = str(self.finetune("--json", "--quiet").json["key"])
        if not self.trained.exists():
            shutil.copytree(self.store, self.trained)
        return key
