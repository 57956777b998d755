"""The guides' commands run as they are printed, with fewer steps, seeds and rows."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from processes import ForkServer

ROOT = Path(__file__).parents[1]
GUIDES = [page for page in sorted((ROOT / "docs" / "guides").glob("*.md")) if "```console" in page.read_text()]
FEWER_ROWS = "{name: inference, train_size: 600, dev_size: 200, ood_size: 200}"
FEWER = {
    r"steps(:?) \d+": r"steps\1 10",
    r"srnet find(?!.* --dry-run)": "srnet find --scale 0.02 --seeds 1 --keep-id 0.1",
    r"--sparsities \S+": "--sparsities 0.5",
    r"--weak-examples \d+": "--weak-examples 100",
    r"data write inference": "data write fewer.yaml",
    r"\b8000\b": "600",
    r"\b1000\b": "200",
}
"""What makes a guide quick: patterns and what stands for them here."""


def commands(guide: Path) -> str:
    script = "\n".join(re.findall(r"```console\n(.*?)```", guide.read_text(), flags=re.DOTALL))
    for pattern, fewer in FEWER.items():
        script = re.sub(pattern, fewer, script)
    return script


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_every_command_of_a_guide_runs_as_written(guide: Path, fork_server: ForkServer, tmp_path: Path) -> None:
    script = commands(guide)
    assert script.count("srnet ") >= 3
    assert "steps 10" in script
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
    written = [tmp_path / path for path in re.findall(r"--out (\S+)", script)]
    assert written
    assert [path for path in written if not path.exists()] == []
