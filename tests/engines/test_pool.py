"""A pool of real processes: killed workers, interrupted and killed parents, nodes that fail. Nothing is lost."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
from pathlib import Path

import psutil
import pytest
from processes import ALWAYS, Command, ForkServer, Observed, files, gone, small_recipe, until

from srnet.experiment.compute import Outcome
from srnet.experiment.nodes.base import Node
from srnet.experiment.pool import picklable
from srnet.experiment.store import Store

NODES = 11  # for each of two seeds: the raw model, two trained ones, and their scores; and one bias model
TUNE = "fine-tune (ce), 20 steps, seed 0"
MASKS = ("mask (poe) at 50 %, seed 0", "mask (poe) at 50 %, seed 1")


class Grid:
    """One small grid with a store of its own, begun as often as it takes."""

    def __init__(self, fork_server: ForkServer, spec: Path, folder: Path) -> None:
        self.fork_server, self.spec, self.folder, self.store = fork_server, spec, folder, Store(folder / "store")

    def start(self, observed: Observed | None = None, engine: str = "pool") -> Command:
        words = ("run", self.spec, "--store", "store", "--out", "out", "--engine", engine)
        more = ("--workers", 2) if engine == "pool" else ()
        return self.fork_server.start(self.folder, *words, *more, observed=observed)

    @property
    def labels(self) -> list[str]:
        return [entry.label for entry in self.store.entries()]

    def result(self) -> tuple[dict[str, bytes], bytes]:
        return files(self.store.root), (self.folder / "out" / "results.csv").read_bytes()


@pytest.fixture(scope="module")
def spec(tiny_backbone: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("spec") / "grid.yaml"
    path.write_text(small_recipe("grid", tiny_backbone, seeds=2, rate=1e-3, sparsity=0.5))
    return path


@pytest.fixture(scope="module")
def by_one_process(fork_server: ForkServer, spec: Path, tmp_path_factory: pytest.TempPathFactory) -> Grid:
    """What the engine `local` comes to, undisturbed."""
    grid = Grid(fork_server, spec, tmp_path_factory.mktemp("local"))
    command = grid.start(engine="local")
    assert command.code == 0, command.said
    assert len(grid.store.keys()) == NODES
    assert {TUNE, *MASKS} <= set(grid.labels)
    assert sum(name.endswith("mask.bits") for name in grid.result()[0]) == 2
    return grid


@pytest.fixture
def grid(fork_server: ForkServer, spec: Path, tmp_path: Path) -> Grid:
    return Grid(fork_server, spec, tmp_path / "grid")


@pytest.fixture
def masks_to_do(fork_server: ForkServer, spec: Path, by_one_process: Grid, tmp_path: Path) -> Grid:
    """The grid, but for its second mask and the scores of it."""
    grid = Grid(fork_server, spec, tmp_path / "grid")
    shutil.copytree(by_one_process.store.root, grid.store.root)
    for entry in grid.store.entries():
        if MASKS[1] in entry.label:
            shutil.rmtree(grid.store.path(entry.key))
    assert len(grid.store.keys()) == NODES - 2
    return grid


def test_a_killed_worker_is_replaced_and_nobody_else_notices(
    by_one_process: Grid, grid: Grid, observed: Observed
) -> None:
    first, second = MASKS
    observed.order("hold", first, step=7)
    observed.order("hold", second, step=12)
    command = grid.start(observed)
    victim, other = observed.held(first, command), observed.held(second, command)
    assert {worker.pid for worker in command.workers()} == {victim, other}
    os.kill(victim, signal.SIGKILL)
    until(lambda: observed.seen("end", first), "the end of the training whose worker was killed", command)
    assert not observed.seen("end", second), "all the while the other worker was at its own"
    assert psutil.pid_exists(other)
    observed.release()

    assert command.code == 0, command.said
    died = f"warning: the worker of {first} died; retrying from its last checkpoint"
    assert command.lines == [died]
    assert observed.steps(first) == [list(range(1, 8)), list(range(6, 21))], "it continued behind its checkpoint"
    assert observed.steps(second) == [list(range(1, 21))]
    assert {each["pid"] for each in observed.log if each["label"] == second} == {other}
    killed = observed.seen("begin", first)[0]["key"]
    assert sorted([*grid.store.keys(), killed]) == sorted(observed.begun()), "everything else was computed once"
    assert grid.result() == by_one_process.result()
    assert grid.store.verify() == {}
    left = [path.name for path in grid.store.artifacts.iterdir() if path.name.startswith(".")]
    assert left == [], "what the kill left behind was removed by the worker that replaced it"
    grid.store.gc()
    assert len(list(grid.store.artifacts.iterdir())) == NODES


def test_a_worker_that_dies_every_time_costs_only_its_own_node(
    by_one_process: Grid, grid: Grid, observed: Observed
) -> None:
    observed.order("die", MASKS[1], step=7, times=ALWAYS)
    command = grid.start(observed)
    assert command.code == 2, command.said
    assert observed.steps(MASKS[1]) == [list(range(1, 8)), [6, 7], [6, 7]]
    assert [line for line in command.lines if line.startswith("srnet: ")] == [
        f"srnet: {MASKS[1]}: its worker died 3 times"
    ]
    assert "Traceback" not in command.said
    assert len(grid.store.keys()) == NODES - 2, "everybody else's results are kept"
    assert {f"evaluate {MASKS[0]}", f"evaluate {TUNE}"} <= set(grid.labels)
    assert not any(MASKS[1] in label for label in grid.labels)
    assert grid.store.verify() == {}
    expected = by_one_process.result()[0]
    assert all(expected[name] == data for name, data in files(grid.store.root).items())
    assert not (grid.folder / "out").exists()


def test_an_error_in_a_worker_is_one_line_for_the_user(masks_to_do: Grid, observed: Observed) -> None:
    observed.order("fail", MASKS[1], step=3)
    command = masks_to_do.start(observed)
    assert command.code == 2, command.said
    assert [line for line in command.lines if not line.startswith("warning: ")] == [
        "srnet: the data are upside down; turn them"
    ]
    assert observed.steps(MASKS[1]) == [[1, 2, 3]], "an error is no accident: nobody tries again"
    assert masks_to_do.store.verify() == {}
    assert len(masks_to_do.store.keys()) == NODES - 2


def test_a_bug_is_shown_with_its_traceback(masks_to_do: Grid, observed: Observed) -> None:
    """By the engine local: a worker's error differs only in that it is pickled, see below."""
    observed.order("crash", MASKS[1])
    command = masks_to_do.start(observed, engine="local")
    assert command.code == 1, command.said
    assert "ValueError: nobody thought of this" in command.said
    assert "in crash" in command.said, "where it happened"
    assert len(observed.seen("begin", MASKS[1])) == 1


