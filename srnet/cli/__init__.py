"""The command line: parses, calls a function of `srnet.api`, prints."""

from srnet.cli import data, models, recipes, store  # noqa: F401  each adds its commands
from srnet.cli.app import app as app
from srnet.cli.app import main as main
