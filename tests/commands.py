"""Commands as a user types them, run in this process."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from processes import PROGRESS

from srnet.cli.program import main


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
        lines = [line for line in outcome.err.splitlines() if not line.startswith(PROGRESS)]
        assert len(lines) == 1, outcome.err
        assert lines[0].startswith("srnet: ")
        return lines[0]

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
