"""A shrunken folder: the masked model's logits, and nothing that was altered.

A fresh process loads it in `test_export_end_to_end`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from architectures import write_backbone
from small_models import LABELS, pruned
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from srnet import api
from srnet.core.errors import UserError
from srnet.core.sealed import seal
from srnet.models.backbones import load_backbone
from srnet.models.exported import CARD, WEIGHTS, load_exported
from srnet.models.formats.base import Source
from srnet.models.formats.shrunk import Shrunk
from srnet.models.heads import Head
from srnet.models.open import load_subnetwork
from srnet.models.subnetwork import Subnetwork
from srnet.pruners.magnitude import OneShot

NAMES = (
    *("bert", "roberta", "distilbert", "electra", "deberta-v2"),
    *("mpnet", "modernbert", "gpt2", "llama"),
)


@torch.no_grad()
def logits(model: Any, folder: Path | str) -> torch.Tensor:
    tokens = AutoTokenizer.from_pretrained(folder)("the lawyer saw the doctor", "the doctor", return_tensors="pt")
    if getattr(model.config, "type_vocab_size", 2) in (0, 1) or ("token_type_ids" in tokens and not segments(model)):
        tokens.pop("token_type_ids", None)
    found: torch.Tensor = model.eval()(**tokens).logits
    return found


def segments(model: Any) -> bool:
    return getattr(model.config, "type_vocab_size", 0) > 1


@pytest.fixture(scope="module")
def backbones(tmp_path_factory: pytest.TempPathFactory) -> Any:
    root = tmp_path_factory.mktemp("backbones")

    def make(name: str) -> str:
        folder = root / name
        return str(folder) if folder.exists() else write_backbone(name, folder)

    return make


@pytest.mark.parametrize("name", NAMES)
def test_every_architecture_comes_back(name: str, backbones: Any, tmp_path: Path) -> None:
    subnetwork = pruned(backbones(name))
    (line,) = Shrunk().write(Source(subnetwork), tmp_path / "shrunk")
    assert "heads and" in line
    expected = logits(subnetwork.model(subnetwork.base()), backbones(name))
    again = load_subnetwork(tmp_path / "shrunk")
    torch.testing.assert_close(logits(again, tmp_path / "shrunk"), expected, rtol=0, atol=1e-5)
    assert sum(p.numel() for p in again.parameters()) < sum(p.numel() for p in subnetwork.base().model.parameters())
    assert again.config.id2label == dict(enumerate(LABELS))


def test_with_equal_widths_transformers_alone_reads_it(tiny_backbone: str, tmp_path: Path) -> None:
    subnetwork = pruned(tiny_backbone)
    Shrunk(uniform=True).write(Source(subnetwork), tmp_path / "shrunk")
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path / "shrunk")
    expected = logits(subnetwork.model(subnetwork.base()), tiny_backbone)
    torch.testing.assert_close(logits(plain, tmp_path / "shrunk"), expected, rtol=0, atol=1e-5)


def test_equal_widths_say_that_heads_stay(tiny_backbone: str, tmp_path: Path) -> None:
    lines = Shrunk(uniform=True).write(Source(pruned(tiny_backbone)), tmp_path / "shrunk")
    assert "heads stay: a bert configuration has no place for fewer heads of the same size" in lines[1]


@pytest.mark.parametrize("uniform", [False, True])
def test_label_words(uniform: bool, tmp_path: Path) -> None:
    subnetwork = pruned("srnet-tiny", head=Head(("doctor", "lawyer")), labels=("a", "b"))
    Shrunk(uniform).write(Source(subnetwork), tmp_path / "shrunk")
    expected = logits(subnetwork.model(subnetwork.base()), tmp_path / "shrunk")
    found = logits(load_subnetwork(tmp_path / "shrunk"), tmp_path / "shrunk")
    assert found.shape == (1, 2)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_a_classifier_of_tokens(tiny_backbone: str, tmp_path: Path) -> None:
    subnetwork = pruned(tiny_backbone, head=Head(per_token=True), labels=("start", "end"))
    Shrunk().write(Source(subnetwork), tmp_path / "shrunk")
    expected = logits(subnetwork.model(subnetwork.base()), tiny_backbone)
    found = logits(load_subnetwork(tmp_path / "shrunk"), tmp_path / "shrunk")
    assert found.dim() == 3
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


# --- refused -------------------------------------------------------------------------------------------------------


def test_a_complete_model_needs_no_backbone(tiny_backbone: str, tmp_path: Path) -> None:
    Shrunk().write(Source(pruned(tiny_backbone)), tmp_path / "shrunk")
    with pytest.raises(UserError, match="is a complete model and needs no backbone; leave the backbone out"):
        load_subnetwork(tmp_path / "shrunk", backbone=tiny_backbone)


@pytest.mark.parametrize("uniform", [False, True])
def test_a_mask_of_single_weights_is_nothing_to_shrink(uniform: bool, tiny_backbone: str, tmp_path: Path) -> None:
    base = load_backbone(tiny_backbone, LABELS, seed=5)
    subnetwork = Subnetwork.of(base, LABELS, base.model.state_dict(), OneShot(0.5).mask(base.model))
    with pytest.raises(UserError, match="nothing to shrink"):
        Shrunk(uniform).write(Source(subnetwork), tmp_path / "shrunk")
    assert not (tmp_path / "shrunk").exists()


def test_an_unknown_architecture_is_refused(tmp_path: Path) -> None:
    base = load_backbone(write_backbone("t5", tmp_path / "t5"), LABELS, seed=5)
    subnetwork = Subnetwork.of(base, LABELS, base.model.state_dict(), OneShot(0.5).mask(base.model))
    with pytest.raises(UserError, match=r"heads and neurons of a T5ForSequenceClassification are not known"):
        Shrunk().write(Source(subnetwork), tmp_path / "shrunk")


@pytest.mark.parametrize("uniform", [False, True])
def test_a_flipped_bit_in_any_file_is_refused(uniform: bool, tiny_backbone: str, tmp_path: Path) -> None:
    folder = tmp_path / "shrunk"
    Shrunk(uniform).write(Source(pruned(tiny_backbone)), folder)
    files = {path.name for path in folder.iterdir()}
    assert {CARD, "config.json", "tokenizer.json", "model.safetensors" if uniform else WEIGHTS} <= files
    for name in files - {"README.md"}:
        whole = (folder / name).read_bytes()
        damaged = bytearray(whole)
        damaged[len(whole) // 2] ^= 4
        (folder / name).write_bytes(bytes(damaged))
        with pytest.raises(UserError, match=name):
            load_subnetwork(folder)
        (folder / name).unlink()
        with pytest.raises(UserError):
            load_subnetwork(folder)
        (folder / name).write_bytes(whole)
    load_subnetwork(folder)


FORGED: list[dict[str, Any]] = [
    {"units": {"bert.encoder.layer.0.intermediate": [10**9]}},
    {"units": {"nowhere": [0]}},
    {"units": {"bert.encoder.layer.0.intermediate": [3, 3]}},
    {"units": {"bert.encoder.layer.0.intermediate": [1]}},  # shapes that the weights do not have
    {"units": {"bert.encoder.layer.0.intermediate": "all"}},
    {"units": []},
    {"kind": "pickle"},
    {"format": 99},
    {"labels": [1, 2]},
    {"label_words": ["a"], "label_word_ids": [10**9]},
    {"files": {"../../etc/passwd": "0"}},
]


@pytest.mark.parametrize("forged", FORGED, ids=str)
def test_a_forged_card_is_refused(forged: dict[str, Any], tiny_backbone: str, tmp_path: Path) -> None:
    """With checksums that match."""
    folder = tmp_path / "shrunk"
    Shrunk().write(Source(pruned(tiny_backbone)), folder)
    card = json.loads((folder / CARD).read_text())
    files = card.pop("files")
    seal(folder, CARD, {**card, **forged})
    if "files" in forged:
        (folder / CARD).write_text(json.dumps({**card, "files": {**files, **forged["files"]}}))
    with pytest.raises(UserError):
        load_exported(folder)


def test_the_backbone_is_needed_for_the_export_alone(tiny_backbone: str, tmp_path: Path) -> None:
    pruned(tiny_backbone).save(tmp_path / "sub")
    said: list[str] = []
    api.export_model(tmp_path / "sub", tmp_path / "shrunk", format="shrunk", say=said.append)
    assert "parameters" in said[0]
    with pytest.raises(UserError, match="exists already"):
        api.export_model(tmp_path / "sub", tmp_path / "shrunk", format="shrunk")
    with pytest.raises(UserError, match="shrunk is an exported model already"):
        api.export_model(tmp_path / "shrunk", tmp_path / "again", format="merged")
