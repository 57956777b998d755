"""A card that lies in a folder and says what it is: JSON, with a checksum for every file and one for the card itself.

README.md is for readers, who may edit it: it has no checksum.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from srnet.core.errors import UserError
from srnet.core.files import check_types, read_json_object, require_readable_in, sha256, write_json

README = "README.md"
LONGEST_TEXT = 2**20
"""Tokens that any model reads."""


def seal(folder: Path, card: str, facts: dict[str, Any]) -> None:
    """Write the card of a folder whose other files are all there."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name not in (card, README))
    sealed = {**facts, "files": {path.name: sha256(path) for path in files}}
    write_json(folder / card, {**sealed, "sha256": _checksum(sealed)})


def read_sealed(folder: Path, card: str, **needed: type | tuple[type, ...]) -> dict[str, Any]:
    """The card, after everything that it names was found unaltered."""
    path = folder / card
    require_readable_in(folder)
    facts = read_json_object(path, files=dict, sha256=str)
    if facts.pop("sha256") != _checksum(facts):
        raise UserError(f"{path} was altered: its checksum does not match", "restore the file")
    check_types(path, facts, **needed)
    present = {each.name for each in folder.iterdir() if each.is_file()}
    for name, digest in facts["files"].items():
        if name not in present:
            raise UserError(f"{folder / name} is missing", "restore the file")
        if sha256(folder / name) != digest:
            raise UserError(f"{folder / name} is truncated or altered: its checksum does not match", "restore the file")
    return facts


def check_max_length(path: Path, value: object) -> None:
    if type(value) is not int or not 1 <= value <= LONGEST_TEXT:
        raise UserError(f"{path}: 'max_length' is out of range", "restore the file")


def _checksum(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
