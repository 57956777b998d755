"""Damage to sealed folders, and forgeries whose checksums fit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fuzz.valid import sign

from srnet.core.files import sha256
from srnet.models.bank import BANK
from srnet.models.exported import EXPORT
from srnet.models.subnetwork_files import SUBNETWORK

MISSING = "missing"


def manifest_of(folder: Path) -> Path:
    return next(folder / each.file for each in (SUBNETWORK, EXPORT, BANK) if each.is_in(folder))


def forge(folder: Path, **changes: Any) -> None:
    """Put other facts into the manifest of a folder; its checksums fit them, and whatever files lie there."""
    path = manifest_of(folder)
    facts = json.loads(path.read_text()) | changes
    facts = {key: value for key, value in facts.items() if key != "sha256" and value != MISSING}
    if isinstance(facts.get("files"), dict):
        present = {path.name for path in folder.iterdir()}
        facts["files"] |= {name: sha256(folder / name) for name in facts["files"] if name in present}
    sign(path, facts)


def damaged(path: Path, places: int, *, may_go: bool) -> Iterator[None]:
    """Damage a file in many ways, one after the other: bits are flipped, its end is cut, it is gone."""
    whole = path.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // places)):
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        yield
    for size in (0, len(whole) // 2, len(whole) - 3):
        path.write_bytes(whole[:size])
        yield
    if may_go:
        path.unlink()
        yield
    path.write_bytes(whole)
