"""What a bias model may read: one file per kind of shortcut, registered when it is imported."""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):  # a new file in this folder needs no line here
    import_module(f"{__name__}.{_module.name}")
