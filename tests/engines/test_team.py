"""Commands under torchrun: two processes train one model, and one of them speaks and writes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from processes import PATIENCE, Nest, Observed, environment

from srnet.experiment import Store
from srnet.subnetwork import Subnetwork

TRAINING = ("--steps", "20", "--eval-every", "5", "--batch-size", "8", "--learning-rate", "1e-2")
AGREEMENT = 0.999
"""Two processes add up in another order: see tests/training/test_ddp.py."""


@contextmanager
def torchrun(*words: object, observed: Observed) -> Iterator[subprocess.Popen[str]]:
    """`srnet WORDS`, by two processes."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    process = subprocess.Popen(
        [*launcher, "-m", "srnet", *map(str, words)],
        env=environment(observed.folder),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    printed, said = process.communicate(timeout=PATIENCE)
    return process.returncode, printed, said


class Commands:
    """The same two commands, by one process and by two, and what came of them."""

    def __init__(self, nest: Nest, backbone: str, folder: Path) -> None:
        self.nest, self.folder = nest, folder
        self.task = folder / "task.yaml"
        self.task.write_text("{name: inference, train_size: 120, dev_size: 40, ood_size: 40}")
        self.new = ("--task", self.task, "--backbone", backbone)
        self.alone, self.together = Store(folder / "alone"), Store(folder / "together")

    def by_one(self, *words: object) -> dict[str, Any]:
        command = self.nest.start(self.folder, *words, *TRAINING, "--store", self.alone.root, "--json")
        assert command.code == 0, command.said
        return dict(json.loads(command.printed))

    def words(self, *words: object) -> tuple[object, ...]:
        return (*words, *TRAINING, "--store", self.together.root, "--json")


def agreement(one: Subnetwork, other: Subnetwork) -> float:
    assert one.mask is not None
    assert other.mask is not None
    equal = sum(int((one.mask[name] == other.mask[name]).sum()) for name in one.mask)
    return equal / sum(keep.numel() for keep in one.mask.values())


def test_two_processes_under_torchrun_do_the_work_of_one(
    nest: Nest, tiny_backbone: str, tmp_path: Path, observed: Observed
) -> None:
    commands = Commands(nest, tiny_backbone, tmp_path)
    with ExitStack() as stack:
        tune = stack.enter_context(torchrun(*commands.words("finetune", *commands.new), observed=observed))
        tuned = commands.by_one("finetune", *commands.new)
        pruning = ("prune", tuned["key"], "--pruner", "mask", "--objective", "poe", "--sparsity", "0.7")
        pruned = commands.by_one(*pruning)
        code, printed, said = ended(tune)
        assert code == 0, said
        made = [json.loads(printed)]  # printed twice it would be no JSON
        prune = stack.enter_context(torchrun(*commands.words(*pruning), observed=observed))
        code, printed, said = ended(prune)
        assert code == 0, said
        made.append(json.loads(printed))

    assert [each["key"] for each in made] == [tuned["key"], pruned["key"]]
    assert commands.together.keys() == commands.alone.keys(), "an expression means the same, whoever computes it"
    assert sorted(observed.begun()) == commands.together.keys(), "computed once, and by the one who writes"
    assert commands.together.verify() == {}
    assert [path for path in commands.together.artifacts.iterdir() if path.name.startswith(".")] == []
    assert not any((commands.together.root / "work").iterdir())
    announced = [line.split("]")[0] for line in said.splitlines() if line.startswith("[") and "/3] " in line]
    assert announced == ["[1/3", "[2/3", "[3/3"], "each step is announced once"

    one, two = (Subnetwork.load(store.path(pruned["key"])) for store in (commands.alone, commands.together))
    assert two.sparsity == one.sparsity == pruned["sparsity"] == made[1]["sparsity"] == pytest.approx(0.7, abs=1e-3)
    assert agreement(one, two) >= AGREEMENT


def test_a_pool_cannot_run_under_torchrun(tiny_backbone: str, tmp_path: Path, observed: Observed) -> None:
    task = tmp_path / "task.yaml"
    task.write_text("{name: inference, train_size: 120, dev_size: 40, ood_size: 40}")
    words = ("reproduce", "fig2", "--tasks", task, "--backbone", tiny_backbone, "--store", tmp_path / "store")
    with torchrun(*words, "--engine", "pool", observed=observed) as process:
        code, printed, said = ended(process)
    assert code != 0
    assert [line for line in said.splitlines() if line.startswith("srnet: ")] == [
        "srnet: engine 'pool' cannot run under torchrun; use --engine local there"
    ]
    assert printed == ""
    assert observed.log == []
    assert not any((tmp_path / "store" / "artifacts").iterdir())
