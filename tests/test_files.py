"""Folders that are written as a whole, and never over what another process wrote; files that are read."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from srnet.audit.contrast import load_rules
from srnet.bias.vectors import read_vectors
from srnet.config.yaml_files import read_yaml
from srnet.core.errors import UserError
from srnet.core.files import (
    new_folder,
    open_data,
    read_json,
    require_new,
    require_readable_in,
    sha256,
    spreadsheet_cell,
    writing,
)
from srnet.models.checkpoints import read_config
from srnet.models.exported import EXPORT
from srnet.models.formats.smp import read_smp
from srnet.models.open import open_classifier
from srnet.models.published import read_reference


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


# --- reading -------------------------------------------------------------------------------------------------------


def make_special(kind: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "unreadable":
        path.touch()
        monkeypatch.setattr(os, "access", lambda *_: False)  # root may read everything
    else:
        monkeypatch.chdir(path.parent)  # a long path is none for a socket
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)


READERS: dict[str, Callable[[Path], object]] = {
    "JSON": read_json,
    "YAML": read_yaml,
    "checksum": sha256,
    "data": open_data,
    "rules": load_rules,
    "SMP mask": lambda path: read_smp(path, {}),
    "torch mask": lambda path: read_reference(path, {}),
    "vectors": lambda path: read_vectors(str(path), None),
    "model": lambda path: read_config(str(path.parent)),
    "export": lambda path: EXPORT.read(path.parent),
    "classifier": lambda path: open_classifier(path.parent),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "unreadable", "folder"])
def test_what_is_no_file_is_not_read(kind: str, reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "folder" and reader in ("model", "export", "classifier"):
        return  # a folder in the folder of a model is none of its files
    endings = {"rules": ".py", "vectors": ".npz"} | dict.fromkeys(("model", "export", "classifier"), ".safetensors")
    path = tmp_path / f"x{endings.get(reader, '')}"
    make_special(kind, path, monkeypatch)
    said = {"folder": "x.* is a folder", "unreadable": "may not be read"}.get(kind, "x.* is a pipe or a device")
    with pytest.raises(UserError, match=said):
        READERS[reader](path)


@pytest.mark.parametrize("code", [errno.EACCES, errno.ENOENT, errno.ELOOP])
def test_an_error_of_reading_does_not_ask_for_another_folder(code: int, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot open .*model\.bin") as error, writing(tmp_path / "out"):
        raise OSError(code, os.strerror(code), str(tmp_path / "model.bin"))
    assert "write" not in str(error.value)
    for named in (tmp_path / "out" / "file", tmp_path, tmp_path / ".new-out-1" / "file"):
        with pytest.raises(UserError, match="cannot write"), writing(tmp_path / "out"):
            raise OSError(code, os.strerror(code), str(named))


# --- csv for people ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["=1+1", "+cmd|' /C calc'!A0", "-x", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff0d1", "--1", "-"]
)
def test_a_formula_is_text(text: str) -> None:
    assert spreadsheet_cell(text) == f"'{text}"


@pytest.mark.parametrize("value", ["a=b", "", "'=1", "-1", "+1.5e-3", "-.5", -1, -0.5, None, "1-2"])
def test_numbers_and_other_texts_stay(value: object) -> None:
    assert spreadsheet_cell(value) == value


def test_what_no_reader_of_models_opens_does_not_matter(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log.pipe")
    require_readable_in(tmp_path)
    os.mkfifo(tmp_path / "model.safetensors")
    with pytest.raises(UserError, match=r"model\.safetensors is a pipe"):
        require_readable_in(tmp_path)
