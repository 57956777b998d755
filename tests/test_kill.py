"""`kill -9` at any moment of a recipe: run again, and the masks are those of an undisturbed run.

Real processes and real SIGKILLs. So that no time is lost with importing torch again and again, this file is also a
program: a nest that imports everything once and forks a run of the recipe whenever it is told to.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

RECIPE = """
task: inference
finetuning: {steps: 20, eval_every: 4}
pruning: {steps: 20, eval_every: 4}
lines:
  - {label: full model (CE)}
  - {label: full model (PoE), finetune: poe}
  - {label: mask training (CE), paradigm: a, pruner: mask, prune: ce, sparsities: [0.5]}
  - {label: mask training (PoE), paradigm: a, pruner: mask, prune: poe, sparsities: [0.5]}
  - {label: IMP (PoE), paradigm: a, pruner: imp, prune: poe, sparsities: [0.5]}
"""
COMMAND = ("run", "recipe.yaml", "--store", "store", "--out", "out")

# --- the nest ------------------------------------------------------------------------------------------------------


def nest(backbone: str) -> None:
    """Reads orders, one a line: {folder, pause_at, renames}. Answers with the child's pid, later with its exit code."""
    import torch
    from small import small_defaults

    import srnet.api
    import srnet.backbones.checkpoints
    import srnet.cli
    import srnet.progress
    from srnet.names import EMBEDDED
    from srnet.tasks.synthetic import SyntheticTask

    torch.set_num_threads(1)
    srnet.backbones.checkpoints.SHIPPED[EMBEDDED] = Path(backbone)
    srnet.progress.PLAIN_SECONDS = -1.0  # every step of a training is a line
    SyntheticTask.__init__.__defaults__ = small_defaults(200, 60, 60)  # type: ignore[attr-defined]
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _run_recipe(srnet, **json.loads(line))
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _run_recipe(srnet: Any, folder: str, pause_at: str, renames: int) -> None:
    os.chdir(folder)
    for stream, name in ((1, "stdout.txt"), (2, "stderr.txt")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    if pause_at:
        _pause_at(srnet.progress.Reporter, pause_at)
    if renames:
        _die_before_rename(renames)
    sys.argv = ["srnet", *COMMAND]
    code: Any = 1
    try:
        srnet.cli.main()
    except SystemExit as exit:
        code = exit.code or 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _pause_at(reporter: Any, moment: str) -> None:
    """Say it, and wait there to be killed."""
    say = reporter.say

    def pausing(self: Any, text: str) -> None:
        say(self, text)
        if re.search(moment, text):
            time.sleep(600)

    reporter.say = pausing


def _die_before_rename(lives: int) -> None:
    """Whatever becomes visible in a store becomes so by a rename: right before it, something is half done."""

    def dying(real: Callable[..., None]) -> Callable[..., None]:
        def rename(*args: Any, **kwargs: Any) -> None:
            nonlocal lives
            lives -= 1
            if lives == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            real(*args, **kwargs)

        return rename

    os.rename, os.replace = dying(os.rename), dying(os.replace)


if __name__ == "__main__":
    nest(sys.argv[1])
    sys.exit()

# --- the tests -----------------------------------------------------------------------------------------------------

Result = tuple[dict[str, bytes], bytes]


class Attempts:
    """One run of the recipe with a store of its own, begun as often as it takes."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.process, self.folder = process, folder
        folder.mkdir(exist_ok=True)
        (folder / "recipe.yaml").write_text(RECIPE)

    def start(self, pause_at: str = "", renames: int = 0) -> int:
        (self.folder / "stderr.txt").write_text("")
        order = {"folder": str(self.folder), "pause_at": pause_at, "renames": renames}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> int:
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())

    def run(self, renames: int = 0) -> int:
        self.start(renames=renames)
        return self._answer()

    def kill_at(self, moment: str) -> None:
        """Kill it as soon as a line of its progress matches."""
        pid, deadline = self.start(pause_at=moment), time.monotonic() + 60
        while not re.search(moment, self.said) and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(pid, signal.SIGKILL)
        assert self._answer() == -signal.SIGKILL
        assert re.search(moment, self.said), self.said

    @property
    def said(self) -> str:
        return (self.folder / "stderr.txt").read_text()

    def result(self) -> Result:
        """Every mask and weight by place, and the table."""
        artifacts = self.folder / "store" / "artifacts"
        paths = [path for name in ("mask.bits", "weights.safetensors") for path in artifacts.glob(f"[!.]*/**/{name}")]
        files = {str(path.relative_to(artifacts)): path.read_bytes() for path in paths}
        return files, (self.folder / "out" / "results.csv").read_bytes()


@pytest.fixture(scope="module")
def process(tiny_backbone: str) -> Iterator[subprocess.Popen[str]]:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, __file__, tiny_backbone]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture(scope="module")
def undisturbed(process: subprocess.Popen[str], tmp_path_factory: pytest.TempPathFactory) -> Result:
    attempts = Attempts(process, tmp_path_factory.mktemp("undisturbed"))
    assert attempts.run() == 0, attempts.said
    files, table = attempts.result()
    assert sum(name.endswith("mask.bits") for name in files) == 3 + 9  # two by mask training, IMP's and its nine levels
    return files, table


def test_killed_while_it_trains(process: subprocess.Popen[str], undisturbed: Result, tmp_path: Path) -> None:
    attempts = Attempts(process, tmp_path / "killed")
    attempts.kill_at(r"fine-tune \(ce\), 20 steps, seed 0  3/20")  # before its first checkpoint
    attempts.kill_at(r"\[\d+/\d+\] bias model .* s$")  # between two steps
    attempts.kill_at(r"mask \(ce\) at 50 %, seed 0  11/20")
    attempts.kill_at(r"imp \(poe\), every level, seed 0  9/18")
    assert attempts.run() == 0, attempts.said
    assert "every level, seed 0  9/18" in attempts.said, "IMP goes on behind its checkpoint at step 8"
    assert "every level, seed 0  8/18" not in attempts.said
    assert "] mask (" not in attempts.said, "what was done is not done again"
    assert attempts.result() == undisturbed


def test_killed_while_it_writes(process: subprocess.Popen[str], undisturbed: Result, tmp_path: Path) -> None:
    attempts, died = Attempts(process, tmp_path / "killed"), 0
    while (code := attempts.run(renames=4 + 9 * died)) == -signal.SIGKILL:  # each one lives a little longer
        died += 1
    assert code == 0, attempts.said
    assert died >= 5
    assert attempts.result() == undisturbed
