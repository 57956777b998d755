"""Light commands do without torch: describing, planning and listing must not wait for its import."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import srnet
from srnet.core.files import write_json
from srnet.experiment.identity import describe
from srnet.experiment.nodes.base import every_node
from srnet.experiment.store import Store
from srnet.models.backbones import load_backbone
from srnet.models.checkpoints import IDENTITY, SHIPPED

HEAVY = ("torch", "transformers", "sklearn", "pandas", "matplotlib", "plotly", "datasets")

SCRIPT = """
import sys
from srnet.cli import main
sys.argv = ["srnet", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
finally:
    print("HEAVY", *(name for name in {heavy!r} if name in sys.modules))
"""

HELP = """
import sys
import typer
from srnet.cli import app

def walk(command, words):
    for name, each in getattr(command, "commands", {{}}).items():
        yield from walk(each, [*words, name])
    if not hasattr(command, "commands"):
        yield words

commands = list(walk(typer.main.get_command(app), []))
for words in commands:
    app([*words, "--help"], standalone_mode=False)
print(len(commands))
print("HEAVY", *(name for name in {heavy!r} if name in sys.modules))
"""


def heavy_imports(tmp_path: Path, *command: str) -> list[str]:
    """The heavy libraries that a command imports."""
    store = ["--store", str(tmp_path / "store")] if command[0] in ("store", "reproduce", "demo", "evaluate") else []
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(heavy=HEAVY), *command, *store],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert "HEAVY" in ran.stdout, ran.stderr[-2000:]
    return ran.stdout.split("HEAVY")[-1].split()


@pytest.fixture
def csv_files(tmp_path: Path) -> list[str]:
    for name in ("train", "dev"):
        rows = "".join(f"{name} text {n},other words {n},{'yes' if n % 2 else 'no'}\n" for n in range(12))
        (tmp_path / f"{name}.csv").write_text("premise,hypothesis,label\n" + rows)
    (tmp_path / "store" / "artifacts").mkdir(parents=True)
    return ["--train", str(tmp_path / "train.csv"), "--dev", str(tmp_path / "dev.csv")]


def test_light_commands_import_nothing_heavy(tmp_path: Path, csv_files: list[str]) -> None:
    assert heavy_imports(tmp_path, "--help") == []
    assert heavy_imports(tmp_path, "store", "ls") == []
    assert heavy_imports(tmp_path, "data", "describe", *csv_files, "--out", "mine.yaml") == []
    assert heavy_imports(tmp_path, "reproduce", "fig2", "--tasks", "verification", "--dry-run") == []
    remember_a_training(tmp_path / "store")
    # only a build without CUDA is known to have no GPU without importing it
    needed = [] if metadata.version("torch").endswith("+cpu") else ["torch"]
    assert heavy_imports(tmp_path, "demo", "--dry-run") == needed


def remember_a_training(folder: Path) -> None:
    """Of the demo, with a pace for its estimate."""
    node = next(each for each in every_node(srnet.demo_recipe().nodes()).values() if each.trains)
    with Store(folder).writing(node.key, type(node).__name__, node.label, describe(node), "test") as artifact:
        write_json(artifact / "training.json", {"step_seconds": 0.5, "device": "cpu", "steps": 10})


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    """Of all commands, in one process."""
    ran = subprocess.run(
        [sys.executable, "-c", HELP.format(heavy=HEAVY)], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    *helps, last = ran.stdout.splitlines()
    assert last == "HEAVY", ran.stderr[-2000:]
    assert len([line for line in helps if "Usage: " in line]) == int(helps[-1]) > 15


@pytest.mark.parametrize("name", SHIPPED)
def test_recorded_identities_are_those_of_the_shipped_backbones(name: str) -> None:
    """If this fails after an upgrade of transformers: write the new version and hash into the file."""
    import transformers

    recorded = json.loads((SHIPPED[name] / IDENTITY).read_text())
    loaded = load_backbone(name, ("0", "1"), seed=0).sha256
    assert recorded == {"transformers": transformers.__version__, "sha256": loaded}
