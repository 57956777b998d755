"""Seeded hostile input through every door, in forked processes.

A case ends with success, or with exit code 1 or 2 and one line; it leaves nothing outside its folder and stays below
2 GiB. `python -m tests.fuzz` runs more of them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .doors import DOORS, EVERY
from .harness import Case, _problem, _strays, run
from .valid import VALID

CASES = 30
"""A door."""
ROOT = Path(__file__).parents[2]


def run_fuzz(*options: str) -> subprocess.CompletedProcess[str]:
    """In a fresh process: a fork of this one would copy the memory of all the tests before."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.fuzz", *options]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_hostile_input_ends_in_success_or_in_one_line() -> None:
    count = CASES * (len(DOORS) - len(EVERY))
    done = run_fuzz("--cases", str(count), "--seed", "13")
    assert f"{count} cases, 0 of them bad" in done.stdout, done.stdout[-4000:] + done.stderr[-4000:]


def test_what_the_cases_damage_exists_for_each_door() -> None:
    """It is run first, and must succeed: otherwise every case would end at the first check."""
    assert VALID.keys() == DOORS.keys()
    assert all(VALID.values())


def test_a_traceback_a_stray_file_and_a_hang_are_noticed(tmp_path: Path) -> None:
    assert _problem(1, 0, False, "Traceback (most recent call last):\n") == "a traceback"
    assert _problem(-9, 0, False, "") == "exit code -9"
    assert _problem(2, 0, False, "") == "exit code 2 without one line that says why"
    assert _problem(2, 0, False, "srnet: a\nsrnet: b\n") == "exit code 2 without one line that says why"
    assert "no end" in str(_problem(0, 0, True, ""))
    assert "3.0 GiB" in str(_problem(0, 3 * 2**30, False, ""))
    assert _problem(2, 2**20, False, "srnet: what is wrong\n") is None
    work = tmp_path / "deep" / "work"
    work.mkdir(parents=True)
    (work / "fine").write_text("")
    assert _strays(tmp_path, work) is None
    (tmp_path / "evil").write_text("")
    assert "wrote evil outside" in str(_strays(tmp_path, work))


def test_a_case_that_ends_its_process_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def main() -> None:
        if sys.argv[1] == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        sys.exit(int(sys.argv[1]))

    monkeypatch.setattr("srnet.cli.program.main", main)
    cases = [Case("store", number, lambda folder, word=word: [word]) for number, word in enumerate(["0", "die", "3"])]
    assert [outcome.code for outcome in run(cases)] == [0, -signal.SIGKILL, 3]
    assert [outcome.problem for outcome in run(cases)] == [None, "exit code -9", "exit code 3"]
