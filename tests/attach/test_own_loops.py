"""Masks on models of other people, in loops of their own."""

from __future__ import annotations

import copy
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import MODELS, UNITS, batch, logits, made, train_in_own_loop
from methods import FROZEN, METHODS, STEERED, TRAINING
from refusals import refused
from torch import nn
from torch.nn.utils import parametrize

import srnet
from srnet.masks.parametrization import is_masked
from srnet.masks.targets import Targets

STEPS = 20
GRANULARITIES = [("head", "neuron"), ("layer",)]


def pruned(model: Any, name: str, pruner: Any) -> srnet.Pruning:
    if not pruner.trains:
        return srnet.prune_once(model, pruner, [batch(name, 0).inputs])
    pruning = srnet.attach(model, pruner, steps=STEPS)
    train_in_own_loop(model, pruning, name, range(STEPS))
    return pruning


def state(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", MODELS)
def test_a_loop_of_five_lines(name: str, method: str, tmp_path: Path) -> None:
    model, before = made(name), state(made(name))
    pruning = pruned(model, name, METHODS[method])
    masked = logits(model, name)
    pruning.save(tmp_path / "mask")

    loaded = made(name)
    mask = srnet.load_mask(loaded, tmp_path / "mask")
    assert mask == pruning.mask
    assert pruning.bake() is model
    assert not is_masked(model)
    assert set(model.state_dict()) == set(before), "ordinary weights under their ordinary names"
    assert all(parameter.requires_grad for parameter in model.parameters()), "what trained before trains again"
    if method != "imp-rw":  # which gives back the weights of the start
        torch.testing.assert_close(logits(model, name), masked, rtol=0, atol=1e-6)
    assert torch.equal(logits(loaded, name), logits(model, name))
    for weight, keep in mask.items():
        assert torch.equal(model.state_dict()[weight] != 0, keep), "counted on the weights themselves"
    if method == "smp-s":  # matrices of one kind share a budget
        assert mask.kept == sum(keep.numel() - round(0.5 * keep.numel()) for keep in mask.values())
    elif method not in STEERED:
        for weight, keep in mask.items():
            assert int((~keep).sum()) == round(0.5 * keep.numel()), weight
    if method in (*FROZEN, "imp-rw", "one-shot", "wanda"):
        for weight, tensor in model.state_dict().items():
            if "running" in weight or "tracked" in weight:
                continue
            kept = mask.get(weight, ...)
            assert torch.equal(tensor[kept], before[weight][kept]), weight
        files = {path.name for path in (tmp_path / "mask").iterdir()}
        assert files == {"mask.json", "mask.bits", "weights.safetensors"}
        if name != "mlp":  # it has running means
            assert (tmp_path / "mask" / "weights.safetensors").stat().st_size < 100, "nothing trained"


@pytest.mark.parametrize("granularity", GRANULARITIES, ids=",".join)
@pytest.mark.parametrize("method", ["mask", "imp", "magnitude", "one-shot", "wanda", "smp-l", "movement"])
@pytest.mark.parametrize("name", UNITS)
def test_units_where_the_architecture_is_known(name: str, method: str, granularity: Any, tmp_path: Path) -> None:
    pruner = METHODS[method]
    if granularity == ("layer",) and getattr(type(pruner), "counts_units", False):
        with refused("layers differ"):
            replace(pruner, granularity=granularity)
        return
    model = made(name)
    pruning = pruned(model, name, replace(pruner, granularity=granularity))
    masked, mask = logits(model, name), pruning.mask
    pruning.save(tmp_path / "mask")
    pruning.bake()
    torch.testing.assert_close(logits(model, name), masked, rtol=0, atol=1e-6)
    loaded = made(name)
    assert srnet.load_mask(loaded, tmp_path / "mask") == mask == pruning.mask
    torch.testing.assert_close(logits(loaded, name), masked, rtol=0, atol=1e-6)
    assert 0.3 < mask.sparsity < 0.7


def test_units_of_an_unknown_architecture_are_refused() -> None:
    with refused("MLP"):
        srnet.attach(made("mlp"), srnet.MaskTraining(granularity=("head",)), steps=STEPS)


# --- any module ----------------------------------------------------------------------------------------------------


@st.composite
def modules(draw: Any) -> nn.Sequential:
    """A stack of linear layers of any widths, nested, with and without biases, in three precisions."""
    widths = draw(st.lists(st.integers(2, 9), min_size=2, max_size=5))
    dtype = draw(st.sampled_from([torch.float32, torch.float64, torch.bfloat16]))
    torch.manual_seed(draw(st.integers(0, 99)))
    layers: list[nn.Module] = []
    for first, second in itertools.pairwise(widths):
        layer: nn.Module = nn.Linear(first, second, bias=draw(st.booleans()))
        layers.append(nn.Sequential(layer, nn.Tanh()) if draw(st.booleans()) else layer)
    return nn.Sequential(*layers).to(dtype)


@given(
    model=modules(),
    pruner=st.sampled_from([METHODS[name] for name in METHODS if name not in STEERED]),
    sparsity=st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.9]),
    scope=st.sampled_from(["local", "global"]),
)
@settings(max_examples=60)
def test_any_small_module(model: nn.Sequential, pruner: Any, sparsity: float, scope: str) -> None:
    """The budget is met to the weight, baking changes no output, detaching restores what did not train."""
    if pruner.name.startswith("imp"):
        sparsity = max(0.1, sparsity)
    pruner = replace(pruner, sparsity=sparsity, **({"scope": scope} if hasattr(pruner, "scope") else {}))
    before, weight = state(model), next(model.parameters())
    x = torch.randn(5, weight.shape[1], generator=torch.Generator().manual_seed(1)).to(weight.dtype)
    if pruner.trains:
        pruning = srnet.attach(model, pruner, steps=12)
        optimizer = torch.optim.SGD(pruning.parameters(lr=0.05, score_lr=0.5))
        for _ in range(12):
            (model(x).float().square().mean() + pruning.penalty()).backward()
            optimizer.step()
            pruning.step()
            optimizer.zero_grad()
    else:
        pruning = srnet.prune_once(model, pruner, [x])
    mask, masked = pruning.mask, model(x).detach()
    is_global = getattr(pruner, "scope", "local") == "global"
    if pruner.name == "smp-s":
        sparsity, is_global = (
            1.0 - sum(keep.numel() - round(sparsity * keep.numel()) for keep in mask.values()) / mask.total,
            True,
        )
    parts = [list(mask.values())] if is_global else [[keep] for keep in mask.values()]
    for part in parts:
        total = sum(keep.numel() for keep in part)
        assert sum(int((~keep).sum()) for keep in part) == round(sparsity * total)
    pruning.bake()
    assert pruning.mask == mask
    if pruner.name != "imp-rw":
        assert torch.equal(model(x), masked)
    pruning.detach()
    assert all(parameter.requires_grad for parameter in model.parameters())
    if pruner.name in (*FROZEN, "imp-rw", "one-shot", "wanda"):
        found = model.state_dict()
        assert all(torch.equal(found[name], tensor) for name, tensor in before.items())


