"""Losses, with the inputs that each needs besides logits and labels. One file each, registered on import."""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):  # a new file in this folder needs no line here
    import_module(f"{__name__}.{_module.name}")
