"""One case in one forked process: its output, its exit code, its memory, and what it wrote where."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

Door = Callable[[random.Random, Path], list[str]]
"""Writes hostile files into a folder and returns the arguments of the command that reads them."""

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
    argv: Sequence[str]
    code: int
    problem: str | None
    """None: success, or exit code 1 or 2 with one line for the user."""
    said: str = ""

    def __str__(self) -> str:
        return f"{self.door} {self.number}: {self.problem}\n  srnet {' '.join(map(repr, self.argv))}\n{self.said}"


def run_case(door: str, make: Door, number: int, seed: int) -> Outcome:
    """The case `number` of a door; the same numbers give the same case."""
    rng = random.Random(f"{seed}/{door}/{number}")
    return run_argv(door, number, lambda folder: make(rng, folder))


def run_argv(door: str, number: int, make: Callable[[Path], list[str]]) -> Outcome:
    """Run what `make` returns, in the folder that it has written files into."""
    outer = Path(tempfile.mkdtemp(prefix="srnet-fuzz-"))
    try:
        work = outer / "deep" / "inside" / "work"
        work.mkdir(parents=True)
        argv = make(work)
        code, memory, hung = _forked(argv, outer, work)
        said = (outer / "stderr").read_text(errors="replace")
        problem = _problem(code, memory, hung, said) or _strays(outer, work)
        return Outcome(door, number, argv, code, problem, said[-3000:])
    finally:
        shutil.rmtree(outer, ignore_errors=True)


def _forked(argv: list[str], outer: Path, work: Path) -> tuple[int, int, bool]:
    """(exit code, peak memory in bytes, whether it had to be stopped)"""
    child = os.fork()
    if child == 0:
        _become(argv, outer, work)
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends:
        done, status, usage = os.wait4(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024, False
        time.sleep(0.005)
    os.killpg(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024, True


def _become(argv: list[str], outer: Path, work: Path) -> None:
    """Run the command in this process, and never return."""
    code = 70
    try:
        os.setpgid(0, 0)
        os.chdir(work)
        for stream, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(outer / name, os.O_WRONLY | os.O_CREAT), stream)
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
        resource.setrlimit(resource.RLIMIT_FSIZE, (BIGGEST_FILE, BIGGEST_FILE))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.environ |= {"SRNET_STORE": str(work / "store"), "HOME": str(work), "COLUMNS": "80"}
        sys.argv = ["srnet", *argv]
        from srnet.cli import main

        main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 70
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


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
    known = {outer / "stdout", outer / "stderr", *work.parents, work}
    strays = [p for p in outer.rglob("*") if p not in known and work not in p.parents]
    return f"wrote {strays[0].relative_to(outer)} outside its folder" if strays else None
