"""The task family of CONTRIBUTING.md, registered from one file: by name, from YAML, and from the store."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from commands import Shell
from refusals import refused

from srnet.experiment.identity import describe
from srnet.experiment.nodes.models import Pretrained
from srnet.experiment.rebuild import rebuild
from srnet.recipes.tasks import DataOptions, read_task
from srnet.tasks.base import TASK_FAMILIES

GUIDE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()


@pytest.fixture
def sums(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The class of descriptions, registered for one test."""
    source = re.search(r"## A task family in one file.*?```python\n(.*?)```", GUIDE, re.DOTALL)
    assert source is not None
    module = ModuleType("sums")
    monkeypatch.setitem(sys.modules, "sums", module)
    exec(source[1], module.__dict__)
    yield module.SumsTask  # type: ignore[attr-defined]
    del TASK_FAMILIES["SumsTask"]


def test_examples_by_hand(sums: Any) -> None:
    task = sums(size=2000).load()
    for split in task.splits.values():
        for a, b, label in zip(split.text_a, split.text_b, split.labels, strict=True):
            assert label == (sum(map(int, a.split(" and "))) == int(b.removeprefix("it is ")))
    even = {name: [int(b[-1]) % 2 == 0 for b in split.text_b] for name, split in task.splits.items()}
    agree = {name: (even[name] == split.labels).mean() for name, split in task.splits.items()}
    assert agree == {name: pytest.approx(share, abs=0.06) for name, share in zip(agree, (0.9, 0.9, 0.5), strict=True)}


def test_by_name_from_yaml_and_from_the_store(sums: Any, tiny_backbone: str, tmp_path: Path) -> None:
    assert DataOptions().task("sums") == read_task("sums", "task") == sums()
    assert read_task({"name": "sums", "size": 50}, "task") == sums(size=50)
    (tmp_path / "mine.yaml").write_text("{name: sums, size: 60}")
    assert read_task("mine.yaml", "task", tmp_path) == sums(size=60)
    node = Pretrained(tiny_backbone, sums(size=70))
    assert rebuild(describe(node)).task == sums(size=70)


def test_what_is_refused(sums: Any) -> None:
    with refused("task", "'summs'", "sums"):
        read_task("summs", "task")
    with refused("task", "'sise'", "name, size"):
        read_task({"name": "sums", "sise": 50}, "task")
    with refused("size", 5):
        read_task({"name": "sums", "size": 5}, "task")
    with refused("--rows", "'sums'"):
        DataOptions(rows=(("train", 5),)).task("sums")


def test_commands(sums: Any, shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("{name: sums, size: 60}")
    assert "balanced" in shell("data", "check", tmp_path / "mine.yaml").out
    trained = shell("finetune", "--task", tmp_path / "mine.yaml", "--backbone", shell.backbone, "--steps", 2, "--json")
    assert set(trained.json["scores"]) == {"dev", "balanced"}
