"""A GPU without hardware: an operation that mixes its tensors with those of the CPU fails, as on a real one.

    with second_device() as device:
        model.to(device)

Inside, `torch.cuda` has one GPU, so that whatever chooses its device chooses this one. Its tensors compute on the CPU
and say that they are on `cuda:0`. It has a random state of its own, and counts by source line what the CPU waits for.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_map

DEVICE = torch.device("cuda", 0)
_CARRIER = torch.device("lazy", 0)
"""What the wrappers are on below Python: every build of torch knows it, and runs its backward passes in this thread."""
_COPY, _TO_COPY = torch.ops.aten.copy_.default, torch.ops.aten._to_copy.default
_INDEXED = (
    torch.ops.aten.index.Tensor, torch.ops.aten.index_put.default, torch.ops.aten.index_put_.default,
    torch.ops.aten._index_put_impl_.default,
)  # fmt: skip
"""A GPU's tensor, too, may be indexed with a tensor of the CPU."""
_READ = (
    torch.ops.aten._local_scalar_dense.default,
    torch.ops.aten.equal.default,
    torch.ops.aten.nonzero.default,
    torch.ops.aten.masked_select.default,
    torch.ops.aten.repeat_interleave.Tensor,
    torch.ops.aten._unique2.default,
    torch.ops.aten.bincount.default,
)
_VIEWS = (torch.ops.aten._unsafe_view.default, torch.ops.aten.detach.default, torch.ops.aten.lift_fresh.default)
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_TORCH = os.path.dirname(torch.__file__)


class Remote(torch.Tensor):
    """A tensor of the second device, and its values on the CPU."""

    values: torch.Tensor

    @staticmethod
    def __new__(cls, values: torch.Tensor) -> Remote:
        made: Remote = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, values.size(), strides=values.stride(), storage_offset=values.storage_offset(), dtype=values.dtype,
            device=_CARRIER,
        )  # fmt: skip
        made.values = values
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl
    device = DEVICE  # type: ignore[assignment]
    is_cuda, is_cpu = True, False  # type: ignore[assignment]

    def __repr__(self, **kwargs: Any) -> str:
        return f"Remote({self.values})"

    def tolist(self) -> Any:  # torch has none for subclasses
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _compute(function, args, kwargs or {})


class _Created(TorchFunctionMode):
    """Names the carrier where the GPU is named, and creates what would be created without passing `SecondDevice`."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in (torch.device, torch.get_device_module):
            return function(*args, **(kwargs or {}))
        args, kwargs = tuple(map(_carried, args)), {name: _carried(each) for name, each in (kwargs or {}).items()}
        if function in (torch.tensor, torch.as_tensor) and kwargs.get("device") == _CARRIER:
            return function(*args, **{**kwargs, "device": "cpu"}).to(_CARRIER)
        if function in (torch.Tensor.cuda, torch.Tensor.pin_memory):
            return args[0].to(_CARRIER) if function is torch.Tensor.cuda else args[0]
        return function(*args, **kwargs)


class SecondDevice(TorchDispatchMode):
    """Creates tensors on the second device where that is requested, and counts what is done and waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: Counter[str] = Counter()
        """How often the CPU waited for the device, by source line."""
        self.uploads: Counter[str] = Counter()
        """How often it waited for a copy to the device, by source line."""
        self.operations: Counter[str] = Counter()
        """What was sent to the device, by name: views compute nothing, and are left out."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        is_remote = _is_remote((args, kwargs))
        if not is_remote and not _is_second(kwargs.get("device")):
            return function(*args, **kwargs)
        if is_remote and _waits(function, args, kwargs):
            self.waits[f"{_source()} {function}"] += 1
        if _uploads(function, args, kwargs):
            self.uploads[f"{_source()} {function}"] += 1
        if (is_remote or _is_second(kwargs.get("device"))) and not (function.is_view or function in _VIEWS):
            self.operations[str(function)] += 1
        return _compute(function, args, kwargs)


class _Random:
    """The random state of the device."""

    def __init__(self) -> None:
        self.state = torch.Generator().manual_seed(2).get_state()

    def get(self, device: Any = None) -> torch.Tensor:
        return self.state.clone()

    def set(self, state: torch.Tensor, device: Any = None) -> None:
        self.state = state.clone()

    def seed(self, seed: int) -> None:
        self.state = torch.Generator().manual_seed(int(seed)).get_state()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Draw from it instead of that of the CPU."""
        of_cpu = torch.default_generator.get_state()
        torch.default_generator.set_state(self.state)
        try:
            yield
        finally:
            self.state = torch.default_generator.get_state()
            torch.default_generator.set_state(of_cpu)


_RANDOM = _Random()


@contextmanager
def second_device() -> Iterator[torch.device]:
    """The device. Inside, `model.to(device)` moves parameters in place, as to a GPU, and replaces buffers."""
    with counted_device() as (device, _):
        yield device


