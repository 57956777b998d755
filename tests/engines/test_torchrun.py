"""Commands under torchrun: two processes train one model, and one of them speaks and writes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from processes import PATIENCE, ForkServer, Observed, environment, small_recipe
from refusals import refused

from srnet.experiment.engine import Engine
from srnet.experiment.store import Store
from srnet.models.subnetwork import Subnetwork
from srnet.training.hardware import Ranks

NODES = 6  # the raw model, the bias model, two trained models and their scores
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


def pruned(store: Store) -> Subnetwork:
    [entry] = [entry for entry in store.entries() if entry.label.startswith("mask (poe)")]
    return Subnetwork.load(store.path(entry.key))


def agreement(one: Subnetwork, other: Subnetwork) -> float:
    assert one.mask is not None
    assert other.mask is not None
    equal = sum(int((one.mask[name] == other.mask[name]).sum()) for name in one.mask)
    return equal / sum(keep.numel() for keep in one.mask.values())


def test_two_processes_under_torchrun_do_the_work_of_one(
    fork_server: ForkServer, tiny_backbone: str, tmp_path: Path, observed: Observed
) -> None:
    spec = tmp_path / "torchrun.yaml"
    spec.write_text(small_recipe("torchrun", tiny_backbone, sparsity=0.7))
    alone, together = Store(tmp_path / "alone"), Store(tmp_path / "together")
    with torchrun("run", spec, "--store", together.root, "--out", tmp_path / "out", observed=observed) as process:
        by_one = fork_server.start(tmp_path, "run", spec, "--store", alone.root, "--out", "out-alone")
        assert by_one.code == 0, by_one.said
        printed, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said

    assert printed.replace(str(tmp_path / "out"), "out") == by_one.printed.replace("out-alone", "out"), "printed once"
    assert len(together.keys()) == NODES
    assert together.keys() == alone.keys(), "an expression means the same, whoever computes it"
    assert sorted(observed.begun()) == together.keys(), "computed once, and by the one who writes"
    assert together.verify() == {}
    assert [path for path in together.artifacts.iterdir() if path.name.startswith(".")] == []
    assert not any((together.root / "work").iterdir())
    # a slow machine also prints progress within a step
    ended = re.findall(rf"^\[(\d+)/{NODES}\] .* \d+ s$", said, flags=re.MULTILINE)
    assert ended == [str(number) for number in range(1, NODES + 1)], "the end of each step is printed once"

    one, two = pruned(alone), pruned(together)
    assert two.sparsity == one.sparsity == pytest.approx(0.7, abs=1e-3)
    assert agreement(one, two) >= AGREEMENT


@pytest.mark.parametrize("engine", ["pool", "ray"])
def test_other_engines_cannot_run_under_torchrun(engine: str, tmp_path: Path) -> None:
    with refused(f"'{engine}'", "torchrun", "--engine local"):
        Engine(Store(tmp_path), name=engine).executor(Ranks(0, 2))
