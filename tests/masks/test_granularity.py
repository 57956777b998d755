"""Units that are pruned as a whole: pooled by hand, budgets to the unit, gradients summed over a unit's weights."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest
import torch
import transformers as hf
from driven import drive, mask_in, prepared
from hypothesis import example, given, settings
from hypothesis import strategies as st
from refusals import refused
from torch import nn

import srnet
from srnet.core.errors import UserError
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.models import Pretrained
from srnet.experiment.nodes.training import FineTune, Prune
from srnet.experiment.rebuild import stored_model
from srnet.masks.granularity import STACK, Granularity, check_granularity, groups_of
from srnet.masks.mask import Mask
from srnet.masks.modules import ScoreMask
from srnet.masks.parametrization import raw_weights
from srnet.masks.shrink import cut_blocks
from srnet.masks.targets import LAYERS, Targets
from srnet.masks.units import blocks_of
from srnet.models.subnetwork import Subnetwork
from srnet.pruners.base import PRUNERS, Pruner
from srnet.pruners.imp import IMP
from srnet.pruners.magnitude import GradualMagnitude, OneShot
from srnet.pruners.mask_training import MaskTraining
from srnet.pruners.movement import Movement
from srnet.pruners.static import StaticShared
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.settings import TrainingSettings

BOTH: Granularity = ("head", "neuron")
HEAD, NEURON = 4 * 12 * 4, 2 * 12
"""Weights of one head (query, key, value and output, four rows of twelve) and of one neuron of `bert`."""


def bert(layers: int = 2, heads: int = 3, neurons: int = 20, seed: int = 0) -> Any:
    config = hf.BertConfig(
        vocab_size=30, hidden_size=4 * heads, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=neurons, max_position_embeddings=16, num_labels=2,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return hf.BertForSequenceClassification(config).eval()


def units_of(model: Any, granularity: Granularity = BOTH) -> Any:
    return groups_of(model, LAYERS.find(model), granularity)


def one_shot(sparsity: float, granularity: Granularity = BOTH, scope: Any = "local") -> OneShot:
    return OneShot(sparsity, scope, targets=LAYERS, granularity=granularity)


def scored(model: Any) -> Any:
    """The units of a model with their masks attached; every score is above its threshold."""
    groups = units_of(model)
    groups.attach({name: ScoreMask(torch.ones_like(each), 0.5) for name, each in groups.magnitudes().items()})
    return groups


def whole_units(model: Any, mask: Mask) -> bool:
    """Whether each unit has all of its weights in the mask, or none."""
    for block in blocks_of(model):
        kept = [each.by_unit(mask[each.name], block.size).reshape(block.size, -1) for each in block.weights]
        shares = torch.cat(kept, dim=1).float().mean(dim=1)
        if not bool(((shares == 0) | (shares == 1)).all()):
            return False
    return True


def test_a_unit_is_worth_the_root_mean_square_of_its_weights() -> None:
    model = bert(layers=1)
    layer = model.bert.encoder.layer[0]
    values = units_of(model).magnitudes()
    rows = slice(4, 8)  # the second head
    parts = [getattr(layer.attention.self, name).weight[rows] for name in ("query", "key", "value")]
    parts.append(layer.attention.output.dense.weight[:, rows])
    square = sum(float(part.detach().square().sum()) for part in parts) / HEAD
    assert float(values["bert.encoder.layer.0.attention.self"][1]) == pytest.approx(square**0.5, rel=1e-5)
    neuron = torch.cat([layer.intermediate.dense.weight[7], layer.output.dense.weight[:, 7]])
    expected = float(neuron.detach().square().mean().sqrt())
    assert float(values["bert.encoder.layer.0.intermediate"][7]) == pytest.approx(expected, rel=1e-5)


def test_the_gradient_of_a_unit_is_the_sum_over_its_weights() -> None:
    """dL/ds of a head = sum of W * dL/dW' over its columns of the matrix that writes the hidden states."""
    inputs = {"input_ids": torch.tensor([[1, 5, 9, 3]]), "attention_mask": torch.ones(1, 4, dtype=torch.long)}
    plain, masked = bert(layers=1), bert(layers=1)
    plain(**inputs).logits[0, 0].backward()
    groups = scored(masked)
    masked(**inputs).logits[0, 0].backward()
    output = plain.bert.encoder.layer[0].attention.output.dense.weight
    expected = float((output * output.grad).detach()[:, 4:8].sum())
    gradient = groups.masks["bert.encoder.layer.0.attention.self"].scores.grad
    assert float(gradient[1]) == pytest.approx(expected, rel=1e-4, abs=1e-7)