def test_a_bug_in_a_worker_has_its_traceback_when_it_is_pickled() -> None:
    def crash() -> None:
        raise ValueError("nobody thought of this")

    with pytest.raises(ValueError, match="nobody") as crashed:
        crash()
    outcome = pickle.loads(pickle.dumps(picklable(Outcome(Node(), "failed", crashed.value))))
    assert outcome.status == "failed"
    assert isinstance(outcome.error, RuntimeError)
    assert "ValueError: nobody thought of this" in str(outcome.error)
    assert "in crash" in str(outcome.error), "where it happened"


def test_interrupted_and_killed_it_goes_on_where_it_was(by_one_process: Grid, grid: Grid, observed: Observed) -> None:
    # Ctrl-C in the midst of a training; the other worker may not come further than its own
    observed.order("hold", TUNE, step=12)
    observed.order("hold", MASKS[1], step=3)
    command = grid.start(observed)
    observed.held(TUNE, command)
    workers = command.workers()
    assert len(workers) == 2
    command.interrupt()
    assert gone(workers)
    _stopped(command)
    stored = set(grid.store.keys())
    assert not any(label.startswith(TUNE) for label in grid.labels)

    # kill -9 of the parent in the midst of another
    observed.forget()
    observed.order("hold", MASKS[1], step=7)
    command = grid.start(observed)
    observed.held(MASKS[1], command)
    until(lambda: any(label.startswith(TUNE) for label in grid.labels), "the other worker's training", command)
    workers = command.workers()
    command.kill()
    assert command.code == -signal.SIGKILL
    assert gone(workers), "they do not outlive their parent"
    assert observed.steps(TUNE) == [list(range(11, 21))], "it continued behind its checkpoint"
    assert not stored & set(observed.begun()), "what was done is not done again"
    stored = set(grid.store.keys())
    assert grid.store.verify() == {}

    # and to the end
    observed.forget()
    command = grid.start(observed)
    assert command.code == 0, command.said
    assert observed.steps(MASKS[1]) == [list(range(6, 21))]
    assert sorted([*stored, *observed.begun()]) == sorted(grid.store.keys()), "each of the rest is computed once"
    assert command.lines == []
    assert grid.result() == by_one_process.result()
    assert grid.store.verify() == {}


def test_ctrl_c_while_the_workers_start_shows_no_traceback(grid: Grid) -> None:
    command = grid.start()
    workers = until(lambda: len(found := command.workers()) == 2 and found, "two workers", command)
    until(lambda: all(_seconds(worker) > 0.3 for worker in workers), "workers that import torch", command)
    command.interrupt()
    assert gone(workers)
    _stopped(command)


def _seconds(worker: psutil.Process) -> float:
    return sum(worker.cpu_times()[:2])


def _stopped(command: Command) -> None:
    assert command.code == 130, command.said
    assert command.lines == ["stopped; run the same command again to continue"]
