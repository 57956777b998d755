"""A shrunken folder: the masked model's logits, and nothing that was altered.

A fresh process loads it in `test_export_end_to_end`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from architectures import write_backbone
from refusals import refused
from small_models import LABELS, pruned, unit_mask
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import srnet
from srnet.masks.units import FAMILIES, blocks_of
from srnet.models.backbones import load_backbone
from srnet.models.formats.base import Source
from srnet.models.formats.shrunk import Shrunk
from srnet.models.heads import Head
from srnet.models.open import load_subnetwork
from srnet.models.subnetwork import Subnetwork
from srnet.pruners.magnitude import OneShot

FEWER_HEADS = [name for name, family in FAMILIES.items() if family.heads]


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


@pytest.mark.parametrize("name", FAMILIES)
def test_every_architecture_comes_back(name: str, backbones: Any, tmp_path: Path) -> None:
    subnetwork = pruned(backbones(name))
    (line,) = Shrunk().write(Source(subnetwork), tmp_path / "shrunk")
    assert "heads and" in line
    expected = logits(subnetwork.model(subnetwork.base()), backbones(name))
    again = load_subnetwork(tmp_path / "shrunk")
    torch.testing.assert_close(logits(again, tmp_path / "shrunk"), expected, rtol=0, atol=1e-5)
    assert sum(p.numel() for p in again.parameters()) < sum(p.numel() for p in subnetwork.base().model.parameters())
    assert again.config.id2label == dict(enumerate(LABELS))


@pytest.mark.parametrize("name", FEWER_HEADS)
def test_with_fewer_heads_in_every_layer_transformers_alone_reads_it(name: str, tmp_path: Path) -> None:
    sizes = {"num_attention_heads": 4, "num_key_value_heads": 2}
    base = load_backbone(write_backbone(name, tmp_path / "backbone", **sizes), LABELS, seed=5)
    left = {"attention": 1, "feed-forward": 5}
    keep = {block.name: torch.arange(block.size) < left[block.kind] for block in blocks_of(base.model)}
    subnetwork = Subnetwork.of(base, LABELS, base.model.state_dict(), unit_mask(base.model, keep))
    (line,) = Shrunk(uniform=True).write(Source(subnetwork), tmp_path / "shrunk")
    assert "2 of 4 heads and 10 of 64 neurons" in line
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path / "shrunk")
    assert (plain.config.num_attention_heads, plain.config.num_key_value_heads) == (2, 1)
    expected = logits(subnetwork.model(base), tmp_path / "backbone")
    torch.testing.assert_close(logits(plain, tmp_path / "shrunk"), expected, rtol=0, atol=1e-5)


def test_with_equal_widths_transformers_alone_reads_it(tiny_backbone: str, tmp_path: Path) -> None:
    subnetwork = pruned(tiny_backbone)
    lines = Shrunk(uniform=True).write(Source(subnetwork), tmp_path / "shrunk")
    assert "heads stay: a bert configuration" in lines[1]
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path / "shrunk")
    expected = logits(subnetwork.model(subnetwork.base()), tiny_backbone)
    torch.testing.assert_close(logits(plain, tmp_path / "shrunk"), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("head", "uniform", "dimensions"),
    [(Head(("doctor", "lawyer")), False, 2), (Head(("doctor", "lawyer")), True, 2), (Head(per_token=True), False, 3)],
)
def test_label_words_and_a_classifier_of_tokens(head: Head, uniform: bool, dimensions: int, tmp_path: Path) -> None:
    subnetwork = pruned("srnet-tiny", head=head, labels=("a", "b"))
    Shrunk(uniform).write(Source(subnetwork), tmp_path / "shrunk")
    expected = logits(subnetwork.model(subnetwork.base()), tmp_path / "shrunk")
    found = logits(load_subnetwork(tmp_path / "shrunk"), tmp_path / "shrunk")
    assert (found.dim(), found.shape[-1]) == (dimensions, 2)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


# --- refused -------------------------------------------------------------------------------------------------------


def test_a_complete_model_needs_no_backbone(tiny_backbone: str, tmp_path: Path) -> None:
    Shrunk().write(Source(pruned(tiny_backbone)), tmp_path / "shrunk")
    with refused(tmp_path / "shrunk", "backbone"):
        load_subnetwork(tmp_path / "shrunk", backbone=tiny_backbone)


@pytest.mark.parametrize("uniform", [False, True])
def test_a_mask_of_single_weights_is_nothing_to_shrink(uniform: bool, tiny_backbone: str, tmp_path: Path) -> None:
    base = load_backbone(tiny_backbone, LABELS, seed=5)
    subnetwork = Subnetwork.of(base, LABELS, base.model.state_dict(), OneShot(0.5).mask(base.model))
    with refused("nothing to shrink"):
        Shrunk(uniform).write(Source(subnetwork), tmp_path / "shrunk")
    assert not (tmp_path / "shrunk").exists()


def test_an_unknown_architecture_is_refused(tmp_path: Path) -> None:
    base = load_backbone(write_backbone("t5", tmp_path / "t5"), LABELS, seed=5)
    subnetwork = Subnetwork.of(base, LABELS, base.model.state_dict(), OneShot(0.5).mask(base.model))
    with refused("T5ForSequenceClassification"):
        Shrunk().write(Source(subnetwork), tmp_path / "shrunk")


def test_the_backbone_is_needed_for_the_export_alone(tiny_backbone: str, tmp_path: Path) -> None:
    pruned(tiny_backbone).save(tmp_path / "sub")
    said: list[str] = []
    srnet.export_model(tmp_path / "sub", tmp_path / "shrunk", format="shrunk", say=said.append)
    assert "parameters" in said[0]
    with refused(tmp_path / "shrunk"):
        srnet.export_model(tmp_path / "sub", tmp_path / "shrunk", format="shrunk")
    with refused(tmp_path / "shrunk"):
        srnet.export_model(tmp_path / "shrunk", tmp_path / "again", format="merged")
