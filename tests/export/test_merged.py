"""A merged checkpoint is one of transformers; without our code it is loaded in `test_export_end_to_end`."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from srnet.models.backbones import load_backbone
from srnet.models.formats.merged import save_merged
from srnet.models.open import load_subnetwork
from srnet.models.subnetwork import Subnetwork
from srnet.pruners.magnitude import OneShot


def test_plain_transformers_gives_the_same_logits(tiny_backbone: str, tmp_path: Path) -> None:
    base = load_backbone(tiny_backbone, ("no", "yes"), seed=5)
    state = {name: tensor + 0.01 for name, tensor in base.model.state_dict().items()}
    subnetwork = Subnetwork.of(base, ("no", "yes"), state, OneShot(0.6).mask(base.model))
    subnetwork.save(tmp_path / "sub")
    save_merged(subnetwork, tmp_path / "merged")

    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "merged").eval()
    assert type(model).__module__.startswith("transformers.")
    assert model.config.id2label == {0: "no", 1: "yes"}
    texts = ["the lawyer saw the doctor"], ["the doctor"]
    own, other = (
        AutoTokenizer.from_pretrained(each)(*texts, return_tensors="pt")
        for each in (tmp_path / "merged", tiny_backbone)
    )
    with torch.no_grad():
        assert torch.equal(model(**own).logits, load_subnetwork(tmp_path / "sub")(**other).logits)
