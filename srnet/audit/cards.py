"""What a folder says about its model: `srnet.json` of an export, or a plain `config.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srnet.errors import UserError
from srnet.exported import CARD, is_exported
from srnet.files import read_json_object
from srnet.sealed import LONGEST_TEXT, check_max_length, read_sealed
from srnet.tasks.answers import CLASSES

CONFIG = "config.json"


@dataclass(frozen=True)
class Card:
    labels: tuple[str, ...] | None
    """In the order of the outputs; None where they have no names."""
    max_length: int
    pad_token_id: int = 0


def check_files(folder: Path) -> None:
    """Refuse an export whose files were altered. A card that was written by hand has no checksums."""
    if is_exported(folder) and "sha256" in read_json_object(folder / CARD):
        read_sealed(folder, CARD)


def read_card(folder: Path) -> Card:
    return _exported(folder / CARD) if is_exported(folder) else _config(folder / CONFIG)


def _exported(path: Path) -> Card:
    card = read_json_object(path, labels=list, max_length=int)
    if card.get("per_token"):
        raise UserError(f"{path.parent} marks spans of a text", "an audit needs a classifier of texts")
    if not card["labels"] or not all(isinstance(label, str) for label in card["labels"]):
        raise UserError(f"{path} names no labels", "export the model again")
    check_max_length(path, card["max_length"])
    return Card(tuple(card["labels"]), card["max_length"])


def _config(path: Path) -> Card:
    config = read_json_object(path)
    length = _number(config, "max_length", CLASSES.max_length)
    positions = _number(config, "max_position_embeddings", length)
    return Card(_id2label(config, path), min(length, positions), _number(config, "pad_token_id", 0))


def _id2label(config: Mapping[str, Any], path: Path) -> tuple[str, ...] | None:
    named = config.get("id2label")
    if named is None:
        return None
    if not isinstance(named, dict) or sorted(named) != sorted(map(str, range(len(named)))):
        raise UserError(f"{path}: id2label does not number the outputs", "restore the file")
    return tuple(str(named[str(index)]) for index in range(len(named)))


def _number(values: Mapping[str, Any], key: str, otherwise: int) -> int:
    value = values.get(key)
    return value if type(value) is int and 0 < value <= LONGEST_TEXT else otherwise
