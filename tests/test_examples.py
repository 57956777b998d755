"""The examples run as they are written, with few steps and rows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from processes import environment
from safetensors.torch import load_file

EXAMPLES = Path(__file__).parents[1] / "examples"
FEW = ("--steps", "6", "--rows", "200")


def started() -> dict[str, str]:
    path = os.pathsep.join([str(EXAMPLES.parent), environment()["PYTHONPATH"]])
    return environment() | {"PYTHONPATH": path, "MPLBACKEND": "agg"}


def run(folder: Path, *words: str, program: tuple[str, ...] = (sys.executable,)) -> str:
    done = subprocess.run(
        [*program, *words], cwd=folder, env=started(), capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_a_loop_of_ones_own(tmp_path: Path) -> None:
    printed = run(tmp_path, str(EXAMPLES / "own_loop.py"), *FEW)
    assert "sparsity 0.5000" in printed
    assert len(re.findall(r"in distribution, \d+\.\d out of it", printed)) == 2
    assert (tmp_path / "own-loop-mask" / "mask.json").is_file()


def test_a_trainer_that_is_interrupted_gives_the_same_model(tmp_path: Path) -> None:
    script = str(EXAMPLES / "trainer.py")
    run(tmp_path, script, *FEW, "--out", "whole")
    shutil.copytree(tmp_path / "whole" / "checkpoints" / "checkpoint-4", tmp_path / "cut" / "checkpoints" / "checkpoint-4")
    run(tmp_path, script, *FEW, "--out", "cut")
    whole, cut = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("whole", "cut"))
    assert whole.keys() == cut.keys()
    assert all((cut[name] == tensor).all() for name, tensor in whole.items())


def test_two_processes_of_accelerate_find_one_mask(tmp_path: Path) -> None:
    two = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0")
    printed = run(tmp_path, str(EXAMPLES / "accelerate_loop.py"), *FEW, program=two)
    first, second = re.findall(r"by process: \[(\d+), (\d+)\]", printed)[0]
    assert first == second
    assert (tmp_path / "accelerate-mask" / "mask.json").is_file()


@pytest.fixture
def tour() -> nbformat.NotebookNode:
    return nbformat.read(EXAMPLES / "quick_tour.ipynb", nbformat.NO_CONVERT)


def test_the_notebook_runs(tour: nbformat.NotebookNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in started().items():
        monkeypatch.setenv(name, value)
    first = next(cell for cell in tour.cells if cell.cell_type == "code")
    assert "STEPS, ROWS = 300, 8000" in first.source
    first.source = first.source.replace("300, 8000", "3, 100")
    NotebookClient(tour, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert len(pictures(tour)) == 3


def test_the_notebook_is_stored_with_its_pictures(tour: nbformat.NotebookNode) -> None:
    assert len(pictures(tour)) == 3
    assert sum(map(len, pictures(tour))) < 200_000
    assert not [output for cell in tour.cells for output in cell.get("outputs", ()) if output.get("name") == "stderr"]


def pictures(notebook: nbformat.NotebookNode) -> list[str]:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [output["data"]["image/png"] for output in outputs if "image/png" in output.get("data", {})]
