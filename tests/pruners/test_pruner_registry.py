"""What holds for every pruner, and the one that needs no training."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from methods import METHODS, STEERED, TRAINING
from torch import nn

from srnet.core.errors import UserError
from srnet.masks.mask import Mask
from srnet.masks.targets import Targets
from srnet.pruners.base import PRUNERS, get_pruner
from srnet.pruners.magnitude import OneShot
from srnet.training.method import Method, split_snapshot

every_pruner = pytest.mark.parametrize("name", sorted(PRUNERS))


def test_registry() -> None:
    assert set(PRUNERS) == set(METHODS), "a new pruner needs its line in tests/methods.py"
    assert all(get_pruner(name).name == name for name in PRUNERS)


def test_an_unknown_pruner_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"unknown pruner 'no-such'.*imp, imp-rw, l0, magnitude, mask, movement"):
        get_pruner("no-such")


@every_pruner
@pytest.mark.parametrize("sparsity", [1.0, -0.1])
def test_impossible_sparsities_are_refused(name: str, sparsity: float) -> None:
    with pytest.raises(UserError, match="out of range"):
        PRUNERS[name](sparsity=sparsity)


@every_pruner
def test_equal_descriptions_are_equal(name: str) -> None:
    # a description is part of an experiment's identity
    assert PRUNERS[name](sparsity=0.5) == PRUNERS[name](sparsity=0.5)
    assert len({PRUNERS[name](sparsity=0.5), PRUNERS[name](sparsity=0.7)}) == 2


@every_pruner
def test_every_pruner_says_what_it_does(name: str) -> None:
    assert (PRUNERS[name].__doc__ or "").partition("\n")[0].endswith(".")


@every_pruner
def test_a_description_survives_its_own_values(name: str) -> None:
    """Whatever a pruner says can be said again, field by field: that is how a stored one is rebuilt."""
    pruner = METHODS[name]
    again = type(pruner)(**{field.name: getattr(pruner, field.name) for field in dataclasses.fields(pruner)})
    assert again == pruner
    assert hash(again) == hash(pruner)


@pytest.mark.parametrize("name", TRAINING)
def test_the_snapshot_of_every_method_is_the_model_that_is_evaluated(name: str, toy: nn.Module) -> None:
    method = METHODS[name].method(fine_tuned=True, eval_every=5)
    method.prepare(toy, 10)
    optimizer = torch.optim.AdamW([p for p in toy.parameters() if p.requires_grad], lr=0.3, weight_decay=0.0)
    generator = torch.Generator().manual_seed(0)
    toy.train()
    for step in range(1, 11):
        optimizer.zero_grad()
        loss = toy(torch.randn(4, 10, generator=generator)).square().sum()
        penalty = method.penalty(step - 1)
        (loss if penalty is None else loss + penalty).backward()
        optimizer.step()
        method.after_step(step)
    toy.eval()
    weights, mask = split_snapshot(method.snapshot())
    assert mask is not None
    assert set(weights) == {f"{layer}.{part}" for layer in ("first", "norm", "second") for part in ("weight", "bias")}
    masked = mask.apply(weights)
    for layer in ("first", "second"):
        assert torch.equal(masked[f"{layer}.weight"], getattr(toy, layer).weight), layer
    assert name in STEERED or name.startswith("imp") or mask.sparsity == 0.5


@every_pruner
def test_a_pruner_either_trains_or_gives_its_mask_at_once(name: str, toy: nn.Module) -> None:
    pruner = PRUNERS[name]()
    if pruner.trains:
        assert isinstance(pruner.method(fine_tuned=False, eval_every=1), Method)
        with pytest.raises(TypeError, match="training"):
            pruner.mask(toy)
    else:
        assert isinstance(pruner.mask(toy, [{"input": torch.ones(4, 10)}]), Mask)
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
    local = OneShot(sparsity=sparsity).mask(toy)
    for name, values in flat.items():
        assert local[f"{name}.weight"].flatten().tolist() == naive_keep(values, sparsity).tolist()
    over_all = OneShot(sparsity=sparsity, scope="global").mask(toy)
    together = torch.cat([over_all["first.weight"].flatten(), over_all["second.weight"].flatten()])
    assert together.tolist() == naive_keep(np.concatenate(list(flat.values())), sparsity).tolist()


def test_magnitude_respects_targets(toy: nn.Module) -> None:
    assert set(OneShot(targets=Targets(("second",))).mask(toy)) == {"second.weight"}


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
    mask = OneShot(sparsity=0.5).mask(toy)
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