# --- the handle ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", TRAINING)
def test_a_resumed_loop_ends_bit_for_bit_the_same(method: str) -> None:
    name = "bert"
    whole = made(name)
    pruning = srnet.attach(whole, TRAINING[method], steps=STEPS)
    torch.manual_seed(5)
    train_in_own_loop(whole, pruning, name, range(STEPS))

    first = made(name)
    before = srnet.attach(first, TRAINING[method], steps=STEPS)
    torch.manual_seed(5)
    optimizer = train_in_own_loop(first, before, name, range(9))
    kept = copy.deepcopy({"p": before.state_dict(), "o": optimizer.state_dict(), "r": torch.get_rng_state()})

    model = made(name)
    after = srnet.attach(model, TRAINING[method], steps=STEPS)
    again = torch.optim.AdamW(after.parameters(lr=1e-3))
    after.load_state_dict(kept["p"])
    again.load_state_dict(kept["o"])
    torch.set_rng_state(kept["r"])
    assert after.done == 9
    train_in_own_loop(model, after, name, range(9, STEPS), again)
    assert after.mask == pruning.mask
    for key, tensor in whole.state_dict().items():
        assert torch.equal(model.state_dict()[key], tensor), key


def test_a_state_of_another_run_is_refused() -> None:
    pruning = srnet.attach(made("bert"), srnet.MaskTraining(0.5), steps=STEPS)
    other = srnet.attach(made("mlp"), srnet.MaskTraining(0.5), steps=STEPS)
    with refused("no fitting", "attach as in that run"):
        pruning.load_state_dict(other.state_dict())
    for pruner, steps in ((srnet.MaskTraining(0.6), STEPS), (srnet.MaskTraining(0.5), STEPS + 1)):
        with refused("of another pruner or number of steps"):
            pruning.load_state_dict(srnet.attach(made("bert"), pruner, steps=steps).state_dict())


