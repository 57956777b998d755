"""Rules of the user's own, from a Python file that is named on the command line.

This is the one place where srnet runs code that it did not bring: the user names the file for this very purpose.
"""

from __future__ import annotations

import importlib.util
import traceback
from pathlib import Path
from types import ModuleType

from srnet.audit.contrast import RULES, Rule
from srnet.errors import UserError


def load_rules(path: Path) -> list[Rule]:
    """Every `Rule` that the file defines, in its order."""
    if not path.exists():
        raise UserError(f"{path} does not exist", "check the path")
    if not path.is_file() or path.suffix != ".py":
        raise UserError(f"{path} is not a Python file", "give a file of rules, NAME.py")
    module = _run(path)
    found = [each for each in vars(module).values() if isinstance(each, Rule) and RULES.get(each.name) is not each]
    if not found:
        raise UserError(f"{path} defines no rule", "decorate a function with @srnet.audit.contrast.rule(...)")
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
    except SyntaxError as error:
        raise UserError(f"{path}, line {error.lineno}: {error.msg}", "correct the file") from error
    except (Exception, SystemExit) as error:
        raise UserError(f"{path}, line {_line_in(path, error)}: {_told(error)}", "correct the file") from error
    return module


def _line_in(path: Path, error: BaseException) -> int | None:
    """The last line of the file that took part in the error."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return lines[-1] if lines else None


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
