"""Logits of a model on a split: in the order of the data, one row each, and finite."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from refusals import refused
from small_models import WORDS, tiny

from srnet.experiment.store import Store, read_logits
from srnet.training.data import Encoded
from srnet.training.predict import in_order, predict

ROWS, TOKENS = 3, 4


def data() -> Encoded:
    ids = np.arange(ROWS * TOKENS, dtype=np.int32) % WORDS
    lengths = np.full(ROWS, TOKENS)
    return Encoded({"input_ids": ids}, np.zeros(ROWS, dtype=np.int64), lengths, {"input_ids": 0}, {})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 3e38], ids=["nan", "inf", "overflow"])
def test_non_finite_logits_are_an_error(value: float) -> None:
    model = tiny("bert")
    assert predict(model, data()).shape == (ROWS, 3)
    with torch.no_grad():
        model.classifier.weight.fill_(value)
    with refused("non-finite"):
        predict(model, data())


@pytest.mark.parametrize("shape", [(2,), (2, 4, 3), (1, 3), (2, 4), ()], ids=str)
def test_logits_of_another_shape_are_an_error(shape: tuple[int, ...]) -> None:
    pieces = [(np.array([0, 2]), np.zeros((2, 3))), (np.array([1, 3]), np.zeros(shape))]
    for each in (pieces, pieces[::-1]):
        with refused("shape"):
            in_order(each)


def test_stored_logits_of_an_earlier_version_are_checked(tmp_path: Path) -> None:
    """Teachers and reports read them."""
    store = Store(tmp_path)
    folder = store.path("0" * 16)
    folder.mkdir(parents=True)
    np.savez(folder / "logits.npz", dev=np.array([[1.0, np.nan]]))
    with refused("non-finite"):
        read_logits(store, "0" * 16)