def test_a_pruned_unit_still_has_a_gradient_and_its_weights_count_as_zero() -> None:
    model = bert(layers=1)
    groups = scored(model)
    heads = groups.masks["bert.encoder.layer.0.attention.self"]
    with torch.no_grad():
        heads.scores[1] = 0.0
    attention = model.bert.encoder.layer[0].attention
    assert not attention.output.dense.weight[:, 4:8].any()
    assert attention.output.dense.weight[:, :4].all()
    model(input_ids=torch.tensor([[1, 2, 3]])).logits.sum().backward()
    assert float(heads.scores.grad[1]) != 0.0, "it may return"
    logits = model(input_ids=torch.tensor([[1, 2, 3]])).logits
    baked = bert(layers=1)
    baked.load_state_dict(groups.mask().apply(baked.state_dict()))
    assert torch.allclose(baked(input_ids=torch.tensor([[1, 2, 3]])).logits, logits, atol=1e-6)


def test_heads_are_rounded_and_neurons_make_up_for_it() -> None:
    """70 % of three heads are two; the encoder's 70 % then take 14 of 20 neurons, and some more."""
    groups = units_of(bert())
    counts = groups.counts({name: group.size for name, group in groups.groups.items()}, 0.7)
    heads, neurons = (counts[f"bert.encoder.layer.0.{each}"] for each in ("attention.self", "intermediate"))
    assert heads == 1
    assert neurons == 20 - round((0.7 * (3 * HEAD + 20 * NEURON) - 2 * HEAD) / NEURON)


def test_heads_are_not_rounded_to_more_than_the_budget() -> None:
    """RoBERTa, 3 layers: 13 % of 19,968 weights are 2.5 heads of 1,024. Two go, and 8.6 neurons of 64 for the rest.

    One head of every layer would be 15 %, and no neuron could give back what is too much.
    """
    config = hf.RobertaConfig(
        vocab_size=30, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=40,
        max_position_embeddings=16, num_labels=2,
    )  # fmt: skip
    model = hf.RobertaForSequenceClassification(config)
    mask = one_shot(0.13).mask(model)
    assert mask.total == 19_968
    assert mask.total - mask.kept == 2 * 1024 + 9 * 64


@settings(max_examples=60)
@example(layers=3, heads=2, neurons=2, share=0.5)  # four neurons are too few to make up for a head
@given(layers=st.integers(1, 3), heads=st.integers(1, 6), neurons=st.integers(1, 40), share=st.floats(0.0, 1.0))
def test_no_other_number_of_units_is_closer_to_the_budget(layers: int, heads: int, neurons: int, share: float) -> None:
    """But for half of the smallest unit: all pairs of numbers are tried. Blocks of one kind differ by one at most."""
    groups = units_of(bert(layers=layers, heads=heads, neurons=neurons))
    head, neuron = 4 * 4 * 4 * heads, 2 * 4 * heads
    most = layers * ((heads - 1) * head + (neurons - 1) * neuron)
    wanted = share * most
    counts = groups.counts({name: group.size for name, group in groups.groups.items()}, wanted / groups.total)
    left: dict[str, list[int]] = {}
    for name, group in groups.groups.items():
        left.setdefault(group.kind, []).append(counts[name])
    assert all(max(each) - min(each) <= 1 and min(each) >= 1 for each in left.values())
    gone = [layers * heads - sum(left["attention"]), layers * neurons - sum(left["feed-forward"])]
    missed = abs(gone[0] * head + gone[1] * neuron - wanted)
    pairs = product(range(layers * (heads - 1) + 1), range(layers * (neurons - 1) + 1))
    closest = min(abs(a * head + b * neuron - wanted) for a, b in pairs)
    assert missed <= max(closest, min(head, neuron) / 2) + 1e-6 * groups.total


