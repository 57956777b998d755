"""Budgets in time: the table from timings, and what goes for it, by hand; never more time than the budget has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from driven import drive, prepared
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from small_models import tiny
from torch import nn

from srnet.masks.granularity import STACK, Granularity, groups_of
from srnet.masks.mask import Mask
from srnet.masks.targets import LAYERS
from srnet.masks.timed import Latency
from srnet.masks.units import blocks_of
from srnet.pruners.base import OfUnits
from srnet.pruners.imp import IMP, RewoundIMP
from srnet.pruners.magnitude import GradualMagnitude, OneShot
from srnet.pruners.mask_training import MaskTraining
from srnet.pruners.movement import Movement
from srnet.pruners.static import StaticShared

BOTH: Granularity = ("head", "neuron")
TABLE = Latency(head=2.0, neuron=0.1, attention=10.0, feed_forward=2.0, rest=6.0)
TOTAL = 30.0
"""6 + 2 (10 + 2): of `bert`, which has two layers with four heads and twelve neurons each."""
HEADS = [f"bert.encoder.layer.{layer}.attention.self" for layer in (0, 1)]
NEURONS = [f"bert.encoder.layer.{layer}.intermediate" for layer in (0, 1)]


def bert() -> Any:
    return tiny("bert")


def timed(granularity: Granularity = BOTH, table: Latency = TABLE) -> Any:
    model = bert()
    return groups_of(model, LAYERS.find(model), granularity, table)


def time_of(mask: Mask, table: Latency = TABLE) -> float:
    """By the table, of a mask of heads and neurons."""
    total = table.total(blocks_of(bert()))
    for block in blocks_of(bert()):
        (output,) = block.slices("output")
        kept = output.by_unit(mask[output.name], block.size).reshape(block.size, -1).any(1)
        total -= int((~kept).sum()) * table.unit(block.kind)
    return total


# --- from timings to the table -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dense", "attention", "feed_forward", "expected"),
    [
        # all heads of both layers take 8 ms: each 1; all neurons 8 ms of 20: a third of 1; 4 ms belong to no unit
        (20.0, {0: 12.0, 1: 14.0, 2: 16.0, 3: 18.0}, {0: 12.0, 3: 14.0, 6: 16.0, 9: 18.0}, (1.0, 0.333, 4.0, 4.0, 4.0)),
        # least squares through (1, 10), (2, 13), (3, 13), (4, 16): slope 9 / 5 for both layers
        (16.0, {0: 4.0, 1: 10.0, 2: 13.0, 3: 13.0}, {0: 14.0, 6: 15.5}, (0.9, 0.0417, 6.0, 1.0, 2.0)),
        # units save no more than their part, and never less than nothing
        (20.0, {0: 12.0, 2: 4.0}, {0: 25.0, 6: 21.0}, (1.0, 0.0, 4.0, 0.0, 12.0)),
    ],
)
def test_the_table_by_hand(dense: float, attention: Any, feed_forward: Any, expected: tuple[float, ...]) -> None:
    times = {"attention": attention, "feed-forward": feed_forward}
    assert Latency.fitted(dense, times, blocks_of(bert())) == Latency(*expected)  # type: ignore[arg-type]


# --- budgets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("saved", "heads", "neurons"),
    [
        # 10 of the 18.4 ms that units take are 54 % of four heads: two of each layer, 8 ms; 2 ms more are 20 neurons
        (10.0, (2, 2), (2, 2)),
        (9.1, (2, 2), (6, 7)),
        # 56 % are two heads of each layer again, but neurons save 2.2 ms at most: a fifth head, and 0.3 ms of neurons
        (10.3, (1, 2), (10, 11)),
        (14.2, (1, 1), (1, 1)),
        (0.0, (4, 4), (12, 12)),
    ],
)
def test_about_the_same_share_of_heads_and_neurons_goes(
    saved: float, heads: tuple[int, int], neurons: tuple[int, int]
) -> None:
    groups = timed()
    counts = groups.counts({name: group.size for name, group in groups.groups.items()}, saved / TOTAL)
    assert tuple(counts[name] for name in HEADS) == heads
    assert tuple(counts[name] for name in NEURONS) == neurons


def test_globally_the_lowest_scores_go_until_enough_time_is_saved() -> None:
    """Neurons of 0.1 ms, then heads of 2 ms: 4 ms are 20 neurons and a head."""
    scores = {name: torch.full((12,), 1.0 + layer) for layer, name in enumerate(NEURONS)}
    scores[NEURONS[0]][:10], scores[NEURONS[1]][:10] = 0.1, 0.2
    scores |= {name: torch.tensor([0.5, 0.6, 0.7, 0.8]) + layer for layer, name in enumerate(HEADS)}
    keep = timed().keep(scores, 4.0 / TOTAL, "global")
    assert [int(keep[name].sum()) for name in (*NEURONS, *HEADS)] == [2, 2, 3, 4]
    assert not keep[HEADS[0]][0]


def test_a_whole_part_costs_more_than_its_units() -> None:
    groups = timed(("layer",))
    assert groups.costs[STACK].tolist() == [10.0, 2.0, 10.0, 2.0]
    keep = groups.keep({STACK: torch.tensor([3.0, 1.0, 2.0, 4.0])}, 11.0 / TOTAL, "local")
    assert keep[STACK].tolist() == [True, False, False, True]


@pytest.mark.parametrize(
    ("granularity", "largest"),
    [
        (BOTH, 1.89),
        (("head",), 1.66),
        (("neuron",), 1.07),
        (("layer",), 1.87),
    ],  # 30 / 15.8, 30 / 18, 30 / 27.8, 30 / 16
)
@pytest.mark.parametrize("scope", ["local", "global"])
def test_the_largest_speedup_is_named_and_works(granularity: Granularity, largest: float, scope: Any) -> None:
    pruner = OneShot(scope=scope, targets=LAYERS, granularity=granularity, speedup=4.0, latency=TABLE)
    with refused("speed-up of 4", f"at most {largest}, "):
        pruner.check_model(bert())
    replace(pruner, speedup=largest).check_model(bert())


@pytest.mark.parametrize("scope", ["local", "global"])
@settings(max_examples=60)
@given(
    head=st.floats(0.01, 5.0), neuron=st.floats(0.001, 5.0), rest=st.floats(0.0, 50.0), share=st.floats(0.01, 1.0),
    seed=st.integers(0, 99), granularity=st.sampled_from([BOTH, ("neuron",), ("head",)]),
)  # fmt: skip
def test_the_kept_time_fits_and_no_removed_unit_fits_in_addition(
    scope: Any, head: float, neuron: float, rest: float, share: float, seed: int, granularity: Granularity
) -> None:
    table = Latency(head, neuron, 4.5 * head, 12.5 * neuron, rest)
    groups = timed(granularity, table)
    reachable = sum(float(each.sum() - each.max()) for each in groups.costs.values())
    wanted = share * reachable / groups.total
    generator = torch.Generator().manual_seed(seed)
    scores = {name: torch.rand(group.size, generator=generator) for name, group in groups.groups.items()}
    keep = groups.keep(scores, wanted, scope)
    kept = groups.total - sum(float(groups.costs[name][~keep[name]].sum()) for name in keep)
    budget = (1.0 - wanted) * groups.total
    assert kept <= budget * (1.0 + 1e-6)
    gone = [(float(scores[n][i]), float(groups.costs[n][i])) for n in keep for i in (~keep[n]).nonzero().flatten()]
    assert kept + max(gone)[1] > budget * (1.0 - 1e-6)
    assert all(bool(each.any()) for each in keep.values()), "nothing is left of a block"


# --- pruners -------------------------------------------------------------------------------------------------------

TIME: dict[str, Any] = {"granularity": BOTH, "speedup": 1.5, "latency": TABLE}
TRAINING: list[OfUnits] = [
    MaskTraining(refresh_every=2, **TIME),
    MaskTraining(init="soft", initial_sparsity=0.1, scope="global", **TIME),
    Movement(**TIME),
    StaticShared(**TIME),
    GradualMagnitude(refresh_every=2, **TIME),
    IMP(step_sparsity=0.25, interval=0.25, **TIME),
    RewoundIMP(step_sparsity=0.25, interval=0.25, **TIME),
]


@pytest.mark.parametrize("pruner", TRAINING, ids=lambda each: each.name)
def test_every_method_ends_within_the_time(pruner: OfUnits) -> None:
    model = bert()

    def loss(step: int) -> torch.Tensor:
        ids = torch.randint(4, 40, (4, 6), generator=torch.Generator().manual_seed(step))
        return nn.functional.cross_entropy(model(input_ids=ids).logits, ids[:, 0] % 3)

    time = time_of(drive(prepared(model, pruner, fine_tuned=True, eval_every=4, total=8), model, loss))
    assert time <= 20.0 + 1e-6
    assert time > 20.0 - TABLE.head


def test_imp_prunes_in_steps_up_to_the_speedup() -> None:
    assert IMP(**TIME).levels() == (0.1, 0.2, 0.3, 1.0 - 1.0 / 1.5)
    assert IMP(**TIME).shared_run() == IMP(**TIME)
    assert IMP(granularity=BOTH, speedup=2.0).levels() == (0.1, 0.2, 0.3, 0.4, 0.5)
    with refused("imp", "3 times"):
        IMP(granularity=BOTH, speedup=3.0, interval=0.25)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"speedup": 2.0}, "granularity"),
        ({"speedup": 1.0, "granularity": BOTH}, "1"),
        ({"speedup": float("nan"), "granularity": BOTH}, "nan"),
        ({"speedup": float("inf"), "granularity": BOTH}, "inf"),
        ({"speedup": 2.0, "granularity": BOTH, "sparsity": 0.7}, "sparsity"),
        ({"latency": TABLE, "granularity": BOTH}, "latency"),
    ],
)
def test_what_does_not_go_with_a_speedup(options: dict[str, Any], named: str) -> None:
    with refused("speed", named):
        MaskTraining(**options)


def test_without_a_table_nothing_is_pruned() -> None:
    pruner = MaskTraining(granularity=BOTH, speedup=1.5)
    assert pruner.needs_latency
    for act in (lambda: pruner.check_model(bert()), lambda: prepared(bert(), pruner)):
        with refused("srnet.latency"):
            act()


def test_a_label_says_what_was_requested() -> None:
    assert MaskTraining(**TIME).aim == "1.5 times as fast by head, neuron"
