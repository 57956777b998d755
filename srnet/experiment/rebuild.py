"""From a stored description back to the expression, which new expressions can then use."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from srnet.config.fields import DESCRIBED
from srnet.core.errors import UserError
from srnet.experiment.nodes.base import Node
from srnet.experiment.nodes.models import ModelNode
from srnet.experiment.store import Store


def rebuild(description: Any) -> Any:
    """The inverse of `identity.describe`. Only described types can be built, and nothing is executed."""
    if isinstance(description, list):
        return tuple(rebuild(each) for each in description)
    if not isinstance(description, dict):
        return description
    cls: Any = DESCRIBED.get(description.get("type", ""))
    if cls is None:
        raise UserError(f"the stored expression has an unknown type '{description.get('type')}'")
    names = {f.name for f in dataclasses.fields(cls)}
    return cls(**{name: rebuild(value) for name, value in description.items() if name in names})


def _stored_node(store: Store, prefix: str) -> Node:
    """The expression behind a key (or the beginning of one)."""
    key = store.find(prefix)
    problem = store.problem(key)
    if problem is not None:
        raise UserError(f"artifact {key} is damaged: {problem}", "run the command that made it again")
    node = _readable(store, key)
    if node.key != key:
        raise UserError(
            f"artifact {key} no longer matches its data or backbone",
            "or it is from another version of srnet: compute it again",
        )
    return node


def _readable(store: Store, key: str) -> Node:
    expression = store.manifest(key)["expression"]
    try:
        node: Node = rebuild(expression)
        node.key  # noqa: B018  reads every field, so a value of a wrong type shows here
    except UserError:
        raise
    except Exception as error:  # an edited or damaged expression: TypeError, AttributeError, RecursionError, ...
        raise UserError(
            f"the expression of artifact {key} cannot be read: {error}", "run the command that made it again"
        ) from error
    return node


def stored_model(store: Store, prefix: str) -> ModelNode:
    node = _stored_node(store, prefix)
    if not isinstance(node, ModelNode) or node.holds_several_models:
        raise UserError(f"artifact {prefix} is not a model but of kind {type(node).__name__}", "see `srnet store ls`")
    return node


@dataclasses.dataclass(frozen=True)
class StoredModels:
    """The models of a store by key, for `open_model`."""

    store: Store

    def keys(self) -> list[str]:
        return self.store.keys()

    def path(self, key: str) -> Path:
        return self.store.path(key)

    def find(self, prefix: str) -> ModelNode:
        """The model whose key begins with `prefix`."""
        return stored_model(self.store, prefix)
