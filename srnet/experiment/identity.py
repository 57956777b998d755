"""The identity of an expression: a hash of what it says, of its parents and of the data."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

SCHEMA = 2
"""Raised whenever the same expression would give another result, so that old artifacts are not mistaken for new."""


def describe(value: Any, *, parents_as_keys: bool = False) -> Any:
    """Plain JSON for a value, a dataclass or an expression. With `parents_as_keys` nested expressions become keys."""
    if parents_as_keys and hasattr(value, "key"):
        return value.key
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            f.name: describe(getattr(value, f.name), parents_as_keys=parents_as_keys) for f in dataclasses.fields(value)
        }
        content = value.content() if hasattr(value, "content") else {}
        return {"type": type(value).__name__, **fields, **content}
    if isinstance(value, (list, tuple)):
        return [describe(each, parents_as_keys=parents_as_keys) for each in value]
    if isinstance(value, dict):
        return {str(name): describe(each, parents_as_keys=parents_as_keys) for name, each in value.items()}
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise TypeError(f"{type(value).__name__} cannot be part of an experiment's identity")


def key_of(node: Any) -> str:
    fields = {f.name: describe(getattr(node, f.name), parents_as_keys=True) for f in dataclasses.fields(node) if f.init}
    content = node.content() if hasattr(node, "content") else {}
    text = json.dumps({"schema": SCHEMA, "type": type(node).__name__, **fields, **content}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
