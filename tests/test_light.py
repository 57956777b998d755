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
from made_up import remember_trainings

import srnet
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
    for command in line.split(" ; "):
        sys.argv = ["srnet", *command.split()]
        try:
            main()
        except SystemExit as end:
            assert not end.code, command
        print(json.dumps([command, *(name for name in %r if name in sys.modules)]), flush=True)
    os._exit(0)
"""
"""Runs each line of commands in a fork of a process that has imported only the command line."""


def heavy_imports(folder: Path, *lines: str) -> dict[str, list[str]]:
    """The heavy libraries that each command has imported; those of one line are run one after the other."""
    words = [sys.executable, "-c", SCRIPT % (HEAVY,)]
    env = {**os.environ, "SRNET_STORE": "store"}
    done = subprocess.run(
        words, input="\n".join(lines), env=env, cwd=folder, capture_output=True, text=True, check=True
    )
    found = {command: heavy for command, *heavy in map(json.loads, re.findall(r"^\[\".*", done.stdout, re.M))}
    assert found.keys() == {command for line in lines for command in line.split(" ; ")}, done.stderr[-2000:]
    return found


def test_light_commands_import_nothing_heavy(tmp_path: Path) -> None:
    write_task(tmp_path)
    (tmp_path / "store" / "artifacts").mkdir(parents=True)
    remember_trainings(Store(tmp_path / "store"), srnet.demo_recipe(), at_most=1)
    helps = [f"{' '.join(words)} --help" for words in every_command()]
    assert len(helps) > 15
    data = "data describe --train train.csv --dev dev.csv --out mine.yaml"
    planned = "demo --dry-run"
    plans = ("reproduce fig2 --tasks verification --dry-run", planned)
    found = heavy_imports(tmp_path, " ; ".join(["--version", "--help", *helps]), "store ls", data, *plans)
    # only a build without CUDA is known to have no GPU without importing it
    needed = [] if metadata.version("torch").endswith("+cpu") else ["torch"]
    assert found.pop(planned) == needed
    assert {command: heavy for command, heavy in found.items() if heavy} == {}


@pytest.mark.parametrize("name", SHIPPED)
def test_recorded_identities_are_those_of_the_shipped_backbones(name: str) -> None:
    """If this fails after an upgrade of transformers: write the new version and hash into the file."""
    import transformers

    recorded = json.loads((SHIPPED[name] / IDENTITY).read_text())
    loaded = load_backbone(name, ("0", "1"), seed=0).sha256
    assert recorded == {"transformers": transformers.__version__, "sha256": loaded}
