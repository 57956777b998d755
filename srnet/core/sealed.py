"""Folders that are written once and read back: a JSON manifest with facts, and with a checksum of every file.

The manifest has a format number and a checksum of itself. README.md has no checksum: it is for readers, who may edit
it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from srnet.core.errors import UserError
from srnet.core.files import FieldType, check_types, read_json_object, require_readable_in, sha256, write_json

README = "README.md"
LONGEST_TEXT = 2**20
"""Tokens that any model reads."""
_RESTORE = "restore the file"


@dataclass(frozen=True)
class Manifest:
    """The manifest of one kind of folder: its file, the fields with their types, and the formats that are read."""

    file: str
    what: str
    """What lies in such a folder, for messages."""
    fields: Mapping[str, FieldType]
    """`files` are the checksums of the folder's files."""
    formats: tuple[int, ...] = (1,)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Fields that may be left out."""

    def is_in(self, folder: Path | str) -> bool:
        return (Path(folder) / self.file).is_file()

    def write(self, folder: Path, facts: Mapping[str, Any], files: Iterable[str] | None = None) -> None:
        """Write the manifest beside the files, which are all there. By default all of them get a checksum."""
        sealed = {"format": self.formats[0], **facts}
        if "files" in self.fields:
            names = self._others_in(folder) if files is None else files
            sealed["files"] = {name: sha256(folder / name) for name in names}
        write_json(folder / self.file, {**sealed, "sha256": checksum_of(sealed)})

    def read(self, folder: Path) -> dict[str, Any]:
        """The facts, after the manifest and every file that it names were found unaltered."""
        path = folder / self.file
        require_readable_in(folder)
        if not path.is_file():
            raise UserError(f"{folder} holds no {self.file}", f"give the folder of {self.what}")
        facts = read_json_object(path)
        if type(facts.get("format")) is not int or facts["format"] not in self.formats:
            raise self.unknown(folder)
        if facts.pop("sha256", None) != checksum_of(facts):
            raise UserError(f"{path} does not match its checksum", _RESTORE)
        facts = {**self.defaults, **facts}
        check_types(path, facts, **self.fields)
        check_files(folder, facts.get("files", {}))
        return facts

    def unknown(self, folder: Path) -> UserError:
        """The error for a format that this version does not read."""
        return UserError(f"{folder / self.file} has an unknown format", "it was written by another version of srnet")

    def _others_in(self, folder: Path) -> list[str]:
        own = (self.file, README)
        return sorted(path.name for path in folder.iterdir() if path.is_file() and path.name not in own)


def check_files(folder: Path, checksums: Mapping[str, str]) -> None:
    """Refuse a folder in which a file is missing or has another checksum."""
    for name, checksum in checksums.items():
        if not is_inside(name):
            raise UserError(f"{folder}: '{name}' is not a file of this folder", _RESTORE)
        if problem := problem_with(folder / name, checksum):
            raise UserError(problem, _RESTORE)


def problem_with(path: Path, checksum: str, size: int | None = None) -> str | None:
    """What is wrong with a file whose checksum is known, and perhaps its size; None if nothing is."""
    if not os.path.isfile(path):  # unlike Path.is_file, it raises nothing for a name that no file can have
        return f"{path} is missing"
    if size not in (None, path.stat().st_size) or sha256(path) != checksum:
        return f"{path} does not match its checksum"
    return None


def is_inside(name: str) -> bool:
    """Whether a file of this name lies in the folder that names it."""
    return not Path(name).is_absolute() and ".." not in Path(name).parts and "\0" not in name


def checksum_of(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


# --- types of fields -----------------------------------------------------------------------------------------------


def is_length(value: object) -> bool:
    """A number of tokens."""
    return type(value) is int and 1 <= value <= LONGEST_TEXT


def are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def are_indices(value: object) -> bool:
    """Different whole numbers from 0 on."""
    if not isinstance(value, list) or not all(type(each) is int and each >= 0 for each in value):
        return False
    return len(value) == len(set(value))
