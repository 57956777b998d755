"""The JSON of a subnetwork folder: it names backbone and labels, and has a checksum of every file and of itself."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from srnet.backbones import CLASSIFIER, Head
from srnet.errors import UserError
from srnet.files import check_types, read_json_object, sha256, write_json
from srnet.sealed import check_max_length

CARD = "subnetwork.json"
PLAIN, CODED = 1, 2
"""The formats: mask bits as they are, which the store keeps; and what only a receiver with the backbone can read."""
WEIGHTS = "weights.safetensors"
MASKS = {PLAIN: "mask.bits", CODED: "mask.coded"}
FILES = (CARD, *MASKS.values(), WEIGHTS, "README.md")
"""What a folder may hold."""
_TYPES: dict[str, Any] = {
    "backbone": str, "backbone_sha256": str, "labels": list, "files": dict, "label_words": list, "per_token": bool,
    "max_length": (int, type(None)),
}  # fmt: skip
_DEFAULTS: dict[str, Any] = {"label_words": [], "per_token": False, "max_length": None}


def write_card(folder: Path, format: int, card: dict[str, Any]) -> None:
    """Write the JSON; the files whose checksums it has are there already."""
    files = [name for name in (MASKS[format], WEIGHTS) if (folder / name).exists()]
    card = {"format": format, **card, "files": {name: sha256(folder / name) for name in files}}
    write_json(folder / CARD, {**card, "sha256": _hash(card)})


def read_card(folder: Path) -> dict[str, Any]:
    """The JSON, if it and the files that it names are as they were written."""
    path = folder / CARD
    if not path.is_file():
        raise UserError(f"{folder} holds no {CARD}", "give the folder of a saved subnetwork")
    card = read_json_object(path)
    if type(card.get("format")) is not int or card["format"] not in MASKS:
        raise UserError(f"{path} has an unknown format", "it was written by another version of srnet")
    if card.pop("sha256", None) != _hash(card):
        raise UserError(f"{path} was altered: its checksum does not match", "restore the file")
    card = {**_DEFAULTS, **card}
    _check_fields(path, card)
    for name, digest in card["files"].items():
        if not (folder / name).is_file():
            raise UserError(f"{folder / name} is missing", "restore the file")
        if sha256(folder / name) != digest:
            raise UserError(f"{folder / name} is truncated or altered: its checksum does not match", "restore the file")
    return card


def _check_fields(path: Path, card: dict[str, Any]) -> None:
    check_types(path, card, **_TYPES)
    texts = [*card["labels"], *card["label_words"], *card["files"].values()]
    files = {WEIGHTS, MASKS[card["format"]]}
    if card["max_length"] is not None:
        check_max_length(path, card["max_length"])
    if not all(isinstance(text, str) for text in texts) or not {WEIGHTS} <= card["files"].keys() <= files:
        raise UserError(f"{path} names other labels or files than a subnetwork has", "restore the file")


def _hash(card: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(card, sort_keys=True).encode()).hexdigest()


def head_fields(head: Head) -> dict[str, Any]:
    """An ordinary classifier goes without saying."""
    return {} if head == CLASSIFIER else {"label_words": list(head.words), "per_token": head.per_token}


def head_of(card: dict[str, Any]) -> Head:
    return Head(tuple(card["label_words"]), card["per_token"])
