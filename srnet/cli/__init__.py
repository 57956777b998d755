"""The command line: parses, calls a function of `srnet.api`, prints."""

from srnet.cli import audit, data, find, models, recipes, shortcuts, speed  # noqa: F401  each adds its commands
from srnet.cli.program import app, main

__all__ = ["app", "main"]
