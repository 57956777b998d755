"""A second device without hardware: an operation that mixes its tensors with those of the CPU fails, as on a GPU.

    with second_device() as device:
        model.to(device)

Its tensors compute on the CPU and say that they are on `lazy:0`, a device that every build of torch knows by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = torch.device("lazy", 0)
_COPY, _TO_COPY = torch.ops.aten.copy_.default, torch.ops.aten._to_copy.default
_INDEXED = (
    torch.ops.aten.index.Tensor, torch.ops.aten.index_put.default, torch.ops.aten.index_put_.default,
    torch.ops.aten._index_put_impl_.default,
)  # fmt: skip
"""A GPU's tensor, too, may be indexed with a tensor of the CPU."""
_READ = (
    torch.ops.aten._local_scalar_dense.default,
    torch.ops.aten.nonzero.default,
    torch.ops.aten.masked_select.default,
)


class Remote(torch.Tensor):
    """A tensor of the second device, and its values on the CPU."""

    values: torch.Tensor

    @staticmethod
    def __new__(cls, values: torch.Tensor) -> Remote:
        made: Remote = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, values.size(), strides=values.stride(), storage_offset=values.storage_offset(), dtype=values.dtype,
            device=DEVICE,
        )  # fmt: skip
        made.values = values
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __repr__(self, **kwargs: Any) -> str:
        return f"Remote({self.values})"

    def tolist(self) -> Any:  # torch has none for subclasses
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _compute(function, args, kwargs or {})


class _Created(TorchFunctionMode):
    """`torch.tensor` creates its result below the level at which `SecondDevice` acts."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function in (torch.tensor, torch.as_tensor) and _is_second(kwargs.get("device")):
            return function(*args, **{**kwargs, "device": "cpu"}).to(DEVICE)
        return function(*args, **kwargs)


class SecondDevice(TorchDispatchMode):
    """Creates tensors on the second device where that is requested, and counts how often the CPU waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: Counter[str] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if _is_remote(args) and _waits(function, args, kwargs or {}):
            self.waits[str(function)] += 1
        return _compute(function, args, kwargs or {})


@contextmanager
def second_device() -> Iterator[torch.device]:
    """The device. Inside, `model.to(device)` moves parameters in place, as to a GPU, and replaces buffers."""
    with counted_device() as (device, _):
        yield device


@contextmanager
def counted_device() -> Iterator[tuple[torch.device, Counter[str]]]:
    """The device, and how often the CPU waited for it, by operation."""
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        with _Created(), SecondDevice() as mode:
            yield DEVICE, mode.waits
    finally:
        torch.__future__.set_swap_module_params_on_conversion(before)


def _compute(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The result, on the device where it belongs."""
    remote, requested = _is_remote((args, kwargs)), kwargs.get("device")
    if not remote and not _is_second(requested):
        return function(*args, **kwargs)
    if function not in (_COPY, _TO_COPY):
        _check_devices(function, args, kwargs)
    found = function(*_values(args), **_values({name: each for name, each in kwargs.items() if name != "device"}))
    stays = isinstance(args[0], Remote) if function is _COPY else remote
    if _is_second(requested) if requested is not None else stays:
        found = tree_map(lambda each: Remote(each) if isinstance(each, torch.Tensor) else each, found)
    return found if function is _TO_COPY else return_and_correct_aliasing(function, args, kwargs, found)


def _waits(function: Any, args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether the CPU needs the result: a number, a number of elements, or a copy."""
    if function is _COPY:
        return not isinstance(args[0], Remote)
    if function is _TO_COPY:
        return kwargs.get("device") is not None and not _is_second(kwargs["device"])
    return function in _READ or (function in _INDEXED and any(each.dtype == torch.bool for each in _tensors(args[1])))


def _is_second(device: Any) -> bool:
    return device is not None and torch.device(device).type == DEVICE.type


def _tensors(values: Any) -> list[torch.Tensor]:
    return [each for each in tree_leaves(values) if isinstance(each, torch.Tensor)]


def _is_remote(values: Any) -> bool:
    return any(isinstance(each, Remote) for each in _tensors(values))


def _values(values: Any) -> Any:
    return tree_map(lambda each: each.values if isinstance(each, Remote) else each, values)


def _check_devices(function: Any, args: Any, kwargs: dict[str, Any]) -> None:
    """As torch does: numbers of the CPU (tensors without dimensions) may take part, others may not."""
    if function in _INDEXED and isinstance(args[0], Remote):
        args = (args[0], *args[2:])
    local = [each for each in _tensors((args, kwargs)) if not isinstance(each, Remote) and each.dim() > 0]
    if local:
        raise RuntimeError(f"{function}: expected all tensors to be on the same device, found {DEVICE} and cpu")
