"""YAML files from users: plain data, or an error of one line."""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from srnet.core.errors import UserError
from srnet.core.files import open_file

LARGEST = 2**20
"""Bytes of a file."""


class _Loader(yaml.SafeLoader):
    """The safe loader. It refuses what would be lost silently or has no limits: duplicate keys, and aliases."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            _refuse(f"an alias, *{self.peek_event().anchor}: write its value again", self.peek_event())
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for number, key in enumerate(keys):
            if key.value in [before.value for before in keys[:number]]:
                _refuse(f"the key '{key.value}' occurs twice", key)
        return super().construct_mapping(node, deep)


def _refuse(what: str, where: Any) -> None:
    raise yaml.constructor.ConstructorError(None, None, what, where.start_mark)


_Loader.yaml_implicit_resolvers = {  # dates are not used: they are read as text
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
# 5e-5 is a number, though it has no dot
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+$"), [*"+-0123456789"])


def read_yaml(path: Path) -> Any:
    """The content of a YAML file."""
    try:
        with open_file(path) as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise UserError(f"{path} has more than {LARGEST:,} bytes", "is it a YAML file?")
        return yaml.load(data.decode(), _Loader)
    except yaml.YAMLError as error:
        raise UserError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    except (OSError, ValueError, RecursionError) as error:  # a number of too many digits is a ValueError
        raise UserError(
            f"{path} cannot be read: {getattr(error, 'strerror', None) or error}", "check the path and the file"
        ) from None
