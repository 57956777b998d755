"""Wanda by hand, row by row, for both layouts of a weight; and which data it sees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gpus import Simulated
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from torch import nn
from transformers.pytorch_utils import Conv1D

from srnet.experiment import compute as computing
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.base import load_task
from srnet.experiment.nodes.models import Pretrained
from srnet.experiment.nodes.training import FineTune, Prune
from srnet.models.subnetwork import Subnetwork
from srnet.pruners.magnitude import OneShot
from srnet.pruners.wanda import Wanda, _input_norms


class OneLayer(nn.Module):
    """What a model of transformers looks like from outside: (batch, tokens, inputs), and a mask of its tokens."""

    def __init__(self, weight: torch.Tensor, transposed: bool = False) -> None:
        super().__init__()
        self.layer: Any = Conv1D(*weight.shape) if transposed else nn.Linear(weight.shape[1], weight.shape[0])
        self.layer.weight.data = weight.T.clone() if transposed else weight

    def forward(self, x: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        return torch.as_tensor(self.layer(x))


# inputs of norm 3 4 / 1 1 / 2 (two tokens): (5, sqrt 2, 2); the third token is padding
X = torch.tensor([[[3.0, 1.0, 0.0], [4.0, 1.0, 2.0], [9.0, 9.0, 9.0]]])
BATCH = {"x": X, "attention_mask": torch.tensor([[1, 1, 0]]), "labels": torch.tensor([1])}
WEIGHT = torch.tensor([[0.1, -1.0, 0.3], [-2.0, 5.0, 4.0]])
# |W| norm: (0.5, 1.41, 0.6) and (10, 7.07, 8)


def test_norms_leave_padding_out() -> None:
    model = OneLayer(WEIGHT)
    norms = _input_norms(model, {"layer": model.layer}, [BATCH, {**BATCH, "x": torch.zeros(1, 3, 3)}])
    assert norms["layer.weight"].tolist() == pytest.approx([5.0, 2**0.5, 2.0])


@pytest.mark.parametrize("transposed", [False, True], ids=["Linear", "Conv1D"])
def test_rows_by_hand(transposed: bool) -> None:
    def kept(sparsity: float) -> list[list[bool]]:
        mask = Wanda(sparsity).mask(OneLayer(WEIGHT, transposed), [BATCH])["layer.weight"]
        found: list[list[bool]] = (mask.T if transposed else mask).tolist()
        return found

    assert kept(1 / 3) == [[False, True, True], [True, False, True]]
    assert kept(2 / 3) == [[False, True, False], [True, False, False]]
    # three of six: one in each row, and of the second lowest in each (0.6 and 8) the lower
    assert kept(1 / 2) == [[False, True, False], [True, False, True]]


def test_magnitude_would_choose_others() -> None:
    magnitude = OneShot(1 / 3).mask(OneLayer(WEIGHT))["layer.weight"]
    assert magnitude.tolist() == [[False, True, False], [True, True, True]]


@settings(max_examples=30)
@given(
    rows=st.integers(1, 6),
    columns=st.integers(1, 7),
    sparsity=st.floats(0.0, 0.99),
    transposed=st.booleans(),
    seed=st.integers(0, 99),
)
def test_the_sparsity_is_exact_and_rows_differ_by_one(
    rows: int, columns: int, sparsity: float, transposed: bool, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    model = OneLayer(torch.randn(rows, columns, generator=generator).round(decimals=1), transposed)  # with ties
    keep = Wanda(sparsity).mask(model, [{"x": torch.randn(2, 4, columns, generator=generator)}])["layer.weight"]
    assert int((~keep).sum()) == round(sparsity * keep.numel())
    counts = (keep.T if transposed else keep).sum(1)
    assert int(counts.max() - counts.min()) <= 1


def test_the_model_is_left_as_it_was() -> None:
    model = OneLayer(WEIGHT).train()
    Wanda(0.5).mask(model, [BATCH])
    assert model.training
    assert not model.layer._forward_hooks
    assert torch.equal(model.layer.weight, WEIGHT)


def test_a_layer_without_inputs_is_refused() -> None:
    model = OneLayer(WEIGHT)
    with refused("no batches"):
        Wanda(0.5).mask(model)
    model.unused = nn.Linear(2, 2)
    with refused("unused", "exclude"):
        Wanda(0.5).mask(model, [BATCH])


# --- in the engine -------------------------------------------------------------------------------------------------


def test_it_sees_rows_of_id_train_chosen_by_the_seed(
    raw: Pretrained, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, ...]] = []
    real = computing.inputs_for

    def spy(answer: Any, split: Any, *args: Any) -> Any:
        seen.append((split.name, *split.ids))
        return real(answer, split, *args)

    monkeypatch.setattr("srnet.experiment.compute.inputs_for", spy)
    one, other = raw, Pretrained(raw.backbone, raw.task, seed=1)
    engine.execute([Prune(one, Wanda(0.4, calibration=16)), Prune(other, Wanda(0.4, calibration=16))])
    engine.execute([Prune(one, Wanda(0.5, calibration=16)), Prune(one, Wanda(0.5, calibration=10**6))])
    first, second, again, every = seen
    train = load_task(raw.task).train
    assert all(name == "train" and set(ids) <= set(train.ids) for name, *ids in seen)
    assert first == again != second
    assert (len(first), len(every)) == (1 + 16, 1 + len(train))


def test_it_calibrates_on_the_device(raw: Pretrained, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model goes there with its batches; the mask comes back."""
    Simulated(monkeypatch, 1)
    moved: list[Any] = []
    monkeypatch.setattr(nn.Module, "to", lambda model, device: moved.append(device))
    engine.execute([node := Prune(raw, Wanda(0.5)), Prune(raw, OneShot(0.5))])
    assert moved == [torch.device("cuda")], "once: magnitudes need no forward pass"
    assert Subnetwork.load(engine.store.path(node.key)).mask is not None


def test_the_stored_mask_is_the_pruners(raw: Pretrained, engine: Engine, tiny_training: Any) -> None:
    node = Prune(FineTune(raw, training=tiny_training), Wanda(0.7))
    engine.execute([node])
    subnetwork = Subnetwork.load(engine.store.path(node.key))
    assert subnetwork.mask is not None
    for name, keep in subnetwork.mask.items():
        assert int((~keep).sum()) == round(0.7 * keep.numel()), name
        assert np.ptp(keep.sum(1).numpy()) <= 1, name
    engine.execute([magnitude := Prune(node.parent, OneShot(0.7))])
    assert subnetwork.mask != Subnetwork.load(engine.store.path(magnitude.key)).mask