def test_blocks_of_different_sizes_lose_about_the_same_share() -> None:
    """Of a model that was shrunken before: every block keeps a unit, and together they meet the budget."""
    model = bert(layers=2, heads=4, neurons=20)
    first, second = (block for block in blocks_of(model) if block.kind == "feed-forward")
    cut_blocks(model, {first.name: [0, 1]})
    groups = units_of(model, ("neuron",))
    sizes = {name: group.size for name, group in groups.groups.items()}
    assert sizes == {first.name: 2, second.name: 20}
    counts = groups.counts(sizes, 11 * 2 * 16 / groups.total)
    assert counts == {first.name: 1, second.name: 10}


@pytest.mark.parametrize("scope", ["local", "global"])
@settings(max_examples=40)
@given(
    sparsity=st.floats(0.0, 0.8), seed=st.integers(0, 9), granularity=st.sampled_from([BOTH, ("neuron",), ("head",)])
)
def test_budgets_are_met_to_the_unit(scope: Any, sparsity: float, seed: int, granularity: Granularity) -> None:
    model = bert(heads=4, neurons=40, seed=seed)
    sparsity = min(sparsity, {BOTH: 0.8, ("neuron",): 0.5, ("head",): 0.3}[granularity])
    mask = one_shot(sparsity, granularity, scope).mask(model)
    assert whole_units(model, mask)
    head, neuron = 4 * 4 * 16, 2 * 16
    missed = abs((mask.total - mask.kept) - sparsity * mask.total)
    if scope == "global":  # half of the largest unit
        assert missed <= (head if "head" in granularity else neuron) / 2
    else:  # of the smallest
        assert missed <= (neuron if "neuron" in granularity else head) / 2 + 1e-6
    for block in blocks_of(model):
        assert all(bool(mask[each.name].any()) for each in block.weights), f"nothing is left of {block.name}"


def largest_in(error: UserError) -> float:
    """The largest possible sparsity that the message names."""
    return float(str(error).split("at most ")[1].split(",")[0])


def test_neurons_make_up_for_heads_that_cannot_go() -> None:
    """A share of 0.83 rounds to both heads of a layer. One has to stay, so more of the neurons go."""
    model = bert(heads=2, neurons=40)
    mask = one_shot(0.83).mask(model)
    assert mask.sparsity == pytest.approx(0.83, abs=16 / 896)
    assert mask["bert.encoder.layer.0.attention.output.dense.weight"].any(0).sum() == 4  # one head of four rows
    with refused("0.99", "at most 0.839"):
        one_shot(0.99).mask(model)


def test_heads_make_up_for_neurons_that_cannot_go() -> None:
    """A share of 0.7 of the heads leaves more than the one of two neurons of a layer that may go."""
    model = bert(heads=6, neurons=2)
    most = 1 - (4 * 4 * 24 + 2 * 24) / (6 * 4 * 4 * 24 + 2 * 2 * 24)
    mask = one_shot(math.floor(1000 * most) / 1000).mask(model)
    assert mask.sparsity == pytest.approx(most)


@settings(max_examples=40)
@example(scope="local", heads=4, neurons=18, sparsity=0.5, granularity=("neuron",))
@given(
    scope=st.sampled_from(["local", "global"]),
    heads=st.integers(2, 6),
    neurons=st.integers(2, 40),
    sparsity=st.floats(0.01, 0.999),
    granularity=st.sampled_from([BOTH, ("head",), ("neuron",), ("layer",)]),
)
def test_what_is_suggested_is_the_largest_that_works(
    scope: Any, heads: int, neurons: int, sparsity: float, granularity: Granularity
) -> None:
    model = bert(heads=heads, neurons=neurons)
    try:
        one_shot(sparsity, granularity, scope).mask(model)
    except UserError as error:
        most = largest_in(error)
        assert most < sparsity
        found = one_shot(most, granularity, scope).mask(model)
        assert found.sparsity > most - 1e-3 if granularity != ("layer",) else found.sparsity > 0.0
        with refused(f"at most {most:g}"):
            one_shot(most + 1e-3, granularity, scope).mask(model)