def test_groups_of_parameters_by_hand() -> None:
    pruning = srnet.attach(made("bert"), srnet.Movement(0.5), steps=1000)
    weights, scores = pruning.parameters()
    assert weights["lr"] == 3e-5
    assert scores == {"params": pruning.scores(), "lr": 3e-2, "weight_decay": 0.0}  # 30 / 1000 > 1e-2
    assert pruning.parameters(lr=1.0, score_lr=2.0)[1]["lr"] == 2.0
    assert srnet.attach(made("bert"), srnet.Movement(0.5), steps=10**6).parameters()[1]["lr"] == 1e-2
    (only,) = srnet.attach(made("bert"), srnet.MaskTraining(0.5), steps=2000).parameters()
    assert only["lr"] == pytest.approx(5e-5)


def test_modules_that_train_beside_the_scores(tmp_path: Path) -> None:
    model, before = made("bert"), state(made("bert"))
    pruner = srnet.MaskTraining(0.5, targets=Targets(exclude="outside-stack"))
    pruning = srnet.attach(model, pruner, steps=STEPS, train=("classifier",))
    scores, weights = len(pruning.parameters()[1]["params"]), pruning.parameters()[0]["params"]
    assert [tuple(each.shape) for each in weights] == [(3, 16), (3,)]
    assert scores == 12
    train_in_own_loop(model, pruning, "bert", range(STEPS))
    pruning.save(tmp_path / "mask")
    changed = {name for name, tensor in pruning.detach().state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed == {"classifier.weight", "classifier.bias"}
    pruning.bake()
    loaded = made("bert")
    srnet.load_mask(loaded, tmp_path / "mask")
    assert torch.equal(loaded.state_dict()["classifier.weight"], model.state_dict()["classifier.weight"])
    with refused("no module matches"):
        srnet.attach(made("bert"), pruner, steps=STEPS, train=("clasifier",))


def test_steps_beyond_the_run_keep_the_final_sparsity() -> None:
    model = made("mlp")
    pruning = srnet.attach(model, srnet.Movement(0.5), steps=10)
    train_in_own_loop(model, pruning, "mlp", range(17))
    assert pruning.finished
    assert pruning.done == 17
    assert pruning.bake() is model
    assert pruning.sparsity == 0.5


def test_detach_after_bake_gives_the_weights_back() -> None:
    model, before = made("gpt2"), state(made("gpt2"))
    pruning = srnet.prune_once(model, srnet.OneShot(0.9))
    pruning.bake()
    assert any(not torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    pruning.detach()
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert pruning.sparsity == pytest.approx(0.9, abs=0.01)


def test_a_baked_model_that_was_trained_further_is_not_baked_again() -> None:
    model = made("mlp")
    pruning = srnet.prune_once(model, srnet.OneShot(0.5))
    pruning.bake()
    with torch.no_grad():
        model.head.weight.fill_(7.0)
    pruning.bake()
    assert bool((model.head.weight == 7.0).all())


def test_a_pruned_model_can_be_trained_under_its_mask(tmp_path: Path) -> None:
    model = made("mlp")
    pruning = srnet.prune_once(model, srnet.OneShot(0.5))
    train_in_own_loop(model, pruning, "mlp", range(5))
    pruning.save(tmp_path / "mask")
    masked = logits(model, "mlp")
    loaded = made("mlp")
    assert srnet.load_mask(loaded, tmp_path / "mask").sparsity == pytest.approx(0.5, abs=0.01)
    assert torch.equal(logits(loaded, "mlp"), masked)


def test_the_output_layer_of_a_language_model_is_not_masked() -> None:
    for name in ("gpt2", "llama", "t5"):
        mask = srnet.prune_once(made(name), srnet.OneShot(0.5)).mask
        assert not any("lm_head" in weight or "wte" in weight for weight in mask)
        assert len(mask) == {"gpt2": 8, "llama": 14, "t5": 12}[name]


def test_a_short_text_says_what_it_is() -> None:
    pruning = srnet.attach(made("mlp"), srnet.MaskTraining(0.5), steps=STEPS)
    assert repr(pruning) == "Pruning(MaskTraining, step 0 of 20, Mask(3 matrices, 708 weights, sparsity 0.5000))"
    assert parametrize.is_parametrized(pruning.model.head, "weight")
