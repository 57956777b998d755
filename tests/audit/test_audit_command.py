"""`srnet audit`: what it prints and writes, and mistakes in one line before anything is computed."""

from __future__ import annotations

import json

import pytest
from commands import Shell

import srnet
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.models import Pretrained
from srnet.pruners.magnitude import OneShot


@pytest.fixture
def keys(raw: Pretrained, engine: Engine) -> list[str]:
    return [srnet.prune(raw, OneShot(sparsity=sparsity), engine=engine).key for sparsity in (0.2, 0.9)]


def test_two_models_are_compared(shell: Shell, keys: list[str]) -> None:
    done = shell("audit", *keys, "--task", shell.task, "--contrast", "--contrast-rows", 10)
    assert done.code == 0, done.err
    for words in ("ID dev", "OOD challenge", "B minus A", "Loyalty of B to A", "bias confidence", "over word overlap"):
        assert words in done.out
    assert "case-and-punctuation" in done.out
    assert "srnet-audit/audit.html" in done.out
    assert (shell.folder / "srnet-audit" / "examples.csv").is_file()


def test_without_a_task_it_is_that_of_the_first_model(shell: Shell, keys: list[str]) -> None:
    done = shell("audit", keys[0], "--json", "-q", "--out", "there")
    assert done.json == json.loads((shell.folder / "there" / "audit.json").read_text())
    assert {each["split"]: each["rows"] for each in done.json["scores"]} == {"dev": 60, "challenge": 60}
    (shell.folder / "folder").mkdir()
    for words in (("folder",), (keys[0], "--rows", "dev=5")):
        assert "--task" in shell.fails("audit", *words, "--out", "other")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--task", "nothing"), "nothing"),
        ((), "0123456789abcdef"),
        (("--task", "task.yaml", "--out", "task.yaml"), "task.yaml"),
        (("--task", "task.yaml", "--out", "task.yaml/below"), "task.yaml"),
        (("--task", "task.yaml", "--contrast-rows", "5"), "--contrast"),
        (("--task", "task.yaml", "--shortcut", "nothing"), "kinds: claim, "),
    ],
)
def test_a_mistake_is_one_line_before_models_are_loaded(shell: Shell, words: tuple[str, ...], named: str) -> None:
    line = shell.fails("audit", "0123456789abcdef", *words)
    assert named in line
    assert ("0123456789abcdef" in line) == (not words)
    assert not (shell.folder / "srnet-audit").exists()
