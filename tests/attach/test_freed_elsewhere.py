"""Masked weights that are freed where the model is on another device than the CPU."""

from __future__ import annotations

import pytest
import torch

import srnet
from srnet.masks import freed
from tests.devices import second_device
from tests.small_models import batch, tiny


@pytest.mark.parametrize("frozen", ["float32", "bf16"])
def test_the_same_gradients_as_of_weights_that_are_kept(frozen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for rows in (1, 10**9):
        monkeypatch.setattr(freed, "MANY_ROWS", rows)
        torch.manual_seed(0)
        model, inputs = tiny("bert").eval(), batch()
        with second_device() as device:
            model.to(device)
            pruning = srnet.attach(model, srnet.MaskTraining(0.5, frozen=frozen), steps=9)  # type: ignore[arg-type]
            model(**{name: each.to(device) for name, each in inputs.items()}).logits.sum().backward()
            found.append([each.grad.cpu() for each in pruning.scores() if each.grad is not None])
    assert found[0]
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
