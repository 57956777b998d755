"""A merged checkpoint needs no code of ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import AutoTokenizer

from srnet.backbones import load_backbone
from srnet.export import save_merged
from srnet.pruners import OneShot
from srnet.subnetwork import Subnetwork, load_subnetwork

PLAIN = """
import sys
sys.modules["srnet"] = None  # importing it would fail
import numpy as np, torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
torch.set_num_threads(1)
folder, out = sys.argv[1:]
model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
assert type(model).__module__.startswith("transformers."), type(model)
assert model.config.id2label == {0: "no", 1: "yes"}, model.config.id2label
tokens = AutoTokenizer.from_pretrained(folder)(["the lawyer saw the doctor"], ["the doctor"], return_tensors="pt")
with torch.no_grad():
    np.save(out, model(**tokens).logits.numpy())
"""


def test_plain_transformers_gives_the_same_logits(tiny_backbone: str, tmp_path: Path) -> None:
    base = load_backbone(tiny_backbone, ("no", "yes"), seed=5)
    state = {name: tensor + 0.01 for name, tensor in base.model.state_dict().items()}
    subnetwork = Subnetwork.of(base, ("no", "yes"), state, OneShot(0.6).mask(base.model))
    subnetwork.save(tmp_path / "sub")
    save_merged(subnetwork, tmp_path / "merged")

    command = [sys.executable, "-c", PLAIN, tmp_path / "merged", tmp_path / "logits.npy"]
    subprocess.run(command, check=True, timeout=120, cwd=tmp_path, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    tokens = AutoTokenizer.from_pretrained(tiny_backbone)(
        ["the lawyer saw the doctor"], ["the doctor"], return_tensors="pt"
    )
    with torch.no_grad():
        expected = load_subnetwork(tmp_path / "sub")(**tokens).logits.numpy()
    np.testing.assert_array_equal(np.load(tmp_path / "logits.npy"), expected)
