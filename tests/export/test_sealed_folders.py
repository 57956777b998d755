"""Folders that are read back: nothing that was altered, cut, forged or taken from elsewhere is read."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forging import MISSING, damaged, forge, manifest_of
from refusals import refused
from small_models import pruned

from srnet.core.sealed import LONGEST_TEXT
from srnet.models.bank import MaskBank
from srnet.models.formats.base import Source
from srnet.models.formats.merged import Merged
from srnet.models.formats.onnx import Onnx
from srnet.models.formats.shrunk import Shrunk
from srnet.models.formats.subnetwork import SubnetworkFolder
from srnet.models.open import open_model
from srnet.models.subnetwork import Subnetwork

KINDS = ("plain", "coded", "merged", "shrunk", "uniform", "onnx", "bank")
FORMATS = {
    "coded": SubnetworkFolder(), "merged": Merged(), "shrunk": Shrunk(), "uniform": Shrunk(uniform=True),
    "onnx": Onnx(),
}  # fmt: skip
BLOCK = "bert.encoder.layer.0.intermediate"


@pytest.fixture(scope="module")
def whole(tiny_backbone: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One subnetwork in every kind of folder."""
    root, subnetwork = tmp_path_factory.mktemp("sealed"), pruned(tiny_backbone)
    subnetwork.save(root / "plain")
    for name, format in FORMATS.items():
        format.write(Source(subnetwork), root / name)
    bank = MaskBank(tiny_backbone)
    bank.add("raw", root / "coded")
    bank.save(root / "bank")
    return root


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Callable[[str], Path]:
    return lambda kind: Path(shutil.copytree(whole / kind, tmp_path / kind))


def read(folder: Path) -> None:
    MaskBank.load(folder) if folder.name == "bank" else open_model(folder)


@pytest.mark.parametrize("kind", KINDS)
def test_damage_to_any_file_is_noticed(kind: str, copy: Callable[[str], Path]) -> None:
    folder = copy(kind)
    read(folder)
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "README.md"]
    assert len(files) >= 3
    manifest = manifest_of(folder)
    for path in files:
        for _ in damaged(path, 30 if kind == "coded" else 5, may_go=path != manifest):
            with refused(path.name):
                read(folder)
    read(folder)


@pytest.mark.parametrize("kind", ["plain", "coded", "shrunk", "onnx", "bank"])
def test_a_folder_without_its_manifest(kind: str, copy: Callable[[str], Path]) -> None:
    """A merged one is then a plain checkpoint."""
    folder = copy(kind)
    manifest_of(folder).unlink()
    with refused(folder):
        read(folder)


def test_a_mask_of_another_subnetwork_is_refused(copy: Callable[[str], Path], tiny_backbone: str) -> None:
    folder = copy("plain")
    pruned(tiny_backbone, share=0.2).save(folder.with_name("other"))
    shutil.copy(folder.with_name("other") / "mask.bits", folder)
    with refused("mask.bits"):
        read(folder)


NO_LENGTH = (0, -1, LONGEST_TEXT + 1, 10**30, "7", 7.5, True)
NO_TEXTS = (MISSING, None, 3, {"x": 1}, [1])
FORGED: list[tuple[str, dict[str, Any]]] = [
    *(("plain", {key: value}) for key in ("labels", "files") for value in NO_TEXTS),
    *(("plain", {key: value}) for key in ("backbone", "backbone_sha256") for value in (MISSING, None, 3, [1])),
    *(("plain", {"format": value}) for value in (99, True, 2, "1", None)),
    *(("coded", {"format": value}) for value in (99, True, 1)),
    *((kind, {"max_length": value}) for kind in ("coded", "merged", "onnx") for value in NO_LENGTH),
    *((kind, {"labels": value}) for kind in ("coded", "shrunk", "onnx") for value in NO_TEXTS),
    *((kind, {"language": value}) for kind in ("merged", "shrunk") for value in (True, "yes", 1)),
    *(("shrunk", {"units": value}) for value in ([], {"nowhere": [0]})),
    *(("shrunk", {"units": {BLOCK: value}}) for value in ([10**9], [3, 3], "all", [1])),
    *(("shrunk", {"label_words": ["a"], "label_word_ids": [value]}) for value in (10**9, -1, "x")),
    *((kind, {"kind": value}) for kind in ("merged", "shrunk", "onnx") for value in ("pickle", "", 3)),
    *((kind, {"format": 99}) for kind in ("merged", "shrunk", "onnx", "bank")),
    *(("bank", {"tasks": value}) for value in (MISSING, {"raw": "0"}, ["raw"], [["raw", 3]])),
    *(("bank", {"tasks": [["gone", "0"]]}), ("bank", {"backbone": 3})),
]  # fmt: skip


@pytest.mark.parametrize("kind", sorted({kind for kind, _ in FORGED}))
def test_a_forged_manifest_is_refused(kind: str, copy: Callable[[str], Path]) -> None:
    """With checksums that fit."""
    folder = copy(kind)
    manifest = manifest_of(folder)
    content = manifest.read_text()
    for changes in (changes for each, changes in FORGED if each == kind):
        forge(folder, **changes)
        with refused(folder.name):
            read(folder)
        manifest.write_text(content)


@pytest.mark.parametrize("kind", ["plain", "shrunk"])
@pytest.mark.parametrize("name", ["../../../etc/passwd", "/etc/passwd", "other.bits", "x" * 300, "a\0b"])
def test_files_that_no_such_folder_has(kind: str, name: str, copy: Callable[[str], Path]) -> None:
    folder = copy(kind)
    forge(folder, files={"weights.safetensors": "", name: "0"})
    with refused(kind):
        read(folder)


@pytest.mark.parametrize("kind", ["plain", "merged", "bank"])
@pytest.mark.parametrize("content", ["", "[" * 100_000, "[]", "null", "{}"], ids=len)
def test_a_manifest_that_is_none(kind: str, content: str, copy: Callable[[str], Path]) -> None:
    folder = copy(kind)
    manifest_of(folder).write_text(content)
    with refused(kind):
        read(folder)


def test_what_a_save_interrupts_stays(copy: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = copy("plain")
    subnetwork, before = Subnetwork.load(folder), {path.name: path.read_bytes() for path in folder.iterdir()}

    def fail(*args: object) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr("srnet.core.sealed.write_json", fail)
    for save in (subnetwork.save, subnetwork.save_coded):
        for target in (folder, folder.with_name("new")):
            with pytest.raises(RuntimeError):
                save(target)
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}
    assert [path.name for path in folder.parent.iterdir()] == ["plain"]
