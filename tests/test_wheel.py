"""The wheel holds everything that an installed srnet reads: backbones, templates, the licence."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parent.parent


def test_the_wheel_holds_code_data_and_licence(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "srnet", source / "srnet", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(tmp_path), str(source)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    packed = set(ZipFile(wheel).namelist())
    ours = {path.relative_to(ROOT).as_posix() for path in (ROOT / "srnet").rglob("*") if path.is_file()}
    assert {name for name in ours if "__pycache__" not in name} <= packed
    assert any(name.endswith("licenses/LICENSE") for name in packed)
