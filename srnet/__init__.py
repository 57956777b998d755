"""Sparse and robust subnetworks inside pre-trained language models."""

import sys
from importlib import import_module

__version__ = "0.1.0"

# The stub lists the public names, for type checkers and for here. They are imported at first use: `srnet --help` must
# not import torch.
with open(f"{__file__.removesuffix('.py')}.pyi", encoding="utf-8") as _stub:
    _WHERE = {
        each.split(" as ")[-1]: module
        for module, names in (line[5:].rstrip().split(" import ") for line in _stub if line.startswith("from "))
        for each in names.split(", ")
    }

__all__ = ["__version__", *_WHERE]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module 'srnet' has no attribute '{name}'", name=name, obj=sys.modules[__name__])
    if _WHERE[name] == __name__:
        return import_module(f"{__name__}.{name}")
    found = getattr(import_module(_WHERE[name]), name)
    if type(found) is not type(__dir__):
        return found
    from srnet.api.arguments import checked  # not at the top: the command line alone needs none of its imports

    return checked(found)
