"""`srnet page`: it opens, Ctrl-C ends it at once, and mistakes are one line before any model is loaded."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from commands import Shell
from processes import ForkServer, until
from served import page_of, serving

import srnet
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.models import Pretrained
from srnet.pruners.magnitude import OneShot


def test_it_opens_and_ctrl_c_ends_it(raw: Pretrained, engine: Engine, fork_server: ForkServer, tmp_path: Path) -> None:
    keys = [srnet.prune(raw, OneShot(sparsity=sparsity), engine=engine).key for sparsity in (0.2, 0.9)]
    task = tmp_path / "task.yaml"
    task.write_text("{name: inference, train_size: 200, dev_size: 60, ood_size: 60}\n")
    words = ("page", *keys, "--task", task, "--port", 0, "--store", engine.store.root, "-q")
    command = fork_server.start(tmp_path, *words)
    line = until(lambda: "\n" in command.printed and command.printed, "an address", command)
    assert line.startswith("Page: http://127.0.0.1:")
    body = json.dumps({"text_a": "the doctor slept", "text_b": "the doctor slept"}).encode()
    request = Request(f"{line.split()[1]}/api/pair", body, {"Content-Type": "application/json"})
    with urlopen(request, timeout=60) as answer:
        found = json.loads(answer.read())
    assert [len(each["probabilities"]) for each in found["answers"]] == [2, 2]
    assert found["shortcut"] is not None
    command.interrupt()
    assert (command.code, command.printed, command.said) == (0, f"{line}closed\n", "")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("a", "b"), "--task"),
        (("a", "--task", "inference"), "B"),
        (("a", "b", "--task", "inference", "--port", "99999"), "99999"),
        (("/nowhere", "b", "--task", "inference", "--port", "0"), "/nowhere"),
        (("a", "b", "--task", "inference", "--host", "0.0.0.0"), "--host"),
    ],
)
def test_a_mistake_is_one_line(shell: Shell, words: tuple[str, ...], named: str) -> None:
    assert named in shell.fails("page", *words)


def test_a_port_in_use_is_one_line(shell: Shell) -> None:
    with serving(page_of()) as page:
        line = shell.fails("page", "a", "b", "--task", "inference", "--port", page.port)
    assert f"port {page.port} " in line
    assert "--port" in line


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_without_its_libraries_it_says_how_to_install_them(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    line = shell.fails("page", "a", "b", "--task", "inference")
    assert f"the page needs {missing}" in line
    assert line.endswith("pip install starlette uvicorn")
