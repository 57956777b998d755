"""Rules of the user's own, from a Python file that is named on the command line.

This is the one place where srnet runs code that it did not bring: the user names the file for this very purpose.
"""

from __future__ import annotations

import importlib.util
import traceback
from pathlib import Path
from types import ModuleType

from srnet.audit.contrast import RULES, Rule, told
from srnet.errors import UserError
from srnet.files import require_readable


def load_rules(path: Path) -> list[Rule]:
    """Every `Rule` that the file defines, in its order."""
    if not path.exists():
        raise UserError(f"{path} does not exist", "check the path")
    if path.suffix != ".py":
        raise UserError(f"{path} is not a Python file", "give a file of rules, NAME.py")
    require_readable(path)
    defined = (each for each in vars(_run(path)).values() if isinstance(each, Rule))
    found = [each for each in defined if all(each is not known for known in RULES.values())]
    if not found:
        raise UserError(f"{path} defines no rule", "decorate a function with @srnet.audit.contrast.rule(...)")
    for each in found:
        if not isinstance(each.name, str) or not isinstance(each.says, str):
            raise UserError(f"{path}: the name of a rule and what it says must be text", "correct the file")
    names = [*RULES, *(each.name for each in found)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"{path}: there are two rules called '{twice}'", "give each a name of its own")
    return found


def _run(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"srnet_rules_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path} cannot be read as Python", "give a file of rules, NAME.py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UserError(f"{path}{_line_in(path, error)}: {told(error)}", "correct the file") from error
    return module


def _line_in(path: Path, error: BaseException) -> str:
    """The last line of the file that took part in the error, if any did: a file that is no text has no lines."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path.absolute())]
    line = lines[-1] if lines else getattr(error, "lineno", None)  # of a SyntaxError
    return f", line {line}" if line else ""
