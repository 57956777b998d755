"""A program that imports everything once and forks the command line whenever it is told to: no time for imports."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

LATE = (
    "matplotlib.pyplot",
    "transformers.trainer",
    "srnet.api.experiments",
    "srnet.experiment.compute_once",
    "srnet.experiment.engines.local",
    "srnet.report",
    "srnet.training.trainer",
)


def nest() -> None:
    """Reads orders, one a line: what to start, or whom to wait for. Answers with a process id or an exit code."""
    import srnet.cli

    for name in LATE:  # a run imports them when it needs them
        import_module(name)
    gc.freeze()  # see tests/conftest.py
    children: set[int] = set()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite started in the background ignores Ctrl-C
    for line in sys.stdin:
        order = json.loads(line)
        if "words" in order:
            answer = os.fork()
            if answer == 0:
                _command(srnet.cli.main, **order)
            children.add(answer)
        else:
            answer = _wait(**order)
            if answer is not None:
                children.discard(order["pid"])
        print(json.dumps(answer), flush=True)
    for child in children:  # a test failed and left it behind
        os.killpg(child, signal.SIGKILL)


def _command(main: Any, words: list[str], folder: str, env: dict[str, str]) -> None:
    os.setsid()  # Ctrl-C reaches a whole group; this is one
    os.chdir(folder)
    os.environ.update(env)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for stream, name in ((1, "stdout.txt"), (2, "stderr.txt")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    sys.argv = ["srnet", *words]
    code: Any = 1
    try:
        main()
    except SystemExit as exit:
        code = exit.code or 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _wait(pid: int, seconds: float) -> int | None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    return None


if __name__ == "__main__":
    sys.path.remove(str(Path(__file__).parent))  # its names are none of srnet's business
    nest()
