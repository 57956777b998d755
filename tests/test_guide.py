"""The guides' commands run as they are printed, with fewer steps and rows."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from processes import ForkServer

ROOT = Path(__file__).parents[1]
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))


FEWER_ROWS = "{name: inference, train_size: 600, dev_size: 200, ood_size: 200}"


def commands(guide: Path) -> str:
    script = "\n".join(re.findall(r"```console\n(.*?)```", guide.read_text(), flags=re.DOTALL))
    script = re.sub(r"steps(:?) \d+", r"steps\1 10", script).replace("--weak-examples 500", "--weak-examples 100")
    return script.replace("data write inference", "data write fewer.yaml")


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_every_command_of_a_guide_runs_as_written(guide: Path, fork_server: ForkServer, tmp_path: Path) -> None:
    script = commands(guide)
    assert script.count("srnet ") >= 5
    assert script.count("steps 10") >= 3
    (tmp_path / "fewer.yaml").write_text(FEWER_ROWS)
    programs = tmp_path / "programs"
    programs.mkdir()
    fork_server.write_srnet(programs)
    environment = os.environ | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "SRNET_STORE": str(tmp_path / "store"),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "reviews" / "model" / "model.safetensors").is_file()
    assert (tmp_path / "reviews" / "report" / "report.html").is_file()
