"""What libraries do without being asked: nothing is contacted unless the user allows it. Imports nothing heavy.

A process of the program `srnet` is offline as a whole, before any library is imported. In a script that imports srnet,
only srnet's own calls are: the script may use the Hub itself, and may have imported its libraries before.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from srnet.core.names import DOWNLOAD_VARIABLE

OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
NO_TELEMETRY = {"HF_HUB_DISABLE_TELEMETRY": "1", "ORT_DISABLE_TELEMETRY": "1", "RAY_USAGE_STATS_ENABLED": "0"}


def may_download() -> bool:
    return os.environ.get(DOWNLOAD_VARIABLE) == "1"


def isolate_process() -> None:
    """Let libraries that are imported from now on, and child processes, contact nothing that the user did not allow.

    matplotlib writes its list of fonts to the temporary folder instead of the user's home folder.
    """
    disable_telemetry()
    with suppress(OSError):  # then it says itself that it cannot write
        os.environ.setdefault("MPLCONFIGDIR", _own_folder("srnet-matplotlib"))
    if not may_download():
        os.environ.update(OFFLINE)


def _own_folder(name: str) -> str:
    """A folder that stays in the temporary folder, or a new one if another user has one of that name."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = os.path.join(tempfile.gettempdir(), f"{name}-{user}")
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    found = os.lstat(folder)
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == user
    return folder if is_own else tempfile.mkdtemp(prefix=name)


def disable_telemetry() -> None:
    """Libraries read this when they are imported. A value that the user has set is kept."""
    for name, value in NO_TELEMETRY.items():
        os.environ.setdefault(name, value)


_lock = threading.Lock()
_blocks = 0
_before: dict[tuple[str, str], Any] = {}
"""Settings of the Hub's libraries outside of all blocks, by module and name."""


@contextmanager
def guarded_hub() -> Iterator[None]:
    """A block in which the Hub's libraries contact nothing, unless downloads are allowed; they never send telemetry.

    `local_files_only` is not enough: `datasets` requests a dataset's card, `huggingface_hub` a list of coding agents.
    The settings are those of the process, so other threads are offline for as long as a block lasts.
    """
    import huggingface_hub.constants  # noqa: F401

    global _blocks
    with _lock:
        _blocks += 1
        _set("huggingface_hub.constants", "HF_HUB_DISABLE_TELEMETRY")
        if not may_download():
            _set("datasets.config", "HF_HUB_OFFLINE")
            _set("huggingface_hub.constants", "HF_HUB_OFFLINE")
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1
            if not _blocks:
                _restore()


def _set(module: str, name: str) -> None:
    """To True; the first value is restored after the last block.

    If `datasets` is imported in a block, it copies the Hub's setting, unless a variable of its own is set.
    """
    if module in sys.modules:
        _before.setdefault((module, name), getattr(sys.modules[module], name))
        setattr(sys.modules[module], name, True)
    elif "HF_DATASETS_OFFLINE" not in os.environ:
        _before.setdefault((module, name), getattr(sys.modules["huggingface_hub.constants"], name))


def _restore() -> None:
    for (module, name), value in _before.items():
        if module in sys.modules:
            setattr(sys.modules[module], name, value)
    _before.clear()
