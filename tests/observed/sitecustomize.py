"""Imported by every Python process that has this folder in PYTHONPATH, whoever starts it: a pool, Ray, torchrun.

If OBSERVED names a folder, each process writes down there what it computes, and does what the orders there say: wait,
die, fail at a step of a node.
"""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import sys
import time
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

WATCHED = "srnet.experiment.compute"


class Finder(MetaPathFinder):
    """Lets a module be imported as always, and then puts the observer in."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != WATCHED:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def and_observe(module: Any) -> None:
            execute(module)
            module.compute = observed(module.compute)

        spec.loader.exec_module = and_observe  # type: ignore[method-assign]
        return spec


def observed(compute: Any) -> Any:
    def computing(node: Any, context: Any, folder: Path) -> None:
        if "OBSERVED" not in os.environ or context.secondary_rank:  # another process writes the result
            compute(node, context, folder)
            return
        from dataclasses import replace

        watch = context.watch

        def spy(step: int, total: int, figures: dict[str, float]) -> None:
            note(node, "step", step)
            if watch is not None:
                watch(step, total, figures)
            obey(node, step)

        note(node, "begin")
        obey(node, 0)
        compute(node, replace(context, watch=spy), folder)
        note(node, "end")

    return computing


def note(node: Any, event: str, step: int = 0) -> None:
    append("log", {"pid": os.getpid(), "key": node.key, "label": node.label, "event": event, "step": step})


def append(name: str, value: Any) -> None:
    """One short write to the end of a file: lines of several processes do not mix."""
    with open(Path(os.environ["OBSERVED"]) / name, "a") as file:
        file.write(json.dumps(value) + "\n")


def obey(node: Any, step: int) -> None:
    folder = Path(os.environ["OBSERVED"])
    for order in json.loads((folder / "orders").read_text()):
        if step != order["step"] or not re.fullmatch(order["label"], node.label):
            continue
        acted = (folder / "acted").read_text().split("\n") if (folder / "acted").exists() else []
        if acted.count(json.dumps(order)) < order["times"]:
            append("acted", order)
            note(node, order["act"], step)
            ACTS[order["act"]]()


def hold() -> None:
    while not (Path(os.environ["OBSERVED"]) / "released").exists():
        time.sleep(0.01)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_writing() -> None:
    """Die before the next rename, by which everything becomes visible: right before it, a file is half done."""

    def rename(*args: Any, **kwargs: Any) -> None:
        die()

    os.rename = os.replace = rename  # type: ignore[assignment]


def fail() -> None:
    from srnet.core.errors import UserError

    raise UserError("the data are upside down", "turn them")


def crash() -> None:
    raise ValueError("nobody thought of this")


def fill() -> None:
    """From now on this process finds the disk full."""

    def fsync(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    os.fsync = fsync


ACTS = {"hold": hold, "die": die, "die_writing": die_writing, "fail": fail, "crash": crash, "fill": fill}

sys.meta_path.insert(0, Finder())
