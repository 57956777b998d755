"""What is learned: splits of examples, labels, the metric, and the presumed shortcut. One file per family of tasks."""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):  # a new file in this folder needs no line here
    import_module(f"{__name__}.{_module.name}")
