"""Group-balanced cross-entropy, and product of experts with the probabilities of other examples."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from devices import counted_device

from srnet.experiment.nodes.objectives import NEEDS
from srnet.experiment.store import Store
from srnet.objectives.balanced import Balanced, group_weights
from srnet.objectives.poe import ProductOfExperts
from srnet.objectives.poe_permuted import PermutedExperts
from srnet.tasks.synthetic import SyntheticTask

ln = math.log
RIGHT, WRONG = [0.9, 0.1], [0.2, 0.8]
"""What a bias model says about an example with label 0."""
LABELS, BIAS = torch.tensor([0, 0, 0, 1]), torch.tensor([RIGHT, RIGHT, WRONG, WRONG]).log()
"""Of label 0 it gets two right and one wrong; label 1 it gets right once and never wrong."""


def prepared() -> Balanced:
    loss = Balanced()
    loss.prepare(LABELS, bias=BIAS)
    return loss


def test_weights_by_hand() -> None:
    """Three of the four groups have rows: 1, 2, none, 1 of 4. Each has a total weight of 4/3."""
    weights = prepared().weights
    assert weights.tolist() == pytest.approx([4 / 3, 2 / 3, 0.0, 4 / 3])
    assert torch.dot(weights, torch.tensor([1, 2, 0, 1]).double()).item() == pytest.approx(4.0), "a mean of 1"


def test_loss_by_hand() -> None:
    """The model says (3/4, 1/4) about all: each of three groups has a third of the loss."""
    logits = torch.tensor([[ln(3), 0.0]]).repeat(4, 1)
    assert prepared()(logits, LABELS, bias=BIAS).item() == pytest.approx((2 * ln(4 / 3) + ln(4)) / 3)
    # a batch with one row of the group of two: its weight is that of the training data
    assert prepared()(logits[:1], LABELS[:1], bias=BIAS[:1]).item() == pytest.approx(2 / 3 * ln(4 / 3))


def test_groups_of_the_same_size_are_cross_entropy() -> None:
    assert group_weights(torch.tensor([7, 7, 7, 7])).tolist() == [1.0] * 4


def test_the_weights_are_where_the_logits_are() -> None:
    with counted_device() as (device, counts):
        loss, logits = prepared(), torch.zeros(4, 2).to(device)
        value = loss(logits, LABELS.to(device), bias=BIAS.to(device))
        assert value.device == logits.device
        assert not counts.waits


# --- the permuted bias model ---------------------------------------------------------------------------------------


class _Splits:
    """Predictions of a bias model by split."""

    def for_ids(self, ids: Any) -> np.ndarray:
        return np.log(np.random.default_rng(3).dirichlet([1, 1], len(ids)))


def test_the_values_are_those_of_other_examples(
    tiny_task: SyntheticTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("srnet.experiment.nodes.objectives.bias_predictions", lambda *given: _Splits())
    task, store, node = tiny_task.load(), Store(tmp_path), type("Node", (), {"key": "key"})()
    own, permuted = (NEEDS[name].values(node, [task.train], task, store) for name in ("bias", "permuted_bias"))
    assert sorted(map(tuple, own)) == sorted(map(tuple, permuted)), "whole rows, each once"
    assert (own != permuted).any(1).mean() > 0.9
    again = NEEDS["permuted_bias"].values(node, [task.train], task, store)
    assert np.array_equal(permuted, again), "a resumed training has the same"


def test_it_is_product_of_experts_with_these_values() -> None:
    logits, labels = torch.randn(4, 2), torch.tensor([0, 1, 1, 0])
    expected = ProductOfExperts(0.5)(logits, labels, bias=BIAS.flip(0))
    assert torch.equal(PermutedExperts(0.5)(logits, labels, permuted_bias=BIAS.flip(0)), expected)
