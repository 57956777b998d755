"""Child processes that end with their parent, from the moment they start. Light: torch is imported afterwards."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import threading
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