@contextmanager
def counted_device() -> Iterator[tuple[torch.device, SecondDevice]]:
    """The device, and the counts of what it did and what was waited for."""
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    _RANDOM.seed(2)
    try:
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(), _Created(), SecondDevice() as mode:
            warnings.filterwarnings("ignore", "'pin_memory' argument is set")  # torch itself knows of no GPU
            _install(patch, mode)
            yield DEVICE, mode
    finally:
        torch.__future__.set_swap_module_params_on_conversion(before)


def _install(patch: pytest.MonkeyPatch, mode: SecondDevice) -> None:
    """Let `torch.cuda` have this GPU, and let optimisers use the kernels that they use on one."""

    def wait(device: Any = None) -> None:
        mode.waits[f"{_source()} synchronize"] += 1

    for name, value in {
        "is_available": lambda: True, "device_count": lambda: 1, "current_device": lambda: 0, "synchronize": wait,
        "set_device": lambda device: None, "get_device_name": lambda device=None: "a simulated GPU",
        "get_device_capability": lambda device=None: (8, 0), "is_bf16_supported": lambda **kwargs: True,
        "mem_get_info": lambda device=None: (2**33, 2**34), "memory_reserved": lambda device=None: 0,
        "memory_allocated": lambda device=None: 0, "empty_cache": lambda: None, "_lazy_init": lambda: None,
        "manual_seed": _RANDOM.seed, "manual_seed_all": _RANDOM.seed, "get_rng_state": _RANDOM.get,
        "set_rng_state": _RANDOM.set,
    }.items():  # fmt: skip
        patch.setattr(torch.cuda, name, value)
        if hasattr(torch.cuda.random, name):
            patch.setattr(torch.cuda.random, name, value)
    patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    patch.delenv("ACCELERATE_USE_CPU", raising=False)
    for module in map(sys.modules.__getitem__, ("torch.optim.optimizer", "torch.utils._foreach_utils")):
        patch.setattr(module, "_foreach_supported_types", [*module._foreach_supported_types, Remote])
    kernels = [*torch.utils._foreach_utils._get_foreach_kernels_supported_devices(), _CARRIER.type]  # as clipping asks
    patch.setattr(torch.utils._foreach_utils, "_get_foreach_kernels_supported_devices", lambda: kernels)


def _compute(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The result, on the device where it belongs."""
    remote, requested = _is_remote((args, kwargs)), kwargs.get("device")
    if not remote and not _is_second(requested):
        return function(*args, **kwargs)
    if function not in (_COPY, _TO_COPY):
        _check_devices(function, args, kwargs)
    values, others = _values(args), _values({name: each for name, each in kwargs.items() if name != "device"})
    if torch.Tag.nondeterministic_seeded in function.tags:
        with _RANDOM.in_use():
            found = function(*values, **others)
    else:
        found = function(*values, **others)
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


def _uploads(function: Any, args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether values are copied to the device and the CPU waits for that, as it does without `non_blocking`."""
    if function is _COPY:
        return isinstance(args[0], Remote) and not isinstance(args[1], Remote) and not (args[2:] or (False,))[0]
    if function is not _TO_COPY or isinstance(args[0], Remote):
        return False
    return _is_second(kwargs.get("device")) and not kwargs.get("non_blocking")


def _source() -> str:
    """The line of the package, or of another library, that led to an operation."""
    frame: FrameType | None = sys._getframe(2)
    first = ""
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(os.path.join(_ROOT, "srnet")):
            return f"{os.path.relpath(name, _ROOT)}:{frame.f_lineno}"
        if not first and name != __file__ and not name.startswith(_TORCH):
            first = f"{os.path.basename(name)}:{frame.f_lineno}"
        frame = frame.f_back
    return first


def _is_second(device: Any) -> bool:
    return device is not None and torch.device(device).type in (_CARRIER.type, DEVICE.type)


def _carried(value: Any) -> Any:
    """The carrier instead of the GPU."""
    named = isinstance(value, torch.device) or (isinstance(value, str) and value.startswith(DEVICE.type))
    return _CARRIER if named and torch.device(value).type == DEVICE.type else value


def _tensors(values: Any) -> list[torch.Tensor]:
    if isinstance(values, list | tuple):
        return [each for value in values for each in _tensors(value)]
    if isinstance(values, dict):
        return _tensors(list(values.values()))
    return [values] if isinstance(values, torch.Tensor) else []


def _is_remote(values: Any) -> bool:
    return any(isinstance(each, Remote) for each in _tensors(values))


def _values(values: Any) -> Any:
    """Arguments with what is behind tensors of the device."""
    if type(values) in (list, tuple):  # not `tree_map`, which takes most of a test's time
        return type(values)([_values(each) for each in values])
    if type(values) is dict:
        return {name: _values(each) for name, each in values.items()}
    return values.values if isinstance(values, Remote) else values


def _check_devices(function: Any, args: Any, kwargs: dict[str, Any]) -> None:
    """As torch does: numbers of the CPU (tensors without dimensions) may take part, others may not."""
    if function in _INDEXED and isinstance(args[0], Remote):
        args = (args[0], *args[2:])
    local = [each for each in _tensors((args, kwargs)) if not isinstance(each, Remote) and each.dim() > 0]
    if local:
        raise RuntimeError(f"{function}: expected all tensors to be on the same device, found {DEVICE} and cpu")
