"""Real processes for tests: started, watched while they compute, stopped at a chosen moment."""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psutil
from fork_server import connect

T = TypeVar("T")

HERE = Path(__file__).parent
PATIENCE = 1800.0
"""Seconds for anything that must happen sooner or later, on a machine that has much else to do."""
PROGRESS = ("[", "head of ", "reads ")
"""How lines begin that are no answer and no warning."""
ALWAYS = 1_000_000
LIBRARIES = (
    "matplotlib.pyplot",
    "scipy.stats",
    "sklearn.feature_extraction.text",
    "sklearn.linear_model",
    "transformers.models.bert.modeling_bert",
    "transformers.trainer",
)
"""What takes seconds to import."""
EVERYTHING = (
    *LIBRARIES,
    "srnet.cli",
    "srnet.api.experiments",
    "srnet.experiment.compute",
    "srnet.report.page",
    "srnet.training.trainer",
)
"""What a run imports when it needs it."""


def environment(observed: Path | None = None) -> dict[str, str]:
    """What a process of a test sees: one thread, the observer, and no traces of how pytest was started."""
    hidden = ("WORLD_SIZE", "RANK", "LOCAL_RANK", "SRNET_STORE", "RAY_ADDRESS")
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    path = os.pathsep.join(filter(None, [str(HERE / "observed"), os.environ.get("PYTHONPATH")]))
    env |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": path}
    env["RAY_worker_niceness"] = "0"  # at Ray's own 15, its workers hardly start on a machine with much else to do
    return env if observed is None else env | {"OBSERVED": str(observed)}


def until(condition: Callable[[], T], what: str, command: Command | None = None) -> T:
    """What `condition` gives, as soon as it gives something."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        ended = command is not None and command.ended
        assert not ended, f"it ended before: {what}\n{command.said}"  # type: ignore[union-attr]
        assert time.monotonic() < deadline, f"waited in vain for: {what}\n{command.said if command else ''}"
        time.sleep(0.02)
    return found


def small_recipe(
    name: str, backbone: object, sparsity: float | None = None, seeds: int = 1, steps: int = 20, rate: float = 1e-2
) -> str:
    """A YAML recipe: a full model, and with a `sparsity` a mask of it that is trained with PoE."""
    training = {"steps": steps, "eval_every": steps // 4, "batch_size": 8}
    lines: list[dict[str, Any]] = [{"label": "full model (CE)"}]
    if sparsity is not None:
        search = {"paradigm": "a", "pruner": "mask", "prune": "poe", "sparsities": [sparsity]}
        lines.append({"label": "mask training (PoE)", **search})
    return json.dumps({
        "name": name, "task": {"name": "inference", "train_size": 120, "dev_size": 40, "ood_size": 40},
        "backbone": str(backbone), "seeds": seeds, "control": False, "lines": lines,
        "finetuning": {"learning_rate": rate, **training}, "pruning": {"learning_rate": 1e-2, **training},
    })  # fmt: skip


def write_tiny_backbone(folder: Path) -> Path:
    """A BERT of two layers, width 32, that has seen a few steps of pre-training."""
    from srnet.models.pretraining import pretrain
    from srnet.tasks.synthetic.pretrain_settings import PretrainSettings

    steps = {"mlm_steps": 4, "pair_steps": 2, "compare_steps": 2, "warmup": 2}
    pretrain(folder, PretrainSettings(**steps, batch_size=8, hidden_size=32, layers=2, heads=2))
    return folder


class Observed:
    """What all processes with this folder in OBSERVED computed, and what they are told to do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.forget()

    def forget(self) -> None:
        """Nobody is told to do anything, and nothing was done."""
        self._orders: list[dict[str, Any]] = []
        for name in ("log", "acted", "released"):
            (self.folder / name).unlink(missing_ok=True)
        (self.folder / "orders").write_text("[]")

    def order(self, act: str, label: str, step: int = 0, times: int = 1) -> None:
        """Let whoever is at `step` of the node with this label hold, die, fail, crash, or find its disk full."""
        self._orders.append({"act": act, "label": re.escape(label), "step": step, "times": times})
        (self.folder / "orders").write_text(json.dumps(self._orders))

    def release(self) -> None:
        """Let go whoever holds."""
        (self.folder / "released").touch()

    @property
    def log(self) -> list[dict[str, Any]]:
        path = self.folder / "log"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []  # the last one may be half written
        return [json.loads(line) for line in lines]

    def seen(self, event: str, label: str | None = None) -> list[dict[str, Any]]:
        return [each for each in self.log if each["event"] == event and label in (None, each["label"])]

    def held(self, label: str, command: Command | None = None) -> int:
        """The process that holds at the node with this label; waits for it."""
        return int(until(lambda: self.seen("hold", label), f"a process that holds at {label}", command)[0]["pid"])

    def begun(self) -> list[str]:
        """The key of every computation that was begun."""
        return [each["key"] for each in self.seen("begin")]

    def steps(self, label: str) -> list[list[int]]:
        """The steps of a training, of one attempt after the other."""
        attempts: list[list[int]] = []
        for each in self.log:
            if each["label"] == label and each["event"] == "begin":
                attempts.append([])
            elif each["label"] == label and each["event"] == "step":
                attempts[-1].append(each["step"])
        return attempts


