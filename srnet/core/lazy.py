"""Heavy libraries, imported at first use, so that experiments can be described, planned and listed without torch.

Modules on that path import `torch` and `nn` from here. They must not use them during their own import: as a base class,
as a decorator or in a type alias.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class _Lazy:
    """Stands for a module and imports it when an attribute is read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value


if TYPE_CHECKING:
    import torch
    import transformers
    from torch import distributed as dist
    from torch import nn
    from torch.nn import functional as F
    from torch.nn.utils import parametrize
else:
    torch, nn, F = _Lazy("torch"), _Lazy("torch.nn"), _Lazy("torch.nn.functional")
    dist, parametrize = _Lazy("torch.distributed"), _Lazy("torch.nn.utils.parametrize")
    transformers = _Lazy("transformers")

__all__ = ["F", "dist", "nn", "no_grad", "parametrize", "torch", "transformers"]


def no_grad(function: Callable[P, T]) -> Callable[P, T]:
    """`torch.no_grad()` as a decorator that imports torch when the function is called."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        with torch.no_grad():
            return function(*args, **kwargs)

    return call
