"""Folders that are written as a whole, and never over what another process wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from srnet.errors import UserError
from srnet.files import new_folder, require_new


def test_a_folder_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "out"

    def write() -> None:
        with new_folder(target) as staging:
            (staging / "ours").touch()
            target.mkdir()
            (target / "theirs").touch()

    with pytest.raises(UserError, match="out exists already; choose a new folder"):
        write()
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "theirs"]


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.mkdir()
    with new_folder(require_new(target)) as staging:
        (staging / "ours").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "ours"]


def test_a_folder_is_replaced_where_that_is_wanted(tmp_path: Path) -> None:
    target = tmp_path / "out"
    for name in ("first", "second"):
        with new_folder(target, replace=True) as staging:
            (staging / name).touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "second"]


@pytest.mark.parametrize("kind", ["file", "link", "dangling link"])
def test_what_is_no_folder_is_refused(kind: str, tmp_path: Path) -> None:
    target, other = tmp_path / "out", tmp_path / "other"
    if kind == "file":
        target.touch()
    else:
        target.symlink_to(other)
        if kind == "link":
            other.mkdir()
    with pytest.raises(UserError, match="out exists already; choose a new folder"):
        require_new(target)
    with pytest.raises(UserError, match="out exists already; choose a new folder"), new_folder(target):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"out", *(["other"] if kind == "link" else [])}
