"""`srnet page`: it opens, Ctrl-C ends it at once, and mistakes are one line before any model is loaded."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from processes import ForkServer, until
from served import page_of, serving

from srnet import api
from srnet.cli.program import main
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.models import Pretrained
from srnet.pruners.magnitude import OneShot

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`srnet page ...` in this process: exit code and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SRNET_STORE", str(tmp_path / "store"))

    def call(*words: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["srnet", "page", *map(str, words)])
        with pytest.raises(SystemExit) as exit:
            main()
        return int(exit.value.code or 0), capsys.readouterr().err

    return call


def test_it_opens_and_ctrl_c_ends_it(raw: Pretrained, engine: Engine, fork_server: ForkServer, tmp_path: Path) -> None:
    keys = [api.prune(raw, OneShot(sparsity=sparsity), engine=engine).key for sparsity in (0.2, 0.9)]
    task = tmp_path / "task.yaml"
    task.write_text("{name: inference, train_size: 200, dev_size: 60, ood_size: 60}\n")
    words = ("page", *keys, "--task", task, "--port", 0, "--store", engine.store.root, "-q")
    command = fork_server.start(tmp_path, *words)
    line = until(lambda: "\n" in command.printed and command.printed, "an address", command)
    assert line.startswith("Page: http://127.0.0.1:")
    address = line.split()[1]
    body = json.dumps({"text_a": "the doctor slept", "text_b": "the doctor slept"}).encode()
    request = Request(f"{address}/api/pair", body, {"Content-Type": "application/json"})
    with urlopen(request, timeout=60) as answer:
        found = json.loads(answer.read())
    assert [len(each["probabilities"]) for each in found["answers"]] == [2, 2]
    assert found["shortcut"] is not None
    command.interrupt()
    assert (command.code, command.printed, command.said) == (0, f"{line}closed\n", "")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("a", "b", "--task", "nothing"), "unknown task 'nothing'"),
        (("a", "b"), "--task"),
        (("a", "--task", "inference"), "B"),
        (("a", "b", "--task", "inference", "--port", "99999"), "port 99999 is too large"),
        (("a", "b", "--task", "inference", "--port", "-1"), "too small"),
        (("a", "b", "--task", "inference", "--host", "192.0.2.1"), "192.0.2.1 port 8000 is no address of this machine"),
        (("/nowhere", "b", "--task", "inference", "--port", "0"), "/nowhere"),
        (("a", "b", "--task", "inference", "--surprise"), "surprise"),
    ],
)
def test_a_mistake_is_one_line(run: Run, words: tuple[str, ...], told: str) -> None:
    code, err = run(*words)
    assert code == 2
    assert told in err
    assert len(err.splitlines()) == 1


def test_a_port_in_use_is_one_line(run: Run) -> None:
    with serving(page_of()) as running:
        code, err = run("a", "b", "--task", "inference", "--port", running.page.port)
    assert code == 2
    assert err == f"srnet: port {running.page.port} of 127.0.0.1 is in use; give another --port; 0 takes a free one\n"


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_without_its_libraries_it_says_how_to_install_them(
    run: Run, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    code, err = run("a", "b", "--task", "inference")
    assert code == 2
    assert err == f"srnet: the page needs {missing}, which is not installed; pip install starlette uvicorn\n"