class Command:
    """One run of the command line in a folder, forked by the server."""

    def __init__(self, connection: socket.socket, folder: Path) -> None:
        self._connection, self.folder = connection, folder
        self._answers = connection.makefile()
        self.pid = int(self._answers.readline())
        self._code: int | None = None

    @property
    def said(self) -> str:
        return (self.folder / "stderr.txt").read_text()

    @property
    def printed(self) -> str:
        return (self.folder / "stdout.txt").read_text()

    @property
    def lines(self) -> list[str]:
        """What it said, but for progress."""
        return [line for line in self.said.splitlines() if not line.startswith(PROGRESS)]

    @property
    def ended(self) -> bool:
        return self._ends_within(0.0)

    @property
    def code(self) -> int:
        """Its exit code; waits for it."""
        assert self._ends_within(PATIENCE), f"it does not end\n{self.said}"
        assert self._code is not None
        return self._code

    def _ends_within(self, seconds: float) -> bool:
        if self._code is None and select.select([self._connection], [], [], seconds)[0]:
            self._code = int(self._answers.readline() or -signal.SIGKILL)
            self._answers.close()
            self._connection.close()
        return self._code is not None

    def workers(self) -> list[psutil.Process]:
        """The processes of its pool."""
        with_names = [(child, _words(child)) for child in psutil.Process(self.pid).children()]
        return [child for child, words in with_names if "spawn_main" in words]

    def interrupt(self) -> None:
        """Ctrl-C, which reaches the whole group."""
        os.killpg(self.pid, signal.SIGINT)

    def kill(self) -> None:
        """`kill -9`, of the command alone."""
        os.kill(self.pid, signal.SIGKILL)


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def gone(processes: list[psutil.Process], seconds: float = PATIENCE) -> bool:
    """Whether they all end by themselves. A zombie has ended: it only waits for somebody to notice."""
    deadline = time.monotonic() + seconds
    while any(_lives(process) for process in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


class ForkServer:
    """See fork_server.py."""

    def __init__(self, path: Path, env: dict[str, str]) -> None:
        self.path, self._env = path, env

    def start(self, folder: Path, *words: object, observed: Observed | None = None) -> Command:
        """`srnet WORDS` in `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "stderr.txt").write_text("")
        env = self._env if observed is None else self._env | {"OBSERVED": str(observed.folder)}
        return Command(connect(str(self.path), [str(word) for word in words], str(folder), env), folder)

    def write_srnet(self, folder: Path, name: str = "srnet") -> None:
        """A program that is `srnet`, run by the server."""
        program, call = folder / name, (sys.executable, "-S", "-E", str(HERE / "fork_server.py"), "call")
        program.write_text(f'#!/bin/sh\nexec {shlex.join((*call, str(self.path)))} "$@"\n')
        program.chmod(0o755)


@contextmanager
def started_fork_server(
    modules: tuple[str, ...] = EVERYTHING, env: dict[str, str] | None = None
) -> Iterator[ForkServer]:
    with tempfile.TemporaryDirectory(prefix="srnet-") as folder:  # a short path: that of a socket is limited
        env = environment() if env is None else env
        server = ForkServer(Path(folder) / "socket", env)
        command = [sys.executable, str(HERE / "fork_server.py"), "serve", str(server.path), *modules]
        with subprocess.Popen(command, stdin=subprocess.PIPE, env=env) as process:
            until(lambda: server.path.exists() or process.poll() is not None, "a server")
            yield server
            assert process.stdin is not None
            process.stdin.close()


def files(store: Path) -> dict[str, bytes]:
    """Every mask and all weights of a store, by place."""
    artifacts = store / "artifacts"
    paths = [path for name in ("mask.bits", "weights.safetensors") for path in artifacts.glob(f"[!.]*/**/{name}")]
    return {str(path.relative_to(artifacts)): path.read_bytes() for path in paths}
