"""A subnetwork folder of format 1, written in November 2026, still loads and gives the logits it gave then."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from srnet.models.open import load_subnetwork
from srnet.models.subnetwork import Subnetwork

FOLDER = Path(__file__).parents[1] / "fixtures" / "format-1"


def test_a_stored_folder_still_loads() -> None:
    model = load_subnetwork(FOLDER / "subnetwork", backbone=str(FOLDER / "backbone")).eval()
    expected = json.loads((FOLDER / "expected.json").read_text())
    with torch.no_grad():
        logits = model(input_ids=torch.tensor(expected["input_ids"])).logits
    torch.testing.assert_close(logits, torch.tensor(expected["logits"]), rtol=1e-4, atol=1e-5)


def test_its_card_says_what_it_is() -> None:
    subnetwork = Subnetwork.load(FOLDER / "subnetwork")
    assert subnetwork.labels == ("no", "yes")
    assert subnetwork.mask is not None
    assert subnetwork.sparsity == subnetwork.mask.sparsity
