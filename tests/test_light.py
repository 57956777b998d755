"""Light commands do without torch: describing, planning and listing must not wait for its import."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from commands import every_command
from fuzz.valid import write_task

import srnet
from srnet.core.files import write_json
from srnet.experiment.identity import describe
from srnet.experiment.nodes.base import every_node
from srnet.experiment.store import Store
from srnet.models.backbones import load_backbone
from srnet.models.checkpoints import IDENTITY, SHIPPED

HEAVY = ("torch", "transformers", "sklearn", "pandas", "matplotlib", "plotly", "datasets")

SCRIPT = """
import json, os, sys
from srnet.cli.program import main

for line in sys.stdin.read().splitlines():
    if os.fork():
        os.wait()
        continue
    sys.argv = ["srnet", *line.split()]
    try:
        main()
    except SystemExit as end:
        assert not end.code, (line, end.code)
        print(json.dumps([line, *(name for name in %r if name in sys.modules)]), flush=True)
    finally:
        os._exit(0)
"""
"""Runs each command in a fork of a process that has imported only the command line."""


def heavy_imports(folder: Path, commands: list[str]) -> dict[str, list[str]]:
    """The heavy libraries that each command imports."""
    words = [sys.executable, "-c", SCRIPT % (HEAVY,)]
    env = {**os.environ, "SRNET_STORE": "store"}
    done = subprocess.run(
        words, input="\n".join(commands), env=env, cwd=folder, capture_output=True, text=True, check=True
    )
    found = {line: heavy for line, *heavy in map(json.loads, re.findall(r"^\[\".*", done.stdout, re.M))}
    assert found.keys() == set(commands), done.stderr[-2000:]
    return found


def test_light_commands_import_nothing_heavy(tmp_path: Path) -> None:
    write_task(tmp_path)
    (tmp_path / "store" / "artifacts").mkdir(parents=True)
    remember_a_training(tmp_path / "store")
    planned = "demo --dry-run"
    helps = [" ".join([*words, "--help"]) for words in every_command()]
    assert len(helps) > 15
    found = heavy_imports(
        tmp_path,
        [
            "--version",
            "--help",
            *helps,
            "store ls",
            "data describe --train train.csv --dev dev.csv --out mine.yaml",
            "reproduce fig2 --tasks verification --dry-run",
            planned,
        ],
    )
    # only a build without CUDA is known to have no GPU without importing it
    needed = [] if metadata.version("torch").endswith("+cpu") else ["torch"]
    assert found.pop(planned) == needed
    assert {line: heavy for line, heavy in found.items() if heavy} == {}


def remember_a_training(folder: Path) -> None:
    """Of the demo, with a pace for its estimate."""
    node = next(each for each in every_node(srnet.demo_recipe().nodes()).values() if each.trains)
    with Store(folder).writing(node.key, type(node).__name__, node.label, describe(node), "test") as artifact:
        write_json(artifact / "training.json", {"step_seconds": 0.5, "device": "cpu", "steps": 10})


@pytest.mark.parametrize("name", SHIPPED)
def test_recorded_identities_are_those_of_the_shipped_backbones(name: str) -> None:
    """If this fails after an upgrade of transformers: write the new version and hash into the file."""
    import transformers

    recorded = json.loads((SHIPPED[name] / IDENTITY).read_text())
    loaded = load_backbone(name, ("0", "1"), seed=0).sha256
    assert recorded == {"transformers": transformers.__version__, "sha256": loaded}