def test_whole_layers_go_by_their_magnitude() -> None:
    model = bert(layers=3)
    with torch.no_grad():
        for name, weight in raw_weights(LAYERS.find(model)).items():
            if "layer.1.intermediate" in name or "layer.1.output" in name:
                weight.mul_(0.01)
    groups = units_of(model, ("layer",))
    assert groups.groups[STACK].size == 6
    mask = one_shot(20 * NEURON / groups.total, ("layer",)).mask(model)
    gone = {name for name, keep in mask.items() if not keep.any()}
    assert gone == {"bert.encoder.layer.1.intermediate.dense.weight", "bert.encoder.layer.1.output.dense.weight"}


TRAINING: list[Pruner] = [
    MaskTraining(0.5, refresh_every=2, granularity=BOTH),
    MaskTraining(0.5, init="soft", initial_sparsity=0.2, scope="global", granularity=("neuron",)),
    MaskTraining(0.5, granularity=("layer",)),
    Movement(0.5, granularity=BOTH),
    StaticShared(0.5, granularity=BOTH),
    GradualMagnitude(0.5, granularity=BOTH, refresh_every=2),
    IMP(0.5, step_sparsity=0.25, interval=0.5, granularity=BOTH),
]


@pytest.mark.parametrize("pruner", TRAINING, ids=lambda each: f"{each.name}-{'+'.join(each.granularity)}")
def test_every_method_finds_whole_units_at_its_sparsity(pruner: Pruner) -> None:
    model = bert(heads=4, neurons=40)

    def loss(step: int) -> torch.Tensor:
        ids = torch.randint(1, 30, (4, 6), generator=torch.Generator().manual_seed(step))
        return nn.functional.cross_entropy(model(input_ids=ids).logits, ids[:, 0] % 2)

    mask = drive(prepared(model, pruner, fine_tuned=True, eval_every=4, total=8), model, loss)
    assert whole_units(bert(heads=4, neurons=40), mask)
    assert mask.sparsity == pytest.approx(pruner.sparsity, abs=0.1 if "layer" in pruner.granularity else 0.02)  # type: ignore[attr-defined]


def test_scores_of_units_are_in_the_model_once() -> None:
    """They are shared by all matrices of a block, and trained, saved and counted once."""
    model = bert(layers=1)
    prepared(model, MaskTraining(0.5, granularity=BOTH))
    scores = {name: p for name, p in model.named_parameters() if name.endswith(".scores")}
    assert sorted(p.numel() for p in scores.values()) == [3, 20]


@pytest.mark.parametrize("granularity", [(), ("head", "head"), ("head", "layer"), ("weight", "neuron"), ("column",)])
def test_impossible_granularities_are_refused(granularity: Any) -> None:
    with refused("granularity"):
        check_granularity(granularity)


def test_the_order_of_units_does_not_matter() -> None:
    assert OneShot(0.5, granularity=("neuron", "head")) == OneShot(0.5, granularity=("head", "neuron"))


def test_layers_are_refused_for_any_scores_that_a_training_may_find() -> None:
    """An attention part has 64 weights and a feed-forward part 160: the best one may be of either kind."""
    model = bert(layers=2, heads=1, neurons=20)
    total, largest = 2 * (64 + 160), 160
    most = math.floor(1000 * (total - largest) / total) / 1000
    with refused("sparsity 0.8", f"at most {most:g}"):
        MaskTraining(0.8, targets=LAYERS, granularity=("layer",)).check_model(model)
    units, cost = units_of(model, ("layer",)), torch.tensor([64.0, 160.0, 64.0, 160.0])
    for best in range(4):
        keep = units.keep({STACK: torch.eye(4)[best]}, most, "global")[STACK]
        assert keep[best]
        assert float(cost[~keep].sum()) == pytest.approx(most * total, abs=80)


