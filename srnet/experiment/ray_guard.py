"""Ends the processes of a Ray instance when the command that started it has ended, also if that was killed.

A program of its own that imports nothing of srnet: `python ray_guard.py NAME=VALUE`. Standard input is a pipe that the
command holds open. One line on standard output says that the guard is ready. The processes to end have NAME=VALUE in
their environment, or a parent with it. Ray ends most of them itself, but its agents keep running for a minute, and
workers that are just starting for half of one.
"""

from __future__ import annotations

import select
import signal
import sys
import time
from contextlib import suppress

import psutil

POLL_SECONDS = 1.0
"""Ray's processes overwrite their environment some seconds after their start, and lose their parent at its end."""
QUIET_SECONDS = 1.0
"""How long processes are looked for after the last one was found: one that was just being started appears late."""
LIMIT_SECONDS = 30.0
"""How long the guard tries: a process that waits for a disk cannot be ended."""


class _Processes:
    """The processes with a mark in their environment, and their children. They start after the guard."""

    def __init__(self, mark: str) -> None:
        self._name, _, self._value = mark.partition("=")
        self._started = psutil.Process().create_time()
        self._ours: dict[int, psutil.Process] = {}

    def look(self) -> None:
        self._ours = {pid: process for pid, process in self._ours.items() if process.is_running()}  # numbers are reused
        for process in psutil.process_iter():
            with suppress(psutil.Error):  # it has ended, or is of another user
                if process.create_time() >= self._started and self._is_ours(process):
                    self._ours[process.pid] = process

    def _is_ours(self, process: psutil.Process) -> bool:
        return process.environ().get(self._name) == self._value or process.ppid() in self._ours

    def kill(self) -> bool:
        """Whether one of them was alive."""
        alive = False
        for process in self._ours.values():
            with suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE:
                    process.kill()
                    alive = True
        return alive


def main(mark: str) -> None:
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)  # the command decides when it ends
    processes = _Processes(mark)
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], POLL_SECONDS)[0]:
        processes.look()
    ended = last = time.monotonic()
    while time.monotonic() - last < QUIET_SECONDS and time.monotonic() - ended < LIMIT_SECONDS:
        processes.look()
        if processes.kill():
            last = time.monotonic()
        time.sleep(0.1)


if __name__ == "__main__":
    main(sys.argv[1])
