"""`srnet audit`: what it prints and writes, and mistakes in one line before anything is computed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from srnet import api
from srnet.cli.program import main
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.models import Pretrained
from srnet.pruners.magnitude import OneShot

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`srnet ...` in this process: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SRNET_STORE", str(tmp_path / "store"))
    (tmp_path / "task.yaml").write_text("{name: inference, train_size: 100, dev_size: 40, ood_size: 40}\n")

    def call(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["srnet", *map(str, words)])
        with pytest.raises(SystemExit) as exit:
            main()
        captured = capsys.readouterr()
        return int(exit.value.code or 0), captured.out, captured.err

    return call


@pytest.fixture
def keys(raw: Pretrained, engine: Engine) -> list[str]:
    return [api.prune(raw, OneShot(sparsity=sparsity), engine=engine).key for sparsity in (0.2, 0.9)]


def test_two_models_are_compared(run: Run, keys: list[str], tmp_path: Path) -> None:
    rules = tmp_path / "mine.py"
    rules.write_text(
        "from srnet.audit.contrast import Changed, rule\n"
        "@rule('reverse', 'the words of the first text are reversed')\n"
        "def reverse(row):\n    return Changed(' '.join(reversed(row.text_a.split())), row.text_b)\n"
    )
    code, out, err = run("audit", *keys, "--task", "task.yaml", "--rules", rules, "--contrast-rows", 10)
    assert code == 0, err
    for words in ("ID dev", "OOD challenge", "B minus A", "Loyalty of B to A", "over bias confidence", "reverse"):
        assert words in out
    assert "over word overlap" in out
    assert str(Path("srnet-audit") / "audit.html") in out
    assert (tmp_path / "srnet-audit" / "examples.csv").is_file()


def test_json_is_what_the_folder_has(run: Run, keys: list[str], tmp_path: Path) -> None:
    code, out, _ = run("audit", keys[0], "--task", "task.yaml", "--json", "-q", "--out", "there")
    assert code == 0
    assert json.loads(out) == json.loads((tmp_path / "there" / "audit.json").read_text())


def test_without_a_task_it_is_that_of_the_first_model(run: Run, keys: list[str], tmp_path: Path) -> None:
    code, out, err = run("audit", keys[0], "--json", "-q")
    assert code == 0, err
    assert {each["split"]: each["rows"] for each in json.loads(out)["scores"]} == {"dev": 60, "challenge": 60}
    (tmp_path / "folder").mkdir()
    for words, told in ((("folder",), "say which task"), ((keys[0], "--rows", "dev=5"), "add --task TASK")):
        code, _, err = run("audit", *words, "--out", "other")
        assert (code, told in err) == (2, True), err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--task", "nothing"), "unknown task 'nothing'"),
        ((), "no artifact"),
        (("--task", "task.yaml", "--out", "task.yaml"), "cannot be the folder"),
        (("--task", "task.yaml", "--rules", "absent.py"), "absent.py does not exist"),
        (("--task", "task.yaml", "--contrast", "--contrast-rows", "0"), "0"),
        (("--task", "task.yaml", "--contrast-rows", "5"), "add --contrast"),
        (("--task", "task.yaml", "--shortcut", "nothing"), "choose one of"),
        (("--task", "task.yaml", "--surprise"), "surprise"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(
    run: Run, tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    code, _, err = run("audit", "0123456789abcdef", *words)
    assert code == 2
    assert told in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "srnet-audit").exists()


def test_a_folder_that_cannot_be_written_is_refused_before_models_are_loaded(run: Run) -> None:
    code, _, err = run("audit", "0123456789abcdef", "--task", "task.yaml", "--out", "task.yaml/below")
    assert code == 2
    assert "task.yaml" in err
    assert "artifact" not in err