def test_blocks_of_one_unit_lose_nothing() -> None:
    model = bert(heads=1, neurons=20)
    with refused("sparsity 0.3", "other units"):
        one_shot(0.3, ("head",)).mask(model)
    one_shot(0.3).check_model(model)
    shared = StaticShared(0.3, targets=LAYERS, granularity=BOTH)
    shared.check_model(model)
    method = prepared(model, shared, eval_every=2, total=4)
    for step in range(1, 5):
        method.after_step(step)
    assert method.current_mask().sparsity == pytest.approx(0.3, abs=0.03)


def test_imp_ends_at_the_units_that_are_requested() -> None:
    """Its usual run goes on to 90 %, where no head would be left."""
    pruner, found = IMP(0.25, granularity=("neuron",), targets=LAYERS), dict[float, Any]()
    assert pruner.levels() == (0.1, 0.2, 0.25)
    assert pruner.shared_run() == pruner
    method = prepared(bert(heads=4, neurons=40), pruner, total=10)
    method.emit = found.__setitem__
    for step in range(1, method.stop_at() + 1):
        method.after_step(step)
    sparsities = [mask_in(each).sparsity for each in found.values()]
    assert sparsities == pytest.approx([0.1, 0.2, 0.25], abs=0.01)  # to a neuron
    with refused("imp", "0.9"):
        IMP(0.9, granularity=("neuron",), interval=0.2)
    assert IMP(0.95, step_sparsity=0.3, granularity=("neuron",)).levels() == (0.3, 0.6, 0.9, 0.95)
    with refused("6 steps", "imp", "10"):
        pruner.check_steps(6)


def test_methods_that_count_refuse_layers_and_penalties_have_no_granularity() -> None:
    with refused("movement", "layers"):
        Movement(0.5, granularity=("layer",))
    assert not {"l0", "soft-movement"} & {n for n, p in PRUNERS.items() if "granularity" in p.__dataclass_fields__}


def test_units_need_all_of_their_matrices() -> None:
    model = bert()
    with refused("bert.encoder.layer.0.attention.self"):
        OneShot(0.2, targets=Targets(modules=("query", "key")), granularity=("head",)).mask(model)
    only = Targets(modules=r".*(intermediate|layer\.\d\.output)\.dense")
    mask = OneShot(0.5, targets=only, granularity=("neuron",)).mask(model)
    assert len(mask) == 4
    assert mask.sparsity == 0.5


SMALL = SyntheticTask("inference", train_size=40, dev_size=8, ood_size=8)


def test_a_budget_that_leaves_no_head_is_refused_before_anything_trains(tiny_backbone: str, engine: Engine) -> None:
    full = FineTune(Pretrained(tiny_backbone, SMALL, 0), training=TrainingSettings(steps=2, eval_every=2))
    with refused("0.99"):
        engine.execute([Prune(full, MaskTraining(0.99, granularity=("head",)), training=full.training)])
    assert not list(engine.store.root.glob("artifacts/*"))


def test_a_sparsity_that_units_miss_is_remarked_on(tiny_backbone: str, engine: Engine) -> None:
    """Of two layers with two heads each nothing can be as little as 1 %."""
    found = srnet.prune(Pretrained(tiny_backbone, SMALL, 0), OneShot(0.01, granularity=("head",)), engine=engine)
    assert found.remarks == ("whole units reach 0.00 % sparsity; 1 % by head was requested",)


def test_a_search_for_units_is_stored_trained_on_and_built_again(tiny_backbone: str, engine: Engine) -> None:
    steps = TrainingSettings(learning_rate=1e-2, steps=4, eval_every=2, batch_size=8)
    found = Prune(Pretrained(tiny_backbone, SMALL, 0), MaskTraining(0.5, granularity=BOTH), training=steps)
    trained = FineTune(found, training=steps)
    engine.execute([trained])
    mask, after = (Subnetwork.load(engine.store.path(each.key)).mask for each in (found, trained))
    assert mask is not None
    assert mask.sparsity == pytest.approx(0.5, abs=0.05)
    assert after == mask
    again = stored_model(engine.store, found.key)
    assert again == found
    assert "head, neuron" in again.label
