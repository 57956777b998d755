"""Weights of 8 bits: by hand, for both kinds of layers, and as a node."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from small_models import tiny
from torch import nn
from transformers.pytorch_utils import Conv1D

from srnet.experiment.engine import Engine
from srnet.experiment.nodes.models import Evaluate, Pretrained, Quantised
from srnet.experiment.nodes.training import FineTune, Prune
from srnet.models.rounding import LEVELS, round_weights, rounded_layers
from srnet.models.subnetwork import Subnetwork
from srnet.pruners.magnitude import OneShot
from srnet.training.settings import TrainingSettings

WEIGHT = torch.tensor([[1.27, -0.634, 0.006], [0.0, 0.0, 0.0], [-254.0, 3.1, 2.9]])
ROUNDED = [[1.27, -0.63, 0.01], [0.0, 0.0, 0.0], [-254.0, 4.0, 2.0]]
"""By hand: scales 0.01, none and 2 for the three outputs."""


def test_each_output_has_its_scale() -> None:
    layer = nn.Linear(3, 3)
    layer.weight.data.copy_(WEIGHT)
    round_weights(layer)
    torch.testing.assert_close(layer.weight.data, torch.tensor(ROUNDED))


def test_an_output_of_gpt2_is_a_column() -> None:
    layer = Conv1D(3, 3)
    layer.weight.data.copy_(WEIGHT.T)
    round_weights(layer)
    torch.testing.assert_close(layer.weight.data, torch.tensor(ROUNDED).T)


@pytest.mark.parametrize("variant", ["bert", "gpt2", "deberta-v2"])
def test_only_linear_layers_change_and_by_half_a_step_at_most(variant: str) -> None:
    model, before = tiny(variant), tiny(variant).state_dict()
    names = {f"{name}.weight" for name in rounded_layers(model)}
    round_weights(model)
    after = model.state_dict()
    assert {name for name in before if not torch.equal(before[name], after[name])} == names
    for name in names:
        step = before[name].abs().amax() / LEVELS
        assert (after[name] - before[name]).abs().max() <= 0.5001 * step
        again = {name: each.clone() for name, each in after.items()}
    round_weights(model)
    assert all(torch.allclose(model.state_dict()[name], again[name], rtol=1e-6) for name in names), "already rounded"


def test_what_embeddings_share_is_left_alone() -> None:
    words, out = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
    out.weight = words.weight
    model = nn.ModuleDict({"words": words, "out": out, "own": nn.Linear(4, 4)})
    assert list(rounded_layers(model)) == ["own"]


@pytest.fixture
def stored(engine: Engine, raw: Pretrained) -> Any:
    """Models of a few steps, and how they are read."""
    full = FineTune(raw, training=TrainingSettings(steps=2, eval_every=2, batch_size=8))
    nodes = [Quantised(full), Quantised(Prune(full, OneShot(0.5)))]
    engine.execute([full, *nodes, *map(Evaluate, nodes)])
    return SimpleNamespace(full=full, nodes=nodes, read=lambda node: Subnetwork.load(engine.store.path(node.key)))


def test_the_node_is_the_rounded_model(stored: Any) -> None:
    own, rounded = (stored.read(node) for node in (stored.full, stored.nodes[0]))
    base = own.base()
    expected = own.model(base)
    round_weights(expected)
    state = rounded.state(rounded.base())
    assert all(torch.equal(each, state[name]) for name, each in expected.state_dict().items())
    assert rounded.mask is None
    assert stored.nodes[0].label == f"{stored.full.label}, int8 weights"
    assert stored.nodes[0].formula == "Q(A_ce(pt))"


def test_zeros_of_a_mask_stay_zero(stored: Any) -> None:
    assert stored.read(stored.nodes[1]).sparsity == pytest.approx(0.5, abs=1e-3)
