"""Variables of a launcher that say nothing sensible, and Ctrl-C while the program is still being imported."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from refusals import refused

from srnet.core.progress import is_secondary_rank, world_size
from srnet.training.hardware import ALONE, connect


@pytest.mark.parametrize("value", ["abc", "", "-1", "0", "2.5", "9" * 400])
def test_a_world_size_that_is_no_number_is_a_process_alone(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, given in {"WORLD_SIZE": value, "RANK": "1", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, given)
    assert world_size() <= 1
    assert not is_secondary_rank()
    assert connect() == ALONE
    monkeypatch.setenv("WORLD_SIZE", "2")  # as batch systems do, without saying which of the two this is
    monkeypatch.delenv("RANK")
    assert connect() == ALONE


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"RANK": "x"}, "RANK is 'x'"),
        ({"LOCAL_RANK": ""}, "LOCAL_RANK is ''"),
        ({}, "MASTER_ADDR"),
        ({"MASTER_ADDR": "localhost", "MASTER_PORT": "zz"}, "'zz'"),
    ],
    ids=str,
)
def test_a_launch_that_cannot_be_joined_is_one_line(
    variables: dict[str, str], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, given in ({"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0"} | variables).items():
        monkeypatch.setenv(name, given)
    assert not is_secondary_rank(), "the line would not be shown"
    with refused(named, "torchrun"):
        connect()


INTERRUPTED = """
import builtins, signal, os, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background of a script ignores it
usual = builtins.__import__
def interrupting(name, *rest):
    if name == "typer":
        os.kill(os.getpid(), signal.SIGINT)
    return usual(name, *rest)
builtins.__import__ = interrupting
from srnet.__main__ import main
main()
"""


def test_ctrl_c_during_imports_is_one_line() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False)
    assert done.stderr == "stopped; run the same command again to continue\n"
    assert done.returncode in (130, -signal.SIGINT)
