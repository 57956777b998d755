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
MOST = 50_000
"""Values of a file."""


class _Loader(yaml.SafeLoader):
    """The safe loader. It refuses duplicate keys: the first value would be lost silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for number, key in enumerate(keys):
            if key.value in [before.value for before in keys[:number]]:
                problem = f"the key '{key.value}' occurs twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {  # dates are not used: they are read as text
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _Dumper(yaml.SafeDumper):
    """The safe dumper, which quotes the texts that `_Loader` would read as numbers."""


for _each in (_Loader, _Dumper):  # 5e-5 is a number, though it has no dot
    _each.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?\d+[eE][-+]?\d+$"), [*"+-0123456789"])


def yaml_text(value: Any) -> str:
    """The text of plain data, which `read_yaml` gives again."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def read_yaml(path: Path) -> Any:
    """The content of a YAML file."""
    try:
        with open_file(path) as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise UserError(f"{path} has more than {LARGEST:,} bytes", "is it a YAML file?")
        content = yaml.load(data.decode(), _Loader)
        _check_size(content)
        return content
    except yaml.YAMLError as error:
        raise UserError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    except (OSError, ValueError, RecursionError) as error:  # a number of too many digits is a ValueError
        raise UserError(
            f"{path} cannot be read: {getattr(error, 'strerror', None) or error}", "check the path and the file"
        ) from None


def _check_size(content: Any) -> None:
    """Refuse too many values: aliases can multiply them, and an alias that contains itself has no end."""
    count, rest = 0, [content]
    while rest:
        each = rest.pop()
        count += 1
        if count > MOST:
            raise yaml.YAMLError(f"more than {MOST:,} values")
        rest += each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
