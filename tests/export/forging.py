"""Damage to sealed folders, and forgeries whose checksums fit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fuzz.valid import facts_of, seal

from srnet.models.bank import BANK
from srnet.models.exported import EXPORT
from srnet.models.subnetwork import SUBNETWORK

MISSING = "missing"


def manifest_of(folder: Path) -> Path:
    return next(folder / each.file for each in (SUBNETWORK, EXPORT, BANK) if each.is_in(folder))


def forge(folder: Path, **changes: Any) -> None:
    """Put other facts into the manifest of a folder; its checksums fit them, and whatever files lie there."""
    path = manifest_of(folder)
    facts = facts_of(path) | changes
    seal(path, {key: value for key, value in facts.items() if value != MISSING})


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
