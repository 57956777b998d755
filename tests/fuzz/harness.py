"""Cases in forked processes: their output, their exit codes, their memory, and what they wrote where."""

from __future__ import annotations

import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

Command = list[str] | Callable[[], None]
"""The arguments of a command, or what is called instead of one."""
Door = Callable[[random.Random, Path], Command]
"""Writes hostile files into a folder and returns the command that reads them."""

SECONDS = 120
"""A case that takes longer hangs: the slowest honest one takes a few seconds on a busy machine."""
MEMORY = 2 * 2**30
ADDRESSES = 12 * 2**30
"""Of address space. Far above what any case needs, so that a runaway allocation fails in its own process."""
BIGGEST_FILE = 2**28


@dataclass(frozen=True)
class Outcome:
    door: str
    number: int
    command: Command
    code: int
    problem: str | None
    """None: success, or exit code 1 or 2 with one line for the user."""
    said: str = ""

    def __str__(self) -> str:
        words = repr(self.command) if callable(self.command) else f"srnet {' '.join(map(repr, self.command))}"
        return f"{self.door} {self.number}: {self.problem}\n  {words:.3000}\n{self.said}"


@dataclass(frozen=True)
class Case:
    door: str
    number: int
    make: Callable[[Path], Command]
    """Writes files into a folder and returns the command that reads them."""


def hostile(door: str, make: Door, number: int, seed: int) -> Case:
    """The case `number` of a door; the same numbers give the same case."""
    rng = random.Random(f"{seed}/{door}/{number}")
    return Case(door, number, lambda folder: make(rng, folder))


def execute(command: Command) -> None:
    """Run a command in this process. One of srnet ends with SystemExit."""
    if callable(command):
        command()
        return
    from srnet.cli.program import main

    sys.argv = ["srnet", *command]
    main()


def run(cases: Iterable[Case], together: int = 10) -> Iterator[Outcome]:
    """Each case in a folder of its own. Some of them share a process, since a fork takes as long as a short case."""
    remaining = iter(cases)
    while batch := list(islice(remaining, together)):
        with tempfile.TemporaryDirectory(prefix="srnet-fuzz-", ignore_cleanup_errors=True) as root:
            yield from _run([_Prepared(case, Path(root) / str(place)) for place, case in enumerate(batch)])


class _Prepared:
    """A case whose files are written."""

    def __init__(self, case: Case, outer: Path) -> None:
        self.case, self.outer, self.work = case, outer, outer / "deep" / "inside" / "work"
        self.work.mkdir(parents=True)
        self.command = case.make(self.work)

    def execute(self) -> None:
        """Run the command in this process and write its exit code down."""
        os.chdir(self.work)
        for stream, name in ((1, "stdout"), (2, "stderr")):
            descriptor = os.open(self.outer / name, os.O_WRONLY | os.O_CREAT)
            os.dup2(descriptor, stream)
            os.close(descriptor)
        os.environ |= {"SRNET_STORE": str(self.work / "store"), "HOME": str(self.work), "COLUMNS": "80"}
        code = 70
        try:
            execute(self.command)
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 70
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        (self.outer / "code").write_text(str(code))

    def outcome(self, code: int, memory: int, hung: bool) -> Outcome:
        said = (self.outer / "stderr").read_text(errors="replace")
        problem = _problem(code, memory, hung, said) or _strays(self.outer, self.work)
        return Outcome(self.case.door, self.case.number, self.command, code, problem, said[-3000:])


def _run(cases: list[_Prepared]) -> Iterator[Outcome]:
    """A case that ends its process is followed by the others in another one."""
    while cases:
        code, memory, hung = _forked(cases)
        ended = [case for case in cases if (case.outer / "code").exists()]
        for case in ended:
            yield case.outcome(int((case.outer / "code").read_text()), memory, False)
        if len(ended) < len(cases):
            yield cases[len(ended)].outcome(code, memory, hung)
        cases = cases[len(ended) + 1 :]


def _forked(cases: list[_Prepared]) -> tuple[int, int, bool]:
    """(exit code, peak memory in bytes, whether it had to be stopped)"""
    child = os.fork()
    if child == 0:
        _become(cases)
    ends = time.monotonic() + SECONDS * len(cases)
    while time.monotonic() < ends:
        done, status, usage = os.wait4(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024, False
        time.sleep(0.005)
    os.killpg(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024, True


def _become(cases: list[_Prepared]) -> None:
    """Run the commands in this process, and never return."""
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
        resource.setrlimit(resource.RLIMIT_FSIZE, (BIGGEST_FILE, BIGGEST_FILE))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for case in cases:
            case.execute()
    finally:
        os._exit(0)


def _problem(code: int, memory: int, hung: bool, said: str) -> str | None:
    if hung:
        return f"no end after {SECONDS} s"
    if "Traceback (most recent call last)" in said:
        return "a traceback"
    if code not in (0, 1, 2):
        return f"exit code {code}"
    errors = [line for line in said.splitlines() if line.startswith("srnet:")]
    if code == 2 and (len(errors) != 1 or said.splitlines()[-1] != errors[0]):
        return "exit code 2 without one line that says why"
    if errors and len(errors[0]) > 1500:
        return f"an error message of {len(errors[0])} characters"
    return f"{memory / 2**30:.1f} GiB of memory" if memory > MEMORY else None


def _strays(outer: Path, work: Path) -> str | None:
    """Files outside the working folder."""
    known = {outer / "stdout", outer / "stderr", outer / "code", *work.parents, work}
    strays = [p for p in outer.rglob("*") if p not in known and work not in p.parents]
    return f"wrote {strays[0].relative_to(outer)} outside its folder" if strays else None
