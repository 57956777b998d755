"""Files and folders: written as a whole, under names that users choose, and never over what another process wrote."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from fuzz.rubbish import NAMES
from fuzz.valid import write_task
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from srnet.bias.vectors import WordVectors
from srnet.config.yaml_files import read_yaml
from srnet.core.errors import UserError, printable
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
from srnet.core.names import file_name
from srnet.models.checkpoints import read_config
from srnet.models.exported import EXPORT
from srnet.models.formats.smp import read_smp
from srnet.models.open import open_classifier
from srnet.models.published import _read_reference
from srnet.recipes.demo import demo_recipe
from srnet.tasks.describe import describe_files
from srnet.tasks.files import FilesTask
from srnet.tasks.squad import SquadTask


def names_below(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


def test_a_folder_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with refused(target), new_folder(target) as staging:
        (staging / "ours").touch()
        target.mkdir()
        (target / "theirs").touch()
    assert names_below(tmp_path) == ["out", "theirs"]


@pytest.mark.parametrize("replace", [False, True])
def test_a_folder_is_filled_if_it_is_empty_and_replaced_where_that_is_wanted(replace: bool, tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.mkdir()
    if replace:
        (target / "before").touch()
    with new_folder(target if replace else require_new(target), replace=replace) as staging:
        (staging / "ours").touch()
    assert names_below(tmp_path) == ["ours", "out"]


@pytest.mark.parametrize("kind", ["file", "link", "dangling link"])
def test_what_is_no_folder_is_refused(kind: str, tmp_path: Path) -> None:
    target, other = tmp_path / "out", tmp_path / "other"
    if kind == "file":
        target.touch()
    else:
        target.symlink_to(other)
    if kind == "link":
        other.mkdir()
    before = names_below(tmp_path)
    with refused(target):
        require_new(target)
    with refused(target), new_folder(target):
        pass
    assert names_below(tmp_path) == before


# --- names ---------------------------------------------------------------------------------------------------------

NAMED: dict[str, Callable[[str], object]] = {
    "a task": lambda name: FilesTask(name, ("no", "yes"), "t.csv", "d.csv"),
    "an OOD test set": lambda name: FilesTask("mine", ("no", "yes"), "t.csv", "d.csv", ((name, "o.csv"),)),
    "an ID test set": lambda name: FilesTask("mine", ("no", "yes"), "t.csv", "d.csv", id_tests=((name, "o.csv"),)),
    "a recipe": lambda name: replace(demo_recipe(), name=name),
    "SQuAD": lambda name: SquadTask("t.json", "d.json", name=name),
    "a test set of SQuAD": lambda name: SquadTask("t.json", "d.json", ((name, "o.json"),)),
}


@pytest.mark.parametrize("make", NAMED.values(), ids=NAMED)
def test_a_name_that_is_no_file_name_is_refused_wherever_it_stands(make: Callable[[str], object]) -> None:
    """The fuzz has them in files, through every command that writes."""
    for name in NAMES:
        with pytest.raises(UserError) as caught:
            make(name)
        assert f"'{printable(name)}'" in str(caught.value)


@settings(max_examples=100)
@given(st.text(min_size=1, max_size=30))
def test_what_is_accepted_is_a_file_of_its_folder(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    try:
        file_name("a name", name)
    except UserError:
        return
    folder = tmp_path_factory.mktemp("names")
    (folder / f"{name}.csv").write_text("")
    assert [path.name for path in folder.iterdir()] == [f"{name}.csv"]


@pytest.mark.parametrize("name", ["hard", "hans 2", "PAWS-QQP", "v1.1", "日本", "été_2"])
def test_usual_names_pass(name: str) -> None:
    assert file_name("a test set", name) == name


def test_described_files_are_checked_before_the_description_is_written(tmp_path: Path) -> None:
    write_task(tmp_path)
    train, dev, ood = (tmp_path / f"{name}.csv" for name in ("train", "dev", "ood"))
    with refused("'../x'"):
        describe_files(tmp_path / "mine.yaml", train, dev, (("../x", str(ood)),))
    assert not (tmp_path / "mine.yaml").exists()


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
    "SMP mask": lambda path: read_smp(path, {}),
    "torch mask": lambda path: _read_reference(path, {}),
    "vectors": lambda path: WordVectors.read(str(path)),
    "model": lambda path: read_config(str(path.parent)),
    "export": lambda path: EXPORT.read(path.parent),
    "classifier": lambda path: open_classifier(path.parent),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "unreadable", "folder"])
def test_what_is_no_file_is_not_read(kind: str, reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "folder" and reader in ("model", "export", "classifier"):
        return  # a folder in the folder of a model is none of its files
    endings = {"vectors": ".npz"} | dict.fromkeys(("model", "export", "classifier"), ".safetensors")
    path = tmp_path / f"x{endings.get(reader, '')}"
    make_special(kind, path, monkeypatch)
    named = path.parent if kind == "unreadable" else path
    with refused(named, {"folder": "a folder", "unreadable": "may not be read"}.get(kind, "a pipe or a device")):
        READERS[reader](path)


@pytest.mark.parametrize("code", [errno.EACCES, errno.ENOENT, errno.ELOOP])
def test_an_error_of_reading_does_not_ask_for_another_folder(code: int, tmp_path: Path) -> None:
    with pytest.raises(UserError) as error, writing(tmp_path / "out"):
        raise OSError(code, os.strerror(code), str(tmp_path / "model.bin"))
    assert "model.bin" in str(error.value)
    assert "write" not in str(error.value)
    for named in (tmp_path / "out" / "file", tmp_path, tmp_path / ".new-out-1" / "file"):
        with refused("cannot write"), writing(tmp_path / "out"):
            raise OSError(code, os.strerror(code), str(named))


def test_what_no_reader_of_models_opens_does_not_matter(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log.pipe")
    require_readable_in(tmp_path)
    os.mkfifo(tmp_path / "model.safetensors")
    with refused("model.safetensors"):
        require_readable_in(tmp_path)


# --- csv for people ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["=1+1", "+cmd|' /C calc'!A0", "-x", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff0d1", "--1", "-"]
)
def test_a_formula_is_text(text: str) -> None:
    assert spreadsheet_cell(text) == f"'{text}"


@pytest.mark.parametrize("value", ["a=b", "", "'=1", "-1", "+1.5e-3", "-.5", -1, -0.5, None, "1-2"])
def test_numbers_and_other_texts_stay(value: object) -> None:
    assert spreadsheet_cell(value) == value
