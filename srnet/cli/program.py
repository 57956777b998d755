"""How the user starts this program, for commands that are printed to be run next."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import srnet

_COMMAND = re.compile(r"(?:^|(?<=`))srnet (?=[a-z-])")


def runnable(text: str) -> str:
    """`text` with its commands as they work in the user's shell: one at its beginning, and those in backticks.

    Only what is printed: a stored file is for other people and machines, and has plain `srnet ...`.
    """
    return _COMMAND.sub(lambda _: f"{program()} ", text)


def program() -> str:
    """`srnet`, `.venv/bin/srnet` where PATH does not have it, or `python -m srnet`: as this process was started."""
    started = Path(sys.argv[0])
    if started.absolute() == Path(srnet.__file__).absolute().with_name("__main__.py"):
        return f"{_typed(Path(sys.executable))} -m srnet"
    return _typed(started) if started.is_file() and started.stem == "srnet" else "srnet"


def _typed(path: Path) -> str:
    """The name if PATH leads to this very file, else the absolute or the relative path, whichever is shorter.

    Links are not followed: in a virtual environment `python` is a link to one that has no srnet.
    """
    found = shutil.which(path.name)
    if found is not None and Path(found).absolute() == path.absolute():
        return shlex.quote(path.name)
    paths = [str(path.absolute())]
    with contextlib.suppress(ValueError):  # another drive
        below = os.path.relpath(path)
        paths.append(below if os.sep in below else os.path.join(os.curdir, below))
    return shlex.quote(min(paths, key=len))
