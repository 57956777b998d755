"""Forged masks and subnetwork folders whose checksums fit, and disks on which a result cannot be written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import refused
from fuzz.valid import BACKBONE, IMPORTED, sign, write_subnetwork, write_task
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from srnet import api
from srnet.core.arrays import read_npy_header
from srnet.core.errors import UserError
from srnet.core.files import DiskFull
from srnet.core.progress import Reporter
from srnet.masks.mask import Mask
from srnet.models.formats.imports import read_reference
from srnet.models.formats.smp import read_smp
from srnet.models.open import load_subnetwork
from srnet.tasks.synthetic.pretrain_settings import PretrainSettings

SHAPES = {"a.weight": (4, 8)}


# --- subnetwork folders ----------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    forge(tmp_path, write_subnetwork(tmp_path))
    load_subnetwork(tmp_path / "subnetwork")  # what is changed below is all that is wrong
    return tmp_path


def forge(folder: Path, card: dict[str, Any]) -> None:
    """Write a card whose checksums fit whatever lies in the folder."""
    made = folder / "subnetwork"
    if isinstance(card.get("files"), dict):
        present = [name for name in card["files"] if (made / name).is_file()]
        card["files"] |= {name: hashlib.sha256((made / name).read_bytes()).hexdigest() for name in present}
    if "backbone" in card and isinstance(card["backbone"], str):
        card["backbone"] = str(BACKBONE)
    sign(made / "subnetwork.json", card)


def card_of(folder: Path) -> dict[str, Any]:
    card: dict[str, Any] = json.loads((folder / "subnetwork" / "subnetwork.json").read_text())
    return {key: value for key, value in card.items() if key != "sha256"}


@pytest.mark.parametrize("key", ["backbone", "backbone_sha256", "labels", "files"])
@pytest.mark.parametrize("value", ["missing", None, 3, {"x": 1}, [1]], ids=str)
def test_a_card_without_what_it_needs(key: str, value: Any, folder: Path) -> None:
    card = card_of(folder)
    card.pop(key) if value == "missing" else card.update({key: value})
    forge(folder, card)
    with pytest.raises(UserError, match=r"subnetwork\.json"):
        load_subnetwork(folder / "subnetwork")


@pytest.mark.parametrize("name", ["../../../etc/passwd", "/etc/passwd", "other.bits"])
def test_a_card_that_names_other_files(name: str, folder: Path) -> None:
    card = card_of(folder)
    forge(folder, {**card, "files": {**card["files"], name: "0"}})
    with pytest.raises(UserError, match="names other labels or files"):
        load_subnetwork(folder / "subnetwork")


def test_a_card_of_brackets(folder: Path) -> None:
    (folder / "subnetwork" / "subnetwork.json").write_text("[" * 100_000)
    with pytest.raises(UserError, match="cannot be read as JSON"):
        load_subnetwork(folder / "subnetwork")


def without(weights: dict[str, torch.Tensor], name: str) -> None:
    del weights[name]


def unknown(weights: dict[str, torch.Tensor], name: str) -> None:
    weights["nobody.weight"] = torch.ones(3)


def not_finite(weights: dict[str, torch.Tensor], name: str) -> None:
    weights[name] = torch.full_like(weights[name], float("nan"))


def endless(weights: dict[str, torch.Tensor], name: str) -> None:
    weights[name] = torch.full_like(weights[name], float("inf"))


def misshapen(weights: dict[str, torch.Tensor], name: str) -> None:
    weights[name] = torch.ones(2, 2, 2)


def whole_numbers(weights: dict[str, torch.Tensor], name: str) -> None:
    weights[name] = weights[name].to(torch.int64)


@pytest.mark.parametrize("change", [without, unknown, not_finite, endless, misshapen, whole_numbers])
def test_forged_weights(change: Callable[..., None], folder: Path, monkeypatch: Any, capsys: Any) -> None:
    path = folder / "subnetwork" / "weights.safetensors"
    weights = load_file(path)
    change(weights, "classifier.weight" if "classifier.weight" in weights else next(iter(weights)))
    save_file(weights, path)
    forge(folder, card_of(folder))
    task = write_task(folder)
    for command in (("evaluate", folder / "subnetwork", "--task", task),
                    ("export", folder / "subnetwork", "--format", "merged", "--out", folder / "out")):  # fmt: skip
        refused(monkeypatch, capsys, *command)
    assert not (folder / "out").exists()


# --- masks ---------------------------------------------------------------------------------------------------------


def forged_mask(shapes: object, bits: bytes = b"\0" * 4, length: int | None = None) -> bytes:
    """With a checksum that fits."""
    header = shapes if isinstance(shapes, bytes) else json.dumps(shapes).encode()
    body = (len(header) if length is None else length).to_bytes(8, "little") + header + bits
    return b"SRNETMASK1\n" + hashlib.sha256(body).digest() + body


@pytest.mark.parametrize(
    "data",
    [
        forged_mask({"a": [-4, -8]}),
        forged_mask({"a": [10**6, 10**6]}),  # 931 GiB as booleans
        forged_mask({"a": [10**9] * 4}),
        forged_mask({"a": [4, 9]}),
        forged_mask({"a": "x"}),
        forged_mask({"a": None}),
        forged_mask({"a": [4.0, 8]}),
        forged_mask({"a": [True, 32]}),
        forged_mask([[4, 8]]),
        forged_mask(None),
        forged_mask(b"[" * 5000),
        forged_mask(b"\xff\xfe"),
        forged_mask({"a": [4, 8]}, length=2**63),
        forged_mask({"a": [4, 8]}, length=0),
    ],
    ids=range(14),
)
def test_a_forged_mask_is_refused_before_anything_is_allocated(data: bytes) -> None:
    with pytest.raises(UserError, match=r"the mask file .*restore the file"):
        Mask.from_bytes(data, "the mask file")


def test_the_mask_that_they_are_forged_from() -> None:
    assert Mask.from_bytes(forged_mask({"a": [4, 8]})).total == 32


def test_every_flipped_bit_of_an_npy_header_is_one_line_or_a_mask(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.zeros(4, np.uint8))
    whole = (tmp_path / "m.npy").read_bytes()
    read = 0
    for bit in range(8 * (len(whole) - 4)):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        (tmp_path / "m.npy").write_bytes(changed)
        try:
            read_smp(tmp_path / "m.npy", SHAPES)
            read += 1
        except UserError:
            pass
    assert 0 < read < 400, "spaces may become something else that means nothing"


@pytest.mark.parametrize("shape", ["(-4,)", "(4.0,)", "(True,)", "None", "(" * 500, "(9" + "9" * 5000 + ",)", "4"])
def test_a_header_with_a_shape_that_is_none(shape: str, tmp_path: Path) -> None:
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    (tmp_path / "m.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\0" * 4)
    with (tmp_path / "m.npy").open("rb") as file, pytest.raises(UserError, match=r"m\.npy is not an"):
        read_npy_header(file, "m.npy")


@pytest.mark.parametrize("levels", [1, 3, 5000])
def test_a_torch_file_that_contains_itself_or_too_many_dicts(levels: int, tmp_path: Path) -> None:
    held: dict[str, Any] = {}
    if levels == 1:
        held["self"] = held
    else:
        inner = held
        for _ in range(min(levels, 200)):
            inner["x"] = {}
            inner = inner["x"]
    torch.save(held, tmp_path / "m.pt")
    with pytest.raises(UserError, match="holds no masks by name"):
        read_reference(tmp_path / "m.pt", SHAPES)


def test_one_label_is_no_choice(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    np.save(tmp_path / "m.npy", np.zeros(96, np.uint8))
    said = refused(
        monkeypatch, capsys, "import", "smp", tmp_path / "m.npy", *IMPORTED[:2], "--labels", "one",
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert "give at least two" in said


# --- results that cannot be written --------------------------------------------------------------------------------


@pytest.fixture
def stored(tmp_path: Path) -> tuple[Path, Path]:
    """A saved subnetwork, and a mask to import."""
    forge(tmp_path, write_subnetwork(tmp_path))
    np.save(tmp_path / "m.npy", np.zeros(96, np.uint8))
    return tmp_path / "subnetwork", tmp_path / "m.npy"


@pytest.mark.parametrize("place", ["a-file/inside", "x" * 300])
def test_a_folder_that_cannot_be_made_is_said_before_anything_is_computed(
    place: str, stored: tuple[Path, Path], tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    (tmp_path / "a-file").write_text("")
    task, out = write_task(tmp_path), ("--out", tmp_path / place)
    never = pytest.fail
    monkeypatch.setattr("srnet.api.models.pretrain_backbone", never)
    monkeypatch.setattr("srnet.api.models.read_published", never)
    monkeypatch.setattr("srnet.api.models._source", never)
    for words in (
        ("pretrain",),
        ("import", "smp", stored[1], "--backbone", BACKBONE, "--labels", "no,yes"),
        ("export", stored[0], "--format", "merged"),
        ("export", stored[0], "--format", "subnetwork"),
        ("data", "write", task),
    ):
        assert "cannot write" in refused(monkeypatch, capsys, *words, *out)


def test_links_that_lead_in_a_circle(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    words = ("data", "write", write_task(tmp_path), "--out", tmp_path / "loop")
    assert "its symbolic links form a loop" in refused(monkeypatch, capsys, *words)


@pytest.mark.parametrize("command", [("reproduce", "fig2"), ("demo",), ("run", "RECIPE")], ids=lambda words: words[0])
@pytest.mark.parametrize(
    ("place", "said"), [("a-file", "is a file"), ("a-file/inside", "cannot write"), ("", "--out: the path is empty")]
)
def test_a_report_that_cannot_be_written_is_said_before_anything_is_computed(
    place: str, said: str, command: tuple[str, ...], tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    (tmp_path / "a-file").write_text("")
    (tmp_path / "r.yaml").write_text("task: inference\nlines: [{label: full}]\n")
    monkeypatch.setattr("srnet.experiment.engine.Engine.execute", pytest.fail)
    words = [tmp_path / "r.yaml" if word == "RECIPE" else word for word in command]
    out = ("--out", tmp_path / place if place else "", "--store", tmp_path / "store")
    assert said in refused(monkeypatch, capsys, *words, *out)


def test_a_description_that_cannot_be_written(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    write_task(tmp_path)
    files = ("--train", tmp_path / "train.csv", "--dev", tmp_path / "dev.csv")
    said = refused(monkeypatch, capsys, "data", "describe", *files, "--out", tmp_path / "dev.csv" / "mine.yaml")
    assert "there is a file where a folder is needed" in said


def test_a_full_disk_while_a_pre_trained_model_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(PreTrainedModel, "save_pretrained", full)
    settings = PretrainSettings(1, 1, 1, batch_size=2, hidden_size=8, layers=1, heads=1, warmup=1)
    with pytest.raises(DiskFull, match="no space left; free some space"):
        api.pretrain(tmp_path / "made", settings, Reporter(quiet=True))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_size": 0}, {"hidden_size": 30}, {"heads": 0}, {"batch_size": 0}, {"warmup": 0}, {"layers": 10**9},
        {"mask_share": float("nan")}, {"pair_share": 2.0}, {"learning_rate": -1.0}, {"seed": -1},
        {"mlm_steps": 10**400},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_settings_of_pre_training_have_ranges(change: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"out of range|cannot be divided"):
        PretrainSettings(**change)
