"""`srnet reproduce` as a user runs it: twice at once, on a full disk, killed while it writes. It comes to the same."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import PATIENCE, Command, ForkServer, Observed, files, until

from srnet.experiment.store import Store
from srnet.recipes.profiles import FINETUNING

SCALE = 0.02
STEPS = round(SCALE * (FINETUNING.steps or 0))
TUNE = f"fine-tune (ce), {STEPS} steps, seed 0"
IMP = "imp (poe), every level, seed 0"
WRITING = ((TUNE, 0), (TUNE, STEPS), ("bias model for inference", 0), (f"evaluate {TUNE}", 0), (IMP, 9))
"""Nodes, and the steps behind which something is written: a checkpoint, an artifact."""


class Reproduction:
    """`srnet reproduce fig2`, tiny, begun as often as it takes."""

    def __init__(self, fork_server: ForkServer, words: list[str], folder: Path, store: Path | None = None) -> None:
        self.fork_server, self.folder, self.store = fork_server, folder, Store(store or folder / "store")
        self.words = [*words, "--store", str(self.store.root)]

    def start(self, *more: str, out: str = "out", observed: Observed | None = None) -> Command:
        return self.fork_server.start(self.folder / out, *self.words, "--out", "report", *more, observed=observed)

    def table(self, out: str = "out") -> bytes:
        return (self.folder / out / "report" / "results.csv").read_bytes()

    def result(self, out: str = "out") -> tuple[dict[str, bytes], bytes]:
        return files(self.store.root), self.table(out)


@pytest.fixture(scope="module")
def words(tiny_backbone: str, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    task = tmp_path_factory.mktemp("task") / "task.yaml"
    task.write_text("{name: inference, train_size: 120, dev_size: 40, ood_size: 40}")
    sizes = ["--scale", str(SCALE), "--sparsities", "0.5"]
    return ["reproduce", "fig2", "--tasks", str(task), "--backbone", tiny_backbone, *sizes]


@pytest.fixture(scope="module")
def undisturbed(fork_server: ForkServer, words: list[str], tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    whole = Reproduction(fork_server, words, tmp_path_factory.mktemp("undisturbed"))
    command = whole.start()
    assert command.code == 0, command.said
    assert command.lines == []
    return whole


@pytest.fixture
def reproduction(fork_server: ForkServer, words: list[str], tmp_path: Path) -> Reproduction:
    return Reproduction(fork_server, words, tmp_path)


def test_two_at_once_compute_everything_once(
    undisturbed: Reproduction, reproduction: Reproduction, observed: Observed
) -> None:
    observed.order("hold", TUNE, step=3)  # whoever is there first
    both = [reproduction.start(out=out, observed=observed) for out in ("one", "other")]
    holder = observed.held(TUNE)
    until(lambda: {each["pid"] for each in observed.log} > {holder}, "the other one at work beside it")
    until(lambda: any("waiting for another process" in each.said for each in both), "the other one that waits")
    observed.release()
    assert [command.code for command in both] == [0, 0], [command.said for command in both]
    assert sorted(observed.begun()) == reproduction.store.keys() == undisturbed.store.keys()
    assert reproduction.store.verify() == {}
    assert reproduction.result("one") == reproduction.result("other") == undisturbed.result()
    pages = [reproduction.folder / out / "report" / "report.html" for out in ("one", "other")]
    assert pages[0].read_text() == pages[1].read_text()


def test_the_second_time_nothing_is_trained(undisturbed: Reproduction, observed: Observed) -> None:
    table = undisturbed.table()
    plan = undisturbed.start("--dry-run", out="plan")
    assert plan.code == 0, plan.said
    assert "to do  " not in plan.printed, "the state of each step"
    again = undisturbed.start(out="again", observed=observed)
    assert again.code == 0, again.said
    assert again.said == ""
    assert observed.log == []
    assert undisturbed.table("again") == table


def test_killed_while_it_writes_it_comes_to_the_same(
    undisturbed: Reproduction, reproduction: Reproduction, observed: Observed
) -> None:
    for label, step in WRITING:
        observed.order("die_writing", label, step)
    died = 0
    while (command := reproduction.start(observed=observed)).code == -signal.SIGKILL:
        died += 1
        assert reproduction.store.verify() == {}
    assert command.code == 0, command.said
    assert died == len(WRITING)
    assert observed.steps(IMP)[-1][0] > 1, "it continued behind a checkpoint"
    assert reproduction.result() == undisturbed.result()


# --- a full disk ---------------------------------------------------------------------------------------------------


class Disk:
    """A disk that is too small until it is made larger; only pretended where one may not mount."""

    def __init__(self, folder: Path, observed: Observed, kilobytes: int) -> None:
        self.folder, self.observed = folder, observed
        folder.mkdir()
        size = f"size={kilobytes}k"
        self.mounted = _runs("mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder))
        if not self.mounted:
            observed.order("fill", "mask (ce) at 50 %, seed 0", step=5)

    def enlarge(self) -> None:
        self.observed.forget()
        if self.mounted:
            assert _runs("mount", "-o", "remount,size=256m", str(self.folder))

    def remove(self) -> None:
        if self.mounted:
            assert _runs("umount", "--lazy", str(self.folder))


def _runs(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE).returncode == 0
    except OSError:
        return False


@pytest.fixture
def disk(undisturbed: Reproduction, tmp_path: Path, observed: Observed) -> Iterator[Disk]:
    """Room for half of what the whole needs."""
    size = sum(path.stat().st_size for path in undisturbed.store.root.rglob("*") if path.is_file())
    disk = Disk(tmp_path / "disk", observed, kilobytes=size // 2048)
    yield disk
    disk.remove()


def test_on_a_full_disk_it_stops_with_one_line_and_goes_on_when_there_is_space(
    fork_server: ForkServer, words: list[str], undisturbed: Reproduction, disk: Disk, observed: Observed, tmp_path: Path
) -> None:
    reproduction = Reproduction(fork_server, words, tmp_path, disk.folder / "store")
    ended = reproduction.start(observed=observed)
    assert ended.code == 2, ended.said
    errors = [line for line in ended.lines if not line.startswith("warning: ")]
    assert len(errors) == 1, ended.said
    assert errors[0].startswith(f"srnet: cannot write {disk.folder}"), errors
    assert "no space left" in errors[0], errors
    begun, stored = observed.begun(), set(reproduction.store.keys())
    assert len(begun) == len(stored) + 1, "when one had failed, nobody else began"
    assert 0 < len(stored) < len(undisturbed.store.keys())
    assert reproduction.store.verify() == {}
    hidden = [path.name for path in reproduction.store.artifacts.iterdir() if path.name.startswith(".")]
    assert hidden == [], "nothing half-written takes the space that is left"

    disk.enlarge()
    observed.forget()
    command = reproduction.start(observed=observed)
    assert command.code == 0, command.said
    assert sorted([*stored, *observed.begun()]) == undisturbed.store.keys(), "only what was missing is computed"
    assert reproduction.result() == undisturbed.result()
    assert os.path.ismount(disk.folder) == disk.mounted
