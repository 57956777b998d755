"""The examples run as they are written, with few steps and rows."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from processes import PATIENCE, environment
from safetensors.torch import load_file

EXAMPLES = Path(__file__).parents[1] / "examples"
FEW = ("--steps", "6", "--rows", "200")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, script: str, *words: str) -> None:
    """A script, in this process, which has imported everything already."""
    monkeypatch.setattr(sys, "argv", [script, *FEW, *words])
    runpy.run_path(str(EXAMPLES / script), run_name="__main__")


def with_this_package() -> dict[str, str]:
    """The environment of other processes."""
    env = environment()
    return env | {"PYTHONPATH": os.pathsep.join([str(EXAMPLES.parent), env["PYTHONPATH"]])}


def test_a_loop_of_ones_own(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(monkeypatch, "own_loop.py")
    printed = capsys.readouterr().out
    assert "sparsity 0.5000" in printed
    assert len(re.findall(r"in distribution, \d+\.\d out of it", printed)) == 2
    assert (folder / "own-loop-mask" / "mask.json").is_file()


def test_a_trainer_that_is_interrupted_gives_the_same_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch, "trainer.py", "--out", "whole")
    shutil.copytree("whole/checkpoints/checkpoint-4", "cut/checkpoints/checkpoint-4")
    run(monkeypatch, "trainer.py", "--out", "cut")
    whole, cut = (load_file(folder / name / "model" / "model.safetensors") for name in ("whole", "cut"))
    assert whole.keys() == cut.keys()
    assert all((cut[name] == tensor).all() for name, tensor in whole.items())


def test_accelerate(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """In one process; tests/attach/test_trainers.py has two."""
    run(monkeypatch, "accelerate_loop.py")
    assert "step 6 of 6" in capsys.readouterr().out
    assert (folder / "accelerate-mask" / "mask.json").is_file()


# --- the notebook --------------------------------------------------------------------------------------------------


@pytest.fixture
def tour() -> nbformat.NotebookNode:
    return nbformat.read(EXAMPLES / "quick_tour.ipynb", nbformat.NO_CONVERT)


def pictures(notebook: nbformat.NotebookNode) -> list[str]:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [output["data"]["image/png"] for output in outputs if "image/png" in output.get("data", {})]


def test_the_notebook_runs(tour: nbformat.NotebookNode, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in with_this_package().items():
        monkeypatch.setenv(name, value)
    first = next(cell for cell in tour.cells if cell.cell_type == "code")
    assert "STEPS, ROWS = 300, 8000" in first.source
    first.source = first.source.replace("300, 8000", "3, 100")
    place = {"metadata": {"path": str(folder)}}
    NotebookClient(tour, timeout=int(PATIENCE), kernel_name="python3", resources=place).execute()
    assert len(pictures(tour)) == 3


def test_the_notebook_is_stored_with_its_pictures(tour: nbformat.NotebookNode) -> None:
    assert len(pictures(tour)) == 3
    assert sum(map(len, pictures(tour))) < 200_000
    outputs = [output for cell in tour.cells for output in cell.get("outputs", ())]
    assert not [output for output in outputs if output.get("name") == "stderr" or output.output_type == "error"]
