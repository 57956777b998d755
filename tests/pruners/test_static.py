"""Static model pruning, driven by hand: scores that are set stand in for an optimiser."""

from __future__ import annotations

import math
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from driven import drive, kept, masks, prepared, pruned, scatter, trainable
from torch import nn

from srnet.masks.parametrization import current_mask
from srnet.models.backbones import load_backbone, load_language_model
from srnet.models.heads import _restrict_to
from srnet.pruners.static import StaticLocal, StaticShared, _matrix_kind, _shared_counts
from srnet.training.method import Method, split_snapshot

both = pytest.mark.parametrize("kind", [StaticLocal, StaticShared], ids=lambda kind: kind.name)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.up = nn.Linear(10, 10), nn.Linear(10, 20)


@pytest.fixture
def stack() -> nn.Module:
    """Two layers of two kinds of matrices, 100 and 200 weights each."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(OrderedDict(layers=nn.ModuleList([Layer(), Layer()])))


# --- the beginning -------------------------------------------------------------------------------------------------


@both
def test_only_scores_learn(kind: Any, toy: nn.Module) -> None:
    before = {name: tensor.clone() for name, tensor in toy.state_dict().items()}
    method = prepared(toy, kind(0.9), eval_every=1, total=6)
    assert all(not mask.scores.any() for mask in masks(method).values())
    generator = torch.Generator().manual_seed(0)
    mask = drive(method, toy, lambda step: toy(torch.randn(4, 10, generator=generator)).square().sum(), rate=0.1)
    weights, _ = split_snapshot(method.snapshot())
    assert pruned(mask) == {"first.weight": 90, "second.weight": 18}
    assert all(torch.equal(weights[name], before[name]) for name in before)


TINY = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


@both
def test_what_was_drawn_learns_too(kind: Any, tiny_backbone: str, tmp_path: Path) -> None:
    whole = load_backbone(tiny_backbone, ("a", "b"), seed=0)
    prepared(whole.model, kind(0.9))
    heads = {name for name in trainable(whole.model) if not name.endswith(".scores")}
    assert heads == {"classifier.weight", "classifier.bias"}, "it is not masked: smp masks the layers alone"
    load_language_model(tiny_backbone).save_pretrained(tmp_path)  # such a checkpoint has no pooler
    whole.tokenizer.save_pretrained(tmp_path)
    lacking = load_backbone(str(tmp_path), ("a", "b"), seed=0)
    prepared(lacking.model, kind(0.9))
    drawn = {name for name in trainable(lacking.model) if not name.endswith(".scores")}
    assert drawn == {*heads, "bert.pooler.dense.weight", "bert.pooler.dense.bias"}


@both
@pytest.mark.parametrize("name", ["Bert", "Roberta"])
def test_a_pretrained_head_does_not(kind: Any, name: str) -> None:
    model = getattr(hf, f"{name}ForMaskedLM")(getattr(hf, f"{name}Config")(**TINY))
    _restrict_to(model, [3, 5])
    method = prepared(model, kind(0.9))
    assert trainable(model) == {name for name, _ in model.named_parameters() if name.endswith(".scores")}
    assert len(masks(method)) == 6


# --- the schedule --------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    ("step", "first", "second"),
    # ramp 0.5 of 100 steps: s = 0.9 (1 - (1 - t/50)^3)
    [
        (10, 44, 9),  # 0.9 * (1 - 0.512) = 0.4392: 43.92 and 8.784
        (20, 71, 14),  # 0.9 * (1 - 0.216) = 0.7056: 70.56 and 14.112
        (40, 89, 18),  # 0.9 * (1 - 0.008) = 0.8928: 89.28 and 17.856
        (50, 90, 18),
        (100, 90, 18),
    ],
)
def test_the_cubic_schedule_to_the_weight(kind: Any, step: int, first: int, second: int, toy: nn.Module) -> None:
    method = prepared(toy, kind(0.9, ramp=0.5))
    scatter(method)
    figures = method.after_step(step)
    assert pruned(method) == {"first.weight": first, "second.weight": second}
    assert figures["mask/sparsity"] == pytest.approx((first + second) / 120)


def test_the_highest_scores_stay(toy: nn.Module) -> None:
    method = prepared(toy, StaticLocal(0.9, ramp=0.5))
    scatter(method)
    expected = {name: mask.scores.detach().flatten().argsort()[-5:] for name, mask in masks(method).items()}
    method.after_step(50)
    keep = current_mask(method.layers)
    assert sorted(keep["second.weight"].flatten().nonzero().flatten().tolist()) == sorted(
        expected["second.weight"][-2:].tolist()
    )
    assert keep["first.weight"].flatten()[expected["first.weight"]].all()


@both
def test_between_evaluations_the_threshold_follows(kind: Any, toy: nn.Module) -> None:
    """These matrices are small, so that the sample is the whole of them and the budget exact all the same."""
    method = prepared(toy, kind(0.5, ramp=1.0), eval_every=1000, total=10)
    scatter(method)
    assert method.after_step(5) == {"mask/penalty": 350.0}
    assert kept(method) == {"first.weight": 56, "second.weight": 11}  # 0.5 * 7/8 = 0.4375: 43.75 and 8.75 go


# --- ties ----------------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("eval_every", [1, 1000], ids=["exact", "estimated"])
def test_ties_at_zero_do_not_wipe_out_rows(kind: Any, eval_every: int, toy: nn.Module) -> None:
    """No optimiser step was taken: all scores are zero. The published top-k would keep the last rows."""
    weight = toy.first.weight.detach().clone()  # type: ignore[union-attr, operator]
    method = prepared(toy, kind(0.9), eval_every=eval_every)
    method.after_step(99)
    keep = current_mask(method.layers)["first.weight"]
    if eval_every == 1:
        largest = weight.abs().flatten().argsort()[-10:]
        assert set(keep.flatten().nonzero().flatten().tolist()) == set(largest.tolist())
    else:
        assert keep.all(), "a threshold by the sample cannot tell them apart: more stay"


@both
def test_a_tie_that_was_broken_is_no_lesson(kind: Any, toy: nn.Module) -> None:
    """To get the exact mask some scores are moved by the smallest number there is: none may lose its rank for it."""
    method = prepared(toy, kind(0.9), eval_every=1)
    for step in (60, 80, 100):
        method.after_step(step)
        assert kept(method) == {"first.weight": 10, "second.weight": 2}
    assert all(mask.scores.abs().max() < 1e-40 for mask in masks(method).values())


# --- SMP-S: layers share a budget ----------------------------------------------------------------------------------


def test_kinds() -> None:
    layers = {_matrix_kind(f"bert.encoder.layer.{n}.attention.self.query.weight") for n in (0, 7, 11)}
    assert layers == {"bert.encoder.layer.*.attention.self.query.weight"}
    for one, other in (("output", "attention.output"), ("DenseReluDense.wi_0", "DenseReluDense.wi_1")):
        assert _matrix_kind(f"encoder.layer.1.{one}.weight") != _matrix_kind(f"encoder.layer.1.{other}.weight")


def in_stack(method: Method) -> dict[str, int]:
    """The kept weights of each matrix, by layer and name."""
    return {name.removeprefix("layers.").removesuffix(".weight"): count for name, count in kept(method).items()}


def set_means(method: Method, means: dict[str, float], temperature: float = 1.0) -> None:
    """Scores whose mean sigmoid(S / p) is as given; a ramp far below any effect of its own makes them differ."""
    with torch.no_grad():
        for name, mask in masks(method).items():
            mean = next(value for end, value in means.items() if end in name)
            tilt = torch.linspace(-1e-3, 1e-3, mask.scores.numel()).reshape(mask.scores.shape)
            mask.scores.copy_(temperature * math.log(mean / (1 - mean)) + tilt)


def test_shares_by_hand(stack: nn.Module) -> None:
    method = prepared(stack, StaticShared(0.7, temperature=1.0))
    set_means(method, {"0.query": 0.6, "1.query": 0.3, "0.up": 0.2, "1.up": 0.2})
    method.after_step(100)
    # v = 0.3, L = 2: shares 0.3 * 2 * 0.6 / 0.9 = 0.4 and 0.2; equal claims share equally
    assert in_stack(method) == {"0.query": 40, "1.query": 20, "0.up": 60, "1.up": 60}


def test_a_share_above_one_is_clipped_and_the_rest_goes_on(stack: nn.Module) -> None:
    """0.8 asked: shares 0.8 * 2 * 0.9 / 1.0 = 1.44 and 0.16. The published code keeps 0.58 of them and says 0.8."""
    method = prepared(stack, StaticShared(0.2, temperature=1.0))
    set_means(method, {"0.query": 0.9, "1.query": 0.1, "0.up": 0.5, "1.up": 0.5})
    method.after_step(100)
    assert in_stack(method) == {"0.query": 100, "1.query": 60, "0.up": 160, "1.up": 160}
    assert current_mask(method.layers).sparsity == pytest.approx(0.2)


def test_the_published_miss() -> None:
    scores = {
        f"layers.{n}.query.weight": torch.full((1000,), math.log(m / (1 - m))) for n, m in enumerate((0.97125, 0.02875))
    }
    totals = dict.fromkeys(scores, 1000)
    # clipped shares 1 and 0.046 are 0.523 on average, where 0.8 was asked
    counts = _shared_counts(scores, dict.fromkeys(scores, 800), totals, 1.0)
    assert counts == {"layers.0.query.weight": 1000, "layers.1.query.weight": 600}


def test_the_temperature_smooths(stack: nn.Module) -> None:
    """p = 4: scores of 4 log 4 and 0 have means 0.8 and 0.5, so 16/13 and 10/13 of half of 100: 61.5 and 38.5."""
    method = prepared(stack, StaticShared(0.5, temperature=4.0))
    set_means(method, {"0.query": 0.8, "1.query": 0.5, "up": 0.5}, temperature=4.0)
    method.after_step(100)
    assert (in_stack(method)["0.query"], in_stack(method)["1.query"]) == (62, 38)


@pytest.mark.parametrize(
    ("sparsity", "expected"), [(0.0, 4.0), (0.2, 4.0), (0.3, 4.0), (1 - 0.7, 4.0), (0.31, 1.0), (0.5, 1.0), (0.97, 1.0)]
)
def test_the_temperature_by_default(sparsity: float, expected: float) -> None:
    assert StaticShared(sparsity).smoothing() == expected
    assert StaticShared(sparsity, temperature=3.0).smoothing() == 3.0


def test_shares_are_exact_on_the_way_too(stack: nn.Module) -> None:
    method = prepared(stack, StaticShared(0.5, ramp=1.0))
    for step in range(10, 101, 10):
        scatter(method, step)
        method.after_step(step)
        wanted = 0.5 * (1 - (1 - step / 100) ** 3)
        counts = kept(method)
        for end, total in (("query.weight", 100), ("up.weight", 200)):
            assert sum(n for name, n in counts.items() if name.endswith(end)) == 2 * (total - round(wanted * total))


def test_local_shares_do_not_look_at_the_other_layers(stack: nn.Module) -> None:
    method = prepared(stack, StaticLocal(0.7))
    set_means(method, {"0.query": 0.9, "1.query": 0.1, "up": 0.5})
    method.after_step(100)
    assert set(kept(method).values()) == {30, 60}


# --- the penalty ---------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    ("step", "strength"),
    # lambda = 400 (1 - (1 - t/T)^3), T = 60 steps
    [(15, 400 * 37 / 64), (30, 350.0), (45, 400 * 63 / 64), (60, 400.0), (100, 400.0)],
)
def test_the_penalty_by_hand(kind: Any, step: int, strength: float, toy: nn.Module) -> None:
    method = prepared(toy, kind(0.9, ramp=0.6))
    with torch.no_grad():
        for name, mask in masks(method).items():
            mask.scores.fill_(math.log(3) if name == "first.weight" else 0.0)  # sigmoids 0.75 and 0.5
            mask.scores[0, 0] = math.log(9) if name == "first.weight" else 0.0  # 0.9
    penalty = method.penalty(step)  # asked of nothing but the step: a resumed run has no other memory
    assert penalty is not None
    # the mean of the two matrices' means, though one is five times as large
    assert penalty.item() == pytest.approx(strength * ((99 * 0.75 + 0.9) / 100 + 0.5) / 2, rel=1e-5)
    penalty.backward()
    first, second = (mask.scores.grad for mask in masks(method).values())
    # lambda / 2 matrices / size * s (1 - s)
    assert first[0, 0].item() == pytest.approx(strength / 2 / 100 * 0.09, rel=1e-4)
    assert first[5, 5].item() == pytest.approx(strength / 2 / 100 * 3 / 16, rel=1e-4)
    assert second.flatten().tolist() == pytest.approx([strength / 2 / 20 / 4] * 20, rel=1e-4)


@both
def test_the_published_penalty_grows_until_the_end_of_the_run(kind: Any, toy: nn.Module) -> None:
    # MNLI: 12 epochs of 392,702 rows in batches of 64, of which the last 30,000 steps hold the final sparsity
    total = math.ceil(12 * 392_702 / 64)
    ramp = (total - 30_000) / total
    ours = prepared(toy, kind(0.9, ramp=ramp), total=total)
    assert ours.strength(18_463) == pytest.approx(323, abs=0.5)
    model = nn.Sequential(nn.Linear(10, 10))
    published = prepared(model, kind(0.9, ramp=ramp, penalty_until="end"), total=total)
    assert published.strength(18_463) == pytest.approx(232, abs=0.5)
    assert published.strength(total) == 400.0
    assert published.may_select(math.ceil(ramp * total)), "the sparsity follows its own ramp"


@both
def test_the_penalty_is_scaled_and_can_be_left_out(kind: Any, toy: nn.Module) -> None:
    method = prepared(toy, kind(0.9, penalty=8.0))
    assert method.after_step(100)["mask/penalty"] == 8.0
    assert float(method.penalty(100)) == pytest.approx(4.0)  # sigmoid(0) = 1/2
    free = prepared(nn.Sequential(nn.Linear(10, 10)), kind(0.9, penalty=0.0))
    assert "mask/penalty" not in free.after_step(100)
    assert free.penalty(100) is None
