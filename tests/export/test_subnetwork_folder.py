"""A subnetwork one can keep: it comes back with the same logits, and nothing that was tampered with comes back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, PreTrainedModel

from srnet.core.errors import UserError
from srnet.models.backbones import load_backbone
from srnet.models.open import load_subnetwork
from srnet.models.subnetwork import Subnetwork
from srnet.pruners.magnitude import OneShot

LABELS = ("no", "yes", "maybe")
FILES = ("mask.bits", "weights.safetensors", "subnetwork.json")


def make(backbone: str, sparsity: float | None, *, trained: bool) -> Subnetwork:
    """With every tensor moved a little if `trained`, as fine-tuning does."""
    return make_with_model(backbone, sparsity, trained=trained)[0]


def make_with_model(backbone: str, sparsity: float | None, *, trained: bool) -> tuple[Subnetwork, PreTrainedModel]:
    """The same, and beside it the model that it should be, multiplied out by hand."""
    base = load_backbone(backbone, LABELS, seed=5)
    generator = torch.Generator().manual_seed(1)
    state = {
        name: tensor + 0.01 * torch.randn(tensor.shape, generator=generator) if trained else tensor
        for name, tensor in base.model.state_dict().items()
    }
    mask = None if sparsity is None else OneShot(sparsity).mask(base.model)
    subnetwork = Subnetwork.of(base, LABELS, state, mask)
    base.model.load_state_dict(state | {name: state[name] * keep for name, keep in (mask or {}).items()})
    return subnetwork, base.model


@torch.no_grad()
def logits(model: PreTrainedModel, backbone: str) -> torch.Tensor:
    tokens = AutoTokenizer.from_pretrained(backbone)(["the lawyer saw the doctor"], ["the doctor"], return_tensors="pt")
    return model.eval()(**tokens).logits


@pytest.fixture
def folder(tiny_backbone: str, tmp_path: Path) -> Path:
    make(tiny_backbone, 0.7, trained=True).save(tmp_path / "sub")
    return tmp_path / "sub"


@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize("sparsity", [None, 0.0, 0.5, 0.999])
def test_roundtrip(sparsity: float | None, trained: bool, tiny_backbone: str, tmp_path: Path) -> None:
    subnetwork, expected = make_with_model(tiny_backbone, sparsity, trained=trained)
    subnetwork.save(tmp_path / "sub")
    again = Subnetwork.load(tmp_path / "sub")
    assert again.mask == subnetwork.mask
    assert again.labels == LABELS
    assert again.sparsity == subnetwork.sparsity
    torch.manual_seed(77)
    model = load_subnetwork(tmp_path / "sub")
    assert torch.equal(logits(model, tiny_backbone), logits(expected, tiny_backbone))
    assert model.config.id2label == dict(enumerate(LABELS))
    for name, keep in (again.mask or {}).items():
        assert not model.state_dict()[name][~keep].any()


def test_an_untrained_subnetwork_is_little_more_than_its_bits(tiny_backbone: str, tmp_path: Path) -> None:
    subnetwork = make(tiny_backbone, 0.5, trained=False)
    subnetwork.save(tmp_path / "sub")
    assert {path.name for path in (tmp_path / "sub").iterdir()} == set(FILES)
    fresh = subnetwork.base().fresh
    assert set(subnetwork.weights) == fresh, "nothing but the head, which no backbone has"
    assert subnetwork.mask is not None
    head = sum(4 * tensor.numel() for tensor in subnetwork.weights.values())
    size = sum(path.stat().st_size for path in (tmp_path / "sub").iterdir())
    assert size < subnetwork.mask.total / 8 + head + 4096
    assert size < 0.5 * (Path(tiny_backbone) / "model.safetensors").stat().st_size


def test_of_a_masked_matrix_only_kept_values_are_written(folder: Path) -> None:
    subnetwork, stored = Subnetwork.load(folder), load_file(folder / "weights.safetensors")
    assert subnetwork.mask is not None
    for name, keep in subnetwork.mask.items():
        assert stored[name].shape == (int(keep.sum()),)


def test_the_card_says_what_it_is(folder: Path, tiny_backbone: str) -> None:
    card = json.loads((folder / "subnetwork.json").read_text())
    subnetwork = Subnetwork.load(folder)
    assert subnetwork.mask is not None
    assert card["backbone"] == tiny_backbone
    assert card["backbone_sha256"] == load_backbone(tiny_backbone, LABELS, 0).sha256
    assert (card["weights_total"], card["weights_kept"]) == (subnetwork.mask.total, subnetwork.mask.kept)
    assert card["sparsity"] == subnetwork.mask.sparsity


# --- refused -------------------------------------------------------------------------------------------------------


def truncated(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def altered(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-3] ^= 64
    path.write_bytes(bytes(data))


def removed(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("damage", [truncated, emptied, altered, removed])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_refused_by_name(name: str, damage: Callable[[Path], None], folder: Path) -> None:
    damage(folder / name)
    with pytest.raises(UserError, match=name):
        load_subnetwork(folder)


def test_the_mask_of_another_subnetwork_is_refused(folder: Path, tiny_backbone: str, tmp_path: Path) -> None:
    make(tiny_backbone, 0.5, trained=True).save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "mask.bits", folder / "mask.bits")
    with pytest.raises(UserError, match=r"mask\.bits is truncated or altered"):
        load_subnetwork(folder)


def test_a_future_format_is_refused(folder: Path) -> None:
    card = json.loads((folder / "subnetwork.json").read_text())
    (folder / "subnetwork.json").write_text(json.dumps(card | {"format": 99}))
    with pytest.raises(UserError, match=r"subnetwork\.json has an unknown format"):
        load_subnetwork(folder)


def test_a_folder_without_a_subnetwork(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UserError, match=r"holds no subnetwork\.json"):
            load_subnetwork(folder)


# --- the backbone --------------------------------------------------------------------------------------------------


def test_the_backbone_may_have_moved(folder: Path, tiny_backbone: str, tmp_path: Path) -> None:
    shutil.copytree(tiny_backbone, tmp_path / "moved")
    there, here = load_subnetwork(folder, backbone=str(tmp_path / "moved")), load_subnetwork(folder)
    assert torch.equal(logits(there, tiny_backbone), logits(here, tiny_backbone))


def test_a_wrong_backbone_is_refused(folder: Path, tiny_backbone: str, tmp_path: Path) -> None:
    shutil.copytree(tiny_backbone, tmp_path / "wrong")
    tensors = load_file(tmp_path / "wrong" / "model.safetensors")
    tensors["bert.embeddings.LayerNorm.bias"][0] += 1.0
    save_file(tensors, tmp_path / "wrong" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match=r"wrong' has hash .* the subnetwork needs"):
        load_subnetwork(folder, backbone=str(tmp_path / "wrong"))


def test_a_missing_backbone_is_said(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"backbone '.*nowhere' cannot be loaded"):
        load_subnetwork(folder, backbone=str(tmp_path / "nowhere"))


# --- writing -------------------------------------------------------------------------------------------------------


def test_a_failed_save_leaves_what_was_there(folder: Path, tiny_backbone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def fail(*args: object) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr("srnet.models.subnetwork_files.write_json", fail)
    with pytest.raises(RuntimeError):
        make(tiny_backbone, 0.5, trained=False).save(folder)
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}
    assert [path.name for path in folder.parent.iterdir()] == ["sub"]
