"""The identity of an expression: a hash of its fields, its parents and the data."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from typing import Any

from srnet.config.fields import default_of

SCHEMA = 5
"""Increased whenever the same expression would give another result, so that old artifacts are not reused."""


BY_CONTENT = {"by_content": True}
"""Metadata of a field that is a location. The content is part of the key, so the location is not."""


def describe(value: Any) -> Any:
    """Plain JSON for a value, a dataclass or an expression, from which it can be rebuilt."""
    return _plain(value, describe, dataclasses.fields)


def key_of(node: Any) -> str:
    content = node.content() if hasattr(node, "content") else {}
    fields = {f.name: _key_part(getattr(node, f.name)) for f in _identifying(node)}
    text = json.dumps({"schema": SCHEMA, "type": type(node).__name__, **fields, **content}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _key_part(value: Any) -> Any:
    """A value as part of a key: nested expressions by their own keys, other values by their non-default fields."""
    return value.key if hasattr(value, "key") else _plain(value, _key_part, _identifying)


def _identifying(value: Any) -> list[dataclasses.Field[Any]]:
    """The fields that differ from their default. So a new field does not change the keys of old results."""
    fields = [f for f in dataclasses.fields(value) if f.init and is_identifying(f)]
    return [f for f in fields if _identifying_part(getattr(value, f.name)) != default_of(f)]


def _identifying_part(value: Any) -> Any:
    """`value` with the defaults of what does not change a result: settings that differ in nothing else are equal."""
    fields = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
    aside = {f.name: default_of(f) for f in fields if not f.metadata.get("identifies", True)}
    return dataclasses.replace(value, **aside) if aside else value


def is_identifying(field: dataclasses.Field[Any]) -> bool:
    """Whether the value of a field may be part of a key."""
    return "by_content" not in field.metadata and bool(field.metadata.get("identifies", True))


def _plain(value: Any, inner: Callable[[Any], Any], fields: Callable[[Any], Any]) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        content = value.content() if hasattr(value, "content") else {}
        return {
            "type": type(value).__name__,
            **{f.name: inner(getattr(value, f.name)) for f in fields(value)},
            **content,
        }
    if isinstance(value, (list, tuple)):
        return [inner(each) for each in value]
    if isinstance(value, dict):
        return {str(name): inner(each) for name, each in value.items()}
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise TypeError(f"{type(value).__name__} cannot be part of an experiment's identity")
