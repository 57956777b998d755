"""Folders of format 2, written in November 2026, still load and give the logits they gave then."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from srnet.models.open import load_subnetwork
from srnet.models.subnetwork import Subnetwork

FIXTURES = Path(__file__).parents[1] / "fixtures"
FOLDER, BACKBONE = FIXTURES / "format-2", str(FIXTURES / "format-1" / "backbone")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_stored_folder_still_loads(dtype: str) -> None:
    model = load_subnetwork(FOLDER / dtype, backbone=BACKBONE)
    expected = json.loads((FOLDER / "expected.json").read_text())
    with torch.no_grad():
        logits = model(input_ids=torch.tensor(expected["input_ids"])).logits
    torch.testing.assert_close(logits, torch.tensor(expected[dtype]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_its_mask_is_that_of_the_folder_of_format_1(dtype: str) -> None:
    subnetwork = Subnetwork.load(FOLDER / dtype, BACKBONE)
    assert subnetwork.mask == Subnetwork.load(FIXTURES / "format-1" / "subnetwork").mask
    assert (subnetwork.labels, subnetwork.max_length) == (("no", "yes"), 16)
