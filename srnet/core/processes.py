"""Child processes: they end with their parent from the moment they start, and inherit variables of a block.

Light: a child imports torch afterwards.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import wait
from typing import Any


def run_with_parent(module: str, function: str, *arguments: Any) -> None:
    """Call a function of a module whose import takes long. A child that imports would not notice its parent's end."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    getattr(importlib.import_module(module), function)(*arguments)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """A block in which child processes are started with these variables."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
