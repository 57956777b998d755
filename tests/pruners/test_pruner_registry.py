"""What holds for every pruner, and the one that needs no training."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from srnet.errors import UserError
from srnet.masks import Mask, Targets
from srnet.pruners import PRUNERS, Magnitude, Method, get_pruner
from srnet.pruners.base import split_snapshot

every_pruner = pytest.mark.parametrize("name", sorted(PRUNERS))


def test_registry() -> None:
    assert set(PRUNERS) == {"imp", "imp-rw", "magnitude", "mask"}
    assert all(get_pruner(name).name == name for name in PRUNERS)


def test_an_unknown_pruner_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"unknown pruner 'random'.*imp, imp-rw, magnitude, mask"):
        get_pruner("random")


@every_pruner
@pytest.mark.parametrize("sparsity", [1.0, -0.1])
def test_impossible_sparsities_are_refused(name: str, sparsity: float) -> None:
    with pytest.raises(UserError, match="out of range"):
        PRUNERS[name](sparsity=sparsity)


@every_pruner
def test_an_unknown_scope_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="unknown scope 'everywhere'"):
        PRUNERS[name](scope="everywhere")  # type: ignore[call-arg]


@every_pruner
def test_equal_descriptions_are_equal(name: str) -> None:
    # a description is part of an experiment's identity
    assert PRUNERS[name](sparsity=0.5) == PRUNERS[name](sparsity=0.5)
    assert len({PRUNERS[name](sparsity=0.5), PRUNERS[name](sparsity=0.7)}) == 2


@every_pruner
def test_a_pruner_either_trains_or_gives_its_mask_at_once(name: str, toy: nn.Module) -> None:
    pruner = PRUNERS[name]()
    if pruner.trains:
        assert isinstance(pruner.method(fine_tuned=False, eval_every=1), Method)
        with pytest.raises(TypeError, match="training"):
            pruner.mask(toy)
    else:
        assert isinstance(pruner.mask(toy), Mask)
        with pytest.raises(TypeError, match="does not train"):
            pruner.method(fine_tuned=False, eval_every=1)


# --- magnitude -----------------------------------------------------------------------------------------------------


def naive_keep(magnitudes: np.ndarray, sparsity: float) -> np.ndarray:
    keep = np.ones(magnitudes.size, dtype=bool)
    keep[np.argsort(magnitudes, kind="stable")[: round(sparsity * magnitudes.size)]] = False
    return keep


@pytest.mark.parametrize("sparsity", [0.0, 0.3, 0.95])
def test_magnitude_is_a_sort(toy: nn.Module, sparsity: float) -> None:
    flat = {name: getattr(toy, name).weight.detach().abs().flatten().numpy() for name in ("first", "second")}
    local = Magnitude(sparsity=sparsity).mask(toy)
    for name, values in flat.items():
        assert local[f"{name}.weight"].flatten().tolist() == naive_keep(values, sparsity).tolist()
    over_all = Magnitude(sparsity=sparsity, scope="global").mask(toy)
    together = torch.cat([over_all["first.weight"].flatten(), over_all["second.weight"].flatten()])
    assert together.tolist() == naive_keep(np.concatenate(list(flat.values())), sparsity).tolist()


def test_magnitude_respects_targets(toy: nn.Module) -> None:
    assert set(Magnitude(targets=Targets(("second",))).mask(toy)) == {"second.weight"}


# --- plain training, with or without a mask ------------------------------------------------------------------------


def test_plain_training_yields_the_weights(toy: nn.Module) -> None:
    method = Method()
    method.prepare(toy, 10)
    weights, mask = split_snapshot(method.snapshot())
    assert mask is None
    assert set(weights) == set(toy.state_dict())
    assert method.stop_at() == 10
    assert method.may_select(1)


def test_training_under_a_mask_keeps_it(toy: nn.Module) -> None:
    names = set(toy.state_dict())
    mask = Magnitude(sparsity=0.5).mask(toy)
    method = Method(mask)
    method.prepare(toy, 10)
    optimizer = torch.optim.AdamW(toy.parameters(), lr=0.1, weight_decay=0.0)
    before, _ = split_snapshot(method.snapshot())
    for _ in range(3):
        toy(torch.ones(4, 10)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    after, kept = split_snapshot(method.snapshot())
    assert kept == mask
    assert set(after) == names, "the weights go by their ordinary names"
    for name, keep in mask.items():
        moved = before[name] != after[name]
        assert not moved[~keep].any()
        assert moved.any()
