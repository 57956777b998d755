"""Data of tasks in memory: files of a store, named after their content.

data/SPLIT-HASH.jsonl      the rows of a split
data/features-HASH.jsonl   the features of a shortcut that is a Python function

Stored expressions name them relative to the store, so that it can be moved and copied.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srnet.core.files import sha256, write_bytes

_PREFIX = "store:"
_SHORTCUT = "features:"
"""What stands before a file where it is the shortcut that `srnet.shortcut_from` returns."""
_FILE = re.compile(r"[^/\\]+-(?P<hash>[0-9a-f]{16})\.jsonl")


@dataclass(frozen=True)
class StoredData:
    """The data files of the store at `root`."""

    root: Path

    @property
    def folder(self) -> Path:
        return self.root.resolve() / "data"

    def add(self, split: str, content: bytes) -> Path:
        """The file of a split; it is written once, however often the same content is added."""
        path = self.folder / f"{split}-{hashlib.sha256(content).hexdigest()[:16]}.jsonl"
        if self.problem(path) is not None:
            write_bytes(path, content)
        else:
            with suppress(OSError):  # a store that can only be read
                os.utime(path)  # its age is that of its last use
        return path

    def files(self) -> list[Path]:
        return sorted(self.folder.glob("*.jsonl")) if self.folder.is_dir() else []

    def problem(self, path: Path) -> str | None:
        """The problem with a file, or None."""
        if not path.is_file():
            return f"{path} is missing"
        named = _FILE.fullmatch(path.name)
        return None if named and sha256(path).startswith(named["hash"]) else f"{path} is not what it was when written"

    # --- names in stored expressions -------------------------------------------------------------------------------

    def portable(self, expression: Any) -> Any:
        """An expression with its data files relative to the store."""
        start = f"{self.folder}{os.sep}"

        def relative(text: str) -> str:
            name = text.removeprefix(start)
            return f"{_PREFIX}data/{name}" if name != text and _FILE.fullmatch(name) else text

        return _with_texts(expression, relative)

    def resolved(self, expression: Any) -> Any:
        """An expression with the paths of its data files where the store is now."""

        def absolute(text: str) -> str:
            name = text.removeprefix(f"{_PREFIX}data/")
            return str(self.folder / name) if name != text and _FILE.fullmatch(name) else text

        return _with_texts(expression, absolute)

    def used_in(self, expression: Any) -> Iterator[Path]:
        """The data files of an expression."""
        found: set[str] = set()
        _with_texts(expression, lambda text: found.add(text) or text)  # type: ignore[func-returns-value]
        return (path for path in map(Path, sorted(found)) if path.parent == self.folder and _FILE.fullmatch(path.name))


def _with_texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        path = value.removeprefix(_SHORTCUT)
        return value.removesuffix(path) + change(path)
    if isinstance(value, dict):
        return {name: _with_texts(each, change) for name, each in value.items()}
    return [_with_texts(each, change) for each in value] if isinstance(value, list) else value
