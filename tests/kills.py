"""`kill -9` at seeded random moments of a run: `python -m tests.kills --engine pool --kills 30 --seed 1`.

Half of the kills hit the command, the others a process below it. After each one the same command is run again. Reported
are damaged artifacts, files that the following run did not remove, processes that outlive the command by more than 5 s,
commands that end otherwise than with success or one line, and results that differ from those of an undisturbed run.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

sys.path[:0] = [str(Path(__file__).parent)]
from processes import Command, ForkServer, files, small_recipe, started_fork_server, write_tiny_backbone  # noqa: E402

OUTLIVING_SECONDS = 5.0
LIMIT = 600.0
"""Seconds after which a run, or a process without a parent, is ended and reported."""
Result = tuple[dict[str, bytes], bytes]


@dataclass
class Report:
    engine: str
    kills: int = 0
    below: int = 0
    """Kills of a process below the command."""
    whole: int = 0
    """Runs that came to their end, each compared with the undisturbed one."""
    longest: float = 0.0
    """Seconds that a process outlived its command."""
    problems: list[str] = field(default_factory=list)

    def bad(self, problem: str) -> None:
        self.problems.append(problem)
        print(f"kill {self.kills}: {problem}", flush=True)

    def __str__(self) -> str:
        return (
            f"engine {self.engine}: {self.kills} kills ({self.below} below the command), {self.whole} whole runs,"
            f" {len(self.problems)} problems; longest life after the command {self.longest:.1f} s"
        )


class Campaign:
    """One engine, killed again and again. A store that is complete is replaced by an empty one."""

    def __init__(self, server: ForkServer, spec: Path, root: Path, engine: str, seed: int) -> None:
        self.server, self.spec, self.root, self.engine = server, spec, root, engine
        self.random = random.Random(f"{seed}/{engine}")
        self.report = Report(engine)
        assert server.start(root / "imports", "--version").code == 0  # not part of the time of a run
        self.expected, self.seconds = self._undisturbed("local")
        if engine != "local":
            found, self.seconds = self._undisturbed(engine)
            if found != self.expected:
                self.report.bad("an undisturbed run differs from that of the engine local")

    def run(self, kills: int) -> Report:
        while self.report.kills < kills:
            self._kill_once()
        while not self._finish():
            pass
        return self.report

    # --- runs ------------------------------------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        return self.root / f"run-{self.report.whole}"

    def _start(self, folder: Path, engine: str) -> Command:
        workers = () if engine == "local" else ("--workers", 2)
        words = ("run", self.spec, "--store", "store", "--out", "out", "--engine", engine, *workers)
        return self.server.start(folder, *words)

    def _undisturbed(self, engine: str) -> tuple[Result, float]:
        folder, started = self.root / f"undisturbed-{engine}", time.monotonic()
        command = self._start(folder, engine)
        assert command.code == 0, command.said
        return _result(folder), time.monotonic() - started

    def _kill_once(self) -> None:
        began, command = time.time(), self._start(self.folder, self.engine)
        moment = time.monotonic() + self.random.uniform(0.0, self.seconds)
        while time.monotonic() < moment and not command.ended:
            time.sleep(0.005)
        if not command.ended:
            self._kill(command)
        self._check(command, began)

    def _kill(self, command: Command) -> None:
        self.report.kills += 1
        below = [each for each in _session(command.pid) if each.pid != command.pid]
        if below and self.random.random() < 0.5:
            self.report.below += 1
            victim = self.random.choice(below)
            print(f"kill {self.report.kills}: {_name(victim)}", flush=True)
            _end([victim])
        else:
            print(f"kill {self.report.kills}: the command", flush=True)
            command.kill()

    def _finish(self) -> bool:
        """Run to the end; whether that was a success."""
        began, command = time.time(), self._start(self.folder, self.engine)
        self._check(command, began)
        return command.code == 0

    # --- checks ----------------------------------------------------------------------------------------------------

    def _check(self, command: Command, began: float) -> None:
        deadline = time.monotonic() + LIMIT
        while not command.ended and time.monotonic() < deadline:
            time.sleep(0.05)
        if not command.ended:
            self.report.bad(f"the command does not end: {command.said[-500:]}")
            command.kill()
        self._check_processes(command)
        self._check_end(command)
        self._check_store(command, began)

    def _check_processes(self, command: Command) -> None:
        started = time.monotonic()
        late: dict[str, float] = {}
        while (left := _session(command.pid)) and time.monotonic() - started < LIMIT:
            late |= {_name(process): time.monotonic() - started for process in left}
            time.sleep(0.05)
        _end(left)
        self.report.longest = max(self.report.longest, *late.values(), 0.0)
        for name, seconds in late.items():
            if seconds > OUTLIVING_SECONDS:
                self.report.bad(f"{name} outlived the command by {seconds:.0f} s")

    def _check_end(self, command: Command) -> None:
        errors = [line for line in command.lines if not line.startswith("warning: ")]
        if command.code == 2 and len(errors) == 1 and errors[0].startswith("srnet: "):
            print(f"  {errors[0]}", flush=True)
        elif command.code not in (0, -9) or errors:
            self.report.bad(f"exit code {command.code}: {command.said[-1000:]}")

    def _check_store(self, command: Command, began: float) -> None:
        store = self.folder / "store"
        if (store / "artifacts").is_dir():
            verified = self.server.start(self.root / "verify", "store", "verify", "--store", store)
            if verified.code != 0:
                self.report.bad(f"store verify: {verified.printed}{verified.said}")
        if command.code == 0:
            self._check_whole(store)
        elif any((store / "locks").glob(f"run-{command.pid}-*")):  # it has opened the store
            self._check_leftovers([path for path in _unfinished(store) if path.lstat().st_mtime < began])

    def _check_whole(self, store: Path) -> None:
        self._check_leftovers([*_unfinished(store), *store.glob("work/*"), *_hidden(self.folder / "out")])
        if _result(self.folder) != self.expected:
            self.report.bad(f"{self.folder}: the results differ from those of the undisturbed run")
        self.report.whole += 1

    def _check_leftovers(self, paths: list[Path]) -> None:
        if paths:
            self.report.bad(f"leftovers: {[str(path.relative_to(self.folder)) for path in paths]}")


def _result(folder: Path) -> Result:
    return files(folder / "store"), (folder / "out" / "results.csv").read_bytes()


def _unfinished(store: Path) -> list[Path]:
    """Incomplete artifacts, their temporary files, and locks."""
    return [*_hidden(store / "artifacts"), *store.glob("locks/*")]


def _hidden(folder: Path) -> Iterator[Path]:
    return folder.rglob(".*")


def _session(leader: int) -> list[psutil.Process]:
    """The processes of a command's session. Zombies have ended."""
    return [process for process in psutil.process_iter() if _is_in_session(process, leader)]


def _is_in_session(process: psutil.Process, leader: int) -> bool:
    try:
        return os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE
    except (OSError, psutil.Error):
        return False


def _name(process: psutil.Process) -> str:
    try:
        words = process.cmdline()
        return " ".join([process.name(), *(Path(word).name for word in words[1:4])])
    except psutil.Error:
        return "a process that has ended"


def _end(processes: list[psutil.Process]) -> None:
    for process in processes:
        try:
            process.kill()
        except psutil.Error:
            continue


def run_kills(server: ForkServer, root: Path, backbone: Path, engine: str, kills: int, seed: int) -> Report:
    spec = root / "kills.yaml"
    spec.write_text(small_recipe("kills", backbone, steps=12, rate=1e-3, sparsity=0.5))
    return Campaign(server, spec, root, engine, seed).run(kills)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description=__doc__)
    parser.add_argument("--engine", choices=("local", "pool", "ray"), default="local")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="srnet-kills-") as root, started_fork_server() as server:
        backbone = write_tiny_backbone(Path(root) / "backbone")
        report = run_kills(server, Path(root), backbone, given.engine, given.kills, given.seed)
    print(report)
    sys.exit(bool(report.problems))


if __name__ == "__main__":
    main()
