"""In a notebook: bars that are drawn in place, errors of one line, results as tables."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from srnet.core.processes import environment

ROOT = Path(__file__).parent.parent
PROGRESS = """
import time
from srnet.core import progress

progress.NOTEBOOK_SECONDS = 0.0
reporter = progress.Reporter()
with reporter.session():
    step = reporter.begin(1, 1, "train")
    for done in range(5):
        step.advance(done, 5, {"loss": 0.5})
    reporter.warn("a line meanwhile")
    step.finish()
"""
MISTAKE = "import srnet\nsrnet.MaskTraining(sparsity=2)"
RESULT = """
from srnet.core.tables import Shown

class Result(Shown, says="line", table="rows"):
    line, rows = "two rows", [{"name": "full", "score": 0.5}, {"name": "small", "score": 0.25}]

Result()
"""
HIDDEN = (
    "import sys\nsys.modules['ipywidgets'] = None\nimport importlib.util\nimportlib.util.find_spec = lambda name: None"
)
"""As if ipywidgets were not installed."""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[list[Any]]:
    """What each cell has shown, in one run of one notebook."""
    folder = tmp_path_factory.mktemp("notebook")
    kernel = {"argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], "language": "python"}
    (folder / "kernels" / "ours").mkdir(parents=True)
    (folder / "kernels" / "ours" / "kernel.json").write_text(json.dumps({**kernel, "display_name": "ours"}))
    cells = [nbformat.v4.new_code_cell(code) for code in (PROGRESS, MISTAKE, RESULT, HIDDEN, PROGRESS)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    with environment({"PYTHONPATH": str(ROOT), "JUPYTER_PATH": str(folder)}):
        NotebookClient(notebook, kernel_name="ours", allow_errors=True, timeout=300).execute()
    return [cell.outputs for cell in notebook.cells]


def texts(outputs: list[Any]) -> list[str]:
    return [each.get("text") or each["data"]["text/plain"] for each in outputs]


def test_a_bar_is_drawn_in_its_own_place_and_lines_stay(outputs: list[list[Any]]) -> None:
    bar, *lines = texts(outputs[0])
    assert bar == "Output()"
    assert "".join(lines).split("\n")[:2] == ["warning: a line meanwhile", "[1/1] train  0 s"]
    assert not any("\r" in line or "\x1b" in line for line in lines)


def test_an_error_of_the_user_is_one_line(outputs: list[list[Any]]) -> None:
    (error,) = outputs[1]
    assert error["traceback"] == [f"UserError: {error['evalue']}"]
    assert "sparsity" in error["evalue"]


def test_a_result_is_a_table(outputs: list[list[Any]]) -> None:
    (shown,) = outputs[2]
    assert shown["data"]["text/plain"] == "<Result: two rows>"
    assert "<td>small</td>" in shown["data"]["text/html"]


def test_without_ipywidgets_there_are_plain_lines_and_no_warning_about_it(outputs: list[list[Any]]) -> None:
    assert "".join(texts(outputs[4])).split("\n")[:2] == ["warning: a line meanwhile", "[1/1] train  0 s"]
