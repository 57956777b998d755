"""What holds for every pruner, and the one that needs no training."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from driven import TOTAL, drive, prepared, pruned, scatter, trainable
from methods import FROZEN, METHODS, STEERED, TRAINING
from refusals import refused
from torch import nn

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
    with refused("no-such", *PRUNERS):
        get_pruner("no-such")


NO_SHARE = (-0.1, 1.5, math.nan)
BAD_VALUES: dict[tuple[str, str], tuple[Any, ...]] = {  # (pruner, field): values; each message names the field
    ("imp", "step_sparsity"): (0.0, *NO_SHARE),
    ("imp-rw", "interval"): (0.0, *NO_SHARE),
    ("imp", "sparsity"): (0.0, 0.55, 0.95),
    ("mask", "init"): ("medium",),
    ("mask", "cut"): ("top",),
    ("mask", "frozen"): ("fp16",),
    ("mask", "alpha"): (0.5, math.nan),
    ("mask", "phi"): (0.0, -1.0, math.nan),
    ("mask", "refresh_every"): (0,),
    ("mask", "initial_sparsity"): (0.9, -0.1),
    ("mask", "ramp"): (0.0, *NO_SHARE),
    ("magnitude", "refresh_every"): (0,),
    ("magnitude", "begin"): (-0.1, 0.8),
    ("movement", "begin"): (-0.1, 0.8),
    ("movement", "ramp"): (0.0, *NO_SHARE),
    ("l0", "penalty"): (-1.0, math.inf, math.nan),
    ("l0", "open_at_first"): (0.0, 1.0, -0.5, 2.0),
    ("soft-movement", "penalty"): (-1.0, math.inf, math.nan),
    ("soft-movement", "threshold"): (0.0, -0.1, 0.5, 1.0, math.nan),
    ("soft-movement", "floor"): (-0.1, 1.0, math.nan),
    ("smp-l", "penalty"): (-1.0, math.nan, math.inf),
    ("smp-l", "penalty_until"): ("never",),
    ("smp-l", "ramp"): (0.0, 1.5),
    ("smp-s", "temperature"): (-1.0, 0.0, math.nan, math.inf),
    ("wanda", "calibration"): (0,),
} | {(name, "sparsity"): (1.0, -0.1) for name in PRUNERS if not name.startswith("imp")}


@pytest.mark.parametrize(("name", "field"), BAD_VALUES)
def test_bad_values_are_refused(name: str, field: str) -> None:
    for value in BAD_VALUES[name, field]:
        with refused("initial" if field == "initial_sparsity" else field):
            PRUNERS[name](**{field: value})


@pytest.mark.parametrize("name", [name for name, pruner in METHODS.items() if hasattr(pruner, "scope")])
def test_an_unknown_scope_is_refused(name: str) -> None:
    with refused("scope", "everywhere"):
        PRUNERS[name](scope="everywhere")  # type: ignore[call-arg]


@every_pruner
def test_a_description_is_a_value(name: str) -> None:
    """It is part of an experiment's identity, and a stored one is rebuilt field by field."""
    pruner = METHODS[name]
    again = type(pruner)(**{field.name: getattr(pruner, field.name) for field in dataclasses.fields(pruner)})
    assert again == pruner
    assert hash(again) == hash(pruner)
    assert len({PRUNERS[name](sparsity=0.5), PRUNERS[name](sparsity=0.7)}) == 2
    assert (pruner.__doc__ or "").partition("\n")[0].endswith(".")


RAMPED = sorted(name for name in TRAINING if hasattr(TRAINING[name], "ramp") and name != "mask")


@pytest.mark.parametrize("name", RAMPED)
@pytest.mark.parametrize("ramp", [0.3, 0.6, 1.0])
def test_only_the_target_may_be_selected(name: str, ramp: float, toy: nn.Module) -> None:
    method = prepared(toy, PRUNERS[name](0.9, ramp=ramp))  # type: ignore[call-arg]
    assert [step for step in range(1, TOTAL + 1) if method.may_select(step)] == list(range(round(100 * ramp), 101))


@pytest.mark.parametrize("name", TRAINING)
def test_what_trains(name: str, toy: nn.Module) -> None:
    """Only scores where weights are frozen, otherwise everything. At first only a magnitude mask prunes."""
    method = prepared(toy, METHODS[name])
    scores = {f"{layer}.parametrizations.weight.0.scores" for layer in ("first", "second")}
    everything = {parameter for parameter, _ in toy.named_parameters()}
    assert (scores <= everything) is METHODS[name].has_scores
    assert trainable(toy) == (scores if name in FROZEN else everything)
    assert method.penalty(0) is None
    assert name == "mask" or name.startswith("imp") or pruned(method) == {"first.weight": 0, "second.weight": 0}


@pytest.mark.parametrize("name", sorted(TRAINING.keys() - {"imp-rw"}))  # imp-rw gives back the weights of the start
def test_the_snapshot_of_every_method_is_the_model_that_is_evaluated(name: str, toy: nn.Module) -> None:
    method = prepared(toy, METHODS[name], fine_tuned=True, eval_every=5, total=10)
    generator = torch.Generator().manual_seed(0)
    drive(method, toy.train(), lambda step: toy(torch.randn(4, 10, generator=generator)).square().sum(), rate=0.3)
    if name in STEERED:  # so few steps prune nothing
        scatter(method, scale=4.0)
    toy.eval()
    evaluated = {layer: getattr(toy, layer).weight for layer in ("first", "second")}
    toy.train()  # a snapshot may be taken in either mode
    weights, mask = split_snapshot(method.snapshot())
    assert mask is not None
    assert 0 < mask.kept < mask.total
    assert set(weights) == {f"{layer}.{part}" for layer in ("first", "norm", "second") for part in ("weight", "bias")}
    masked = mask.apply(weights)
    for layer, weight in evaluated.items():
        assert torch.equal(masked[f"{layer}.weight"], weight), layer
    assert name in STEERED or mask.sparsity == 0.5


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
    method.prepare(toy, 3)
    before, _ = split_snapshot(method.snapshot())
    drive(method, toy, lambda step: toy(torch.ones(4, 10)).square().sum(), rate=0.1)
    after, kept = split_snapshot(method.snapshot())
    assert kept == mask
    assert set(after) == names, "the weights go by their ordinary names"
    for name, keep in mask.items():
        moved = before[name] != after[name]
        assert not moved[~keep].any()
        assert moved.any()
