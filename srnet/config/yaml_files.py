"""YAML from users: plain data within limits, or an error of one line."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from srnet.core.errors import UserError
from srnet.core.files import open_file

LARGEST = 2**20
"""Bytes of a file."""
DEEPEST = 40
MOST = 50_000
"""Values in a file, counted after aliases are resolved."""


class _Loader(yaml.SafeLoader):
    """The safe loader without dates, which are not used: they are read as text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        _refuse_duplicates(node)
        return super().construct_mapping(node, deep)

    def construct_scalar(self, node: Any) -> Any:
        text = super().construct_scalar(node)
        if "\0" in text:
            raise yaml.constructor.ConstructorError(None, None, "a text with a NUL character", node.start_mark)
        return text

    def construct_yaml_int(self, node: Any) -> int:
        try:
            return int(super().construct_yaml_int(node))
        except ValueError:
            raise yaml.constructor.ConstructorError(None, None, "a number out of range", node.start_mark) from None


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)


def read_yaml(path: Path) -> Any:
    try:
        with open_file(path) as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise UserError(f"{path} has more than {LARGEST:,} bytes", "is it a YAML file?")
        return _parsed(data.decode())
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise UserError(
            f"{path} cannot be read: {getattr(error, 'strerror', None) or error}", "check the path"
        ) from None
    except yaml.YAMLError as error:
        raise UserError(f"{path} is not YAML: {' '.join(str(error).split())}") from None


def _parsed(text: str) -> Any:
    _check_depth(text)
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _check_size(node)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _check_depth(text: str) -> None:
    """Checked by events, before any recursive code reads the text."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            raise yaml.YAMLError(f"more than {DEEPEST} levels")


def _check_size(node: yaml.Node) -> None:
    """Aliases can expand to more than the memory holds, or contain themselves."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size(each: yaml.Node) -> int:
        if id(each) in open_nodes:
            raise yaml.YAMLError("an alias that contains itself")
        if id(each) not in sizes:
            open_nodes.add(id(each))
            sizes[id(each)] = 1 + sum(map(size, _children(each)))
            open_nodes.remove(id(each))
        return sizes[id(each)]

    if size(node) > MOST:
        raise yaml.YAMLError(f"more than {MOST:,} values")


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _refuse_duplicates(node: yaml.MappingNode) -> None:
    """Refuse a duplicate key: its first value would be lost silently."""
    seen: set[str] = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key '{key.value}' occurs twice", key.start_mark
                )
            seen.add(key.value)
