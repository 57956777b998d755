"""Child processes: they end with their parent from the moment they start, and inherit variables of a block.

Light: a child imports torch afterwards.
"""

from __future__ import annotations

import ast
import importlib
import multiprocessing
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import wait
from pathlib import Path
from traceback import walk_stack
from typing import Any

from srnet.core.errors import UserError


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


def require_main_guard() -> None:
    """Refuse to start processes from the top level of a script: each of them would import it, and start them again."""
    main = sys.modules["__main__"]
    file = Path(getattr(main, "__file__", None) or "")  # a notebook has none, and is not imported
    stack = [line for frame, line in walk_stack(sys._getframe()) if frame.f_locals is vars(main)]
    if not stack or not file.is_file():
        return
    ifs = [each for each in ast.walk(ast.parse(file.read_bytes())) if isinstance(each, ast.If)]
    guards = [range(each.lineno, (each.end_lineno or 0) + 1) for each in ifs if "__name__" in ast.unparse(each.test)]
    if not any(stack[0] in guard for guard in guards):
        fix = 'put the calls into a function and call it under `if __name__ == "__main__":`'
        raise UserError(f"every process of engine 'pool' would run {file.name} from its beginning", fix)
