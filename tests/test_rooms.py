"""The order of the rooms: each imports only from rooms above it, so that none can come to depend on its users."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import srnet

PACKAGE = Path(srnet.__file__).parent
PICTURE = re.findall(r"^    (\w+) {2,}\S", (PACKAGE.parent / "CONTRIBUTING.md").read_text(), re.M)
"""The rooms in the order in which CONTRIBUTING.md lists them."""
ORDER = tuple(dict.fromkeys(PICTURE))
DOORS = ("__init__", "__main__")
"""The package's own front doors: `__init__` may show anything but the command line, `__main__` starts it."""


def room_of(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(file: Path) -> set[str]:
    """Every room that a file imports from, wherever in the file: a lazy import is a dependency too."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno} imports relatively; write the full name"
            # `from srnet import x`: x is a room itself, or the version
            base = node.module or ""
            modules = [f"{base}.{alias.name}" for alias in node.names] if base == "srnet" else [base]
        else:
            continue
        found |= {parts[1] for parts in (name.split(".") for name in modules) if parts[0] == "srnet" and len(parts) > 1}
    return found - {"__version__"}


def allowed(room: str) -> set[str]:
    if room == "__main__":
        return set(ORDER)
    if room == "__init__":
        return set(ORDER) - {"cli"}
    return set(ORDER[: ORDER.index(room) + 1])


FILES = sorted(PACKAGE.rglob("*.py"))


def test_every_room_has_its_place() -> None:
    rooms = {room_of(file) for file in FILES} - set(DOORS)
    assert rooms == set(ORDER), "the list in CONTRIBUTING.md is not that of the rooms"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_a_room_imports_only_from_above(file: Path) -> None:
    below = imported_rooms(file) - allowed(room_of(file))
    assert not below, f"{file.relative_to(PACKAGE)} imports from below: {sorted(below)}"


def test_the_check_sees_every_kind_of_import(tmp_path: Path) -> None:
    file = tmp_path / "sample.py"
    file.write_text(
        "import srnet.masks\nimport torch\nfrom srnet import __version__, cli\nfrom srnet.tasks.base import Task\n"
        "def lazy():\n    from srnet.models.formats import save_merged\n"
    )
    assert imported_rooms(file) == {"masks", "cli", "tasks", "models"}
