"""Mask training, driven by hand: noise on the scores stands in for an optimiser."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from driven import TOTAL, mask_in, masks, prepared, pruned
from torch import nn

from srnet.masks.modules import ScoreMask
from srnet.masks.parametrization import current_mask
from srnet.pruners.magnitude import OneShot
from srnet.pruners.mask_training import MaskTraining
from srnet.training.method import Method, split_snapshot

HALF = {"first.weight": 50, "second.weight": 10}
NINE_TENTHS = {"first.weight": 90, "second.weight": 18}
GRADUAL: dict[str, Any] = {"sparsity": 0.9, "initial_sparsity": 0.7, "init": "soft"}


def push(method: Method, step: int) -> None:
    """Move every score, mostly upwards, so that ever more weights pass the threshold: drift."""
    generator = torch.Generator().manual_seed(step)
    with torch.no_grad():
        for mask in masks(method).values():
            mask.scores.add_(0.01 * torch.rand(mask.scores.shape, generator=generator))


@pytest.mark.parametrize("init", ["hard", "soft"])
@pytest.mark.parametrize("scope", ["local", "global"])
def test_it_starts_from_the_magnitude_mask(toy: nn.Module, init: Any, scope: Any) -> None:
    expected = OneShot(sparsity=0.7, scope=scope).mask(toy)
    assert current_mask(prepared(toy, MaskTraining(sparsity=0.7, init=init, scope=scope)).layers) == expected


@pytest.mark.parametrize("init", ["hard", "soft"])
def test_only_scores_train(toy: nn.Module, init: Any) -> None:
    original = {name: tensor.clone() for name, tensor in toy.state_dict().items()}
    method = prepared(toy, MaskTraining(sparsity=0.5, init=init))
    start = current_mask(method.layers)
    optimizer = torch.optim.AdamW([p for p in toy.parameters() if p.requires_grad], lr=0.1, weight_decay=0.0)
    for step in (1, 2, 3):
        toy(torch.ones(4, 10)).square().sum().backward()
        optimizer.step()
        method.after_step(step)
    weights, _ = split_snapshot(method.snapshot())
    assert current_mask(method.layers) != start
    assert all(torch.equal(weights[name], original[name]) for name in original)  # bit for bit, the classifier included


def test_the_sparsity_is_exact_at_every_refresh_and_drifts_only_in_between(toy: nn.Module) -> None:
    method = prepared(toy, MaskTraining(sparsity=0.5, refresh_every=4), eval_every=25)
    drifted = set()
    for step in range(1, TOTAL + 1):
        push(method, step)
        drifted |= {step} if pruned(method) != HALF else set()
        log = method.after_step(step)
        if step % 4 == 0 or step % 25 == 0:  # before an evaluation it is adjusted too
            assert pruned(method) == HALF
            assert log["mask/sparsity"] == pytest.approx(0.5)
        else:
            assert log == {}
    assert drifted, "the noise was meant to make it drift"


def test_the_drift_is_reported(toy: nn.Module) -> None:
    method = prepared(toy, MaskTraining(sparsity=0.5, refresh_every=1))
    with torch.no_grad():
        for mask in masks(method).values():
            mask.scores.fill_(1.0)
    # everything is kept now, 50 points of sparsity away from the target, until the threshold is adjusted
    assert method.after_step(1)["mask/drift"] == pytest.approx(-0.5)
    assert pruned(method) == HALF


def test_the_last_step_is_exact_whatever_the_intervals(toy: nn.Module) -> None:
    method = prepared(toy, MaskTraining(sparsity=0.5, refresh_every=999), eval_every=999)
    push(method, TOTAL)
    method.after_step(TOTAL)
    assert pruned(method) == HALF


# --- which checkpoints count ---------------------------------------------------------------------------------------


def first_eligible(method: Method) -> int:
    eligible = [step for step in range(1, TOTAL + 1) if method.may_select(step)]
    assert eligible == list(range(eligible[0], TOTAL + 1)), "once eligible, always eligible"
    return eligible[0]


@pytest.mark.parametrize(
    ("fine_tuned", "gradual", "ramp", "expected"),
    [
        (False, False, 0.7, 1),  # a raw model: every checkpoint counts
        (True, False, 0.7, 70),  # B.3.3: on a fine-tuned one only those after 0.7 t_max
        (False, True, 0.5, 50),  # gradual: not before the final sparsity is reached
        (True, True, 0.5, 70),
        (True, True, 0.9, 90),
    ],
)
def test_eligible_checkpoints(toy: nn.Module, fine_tuned: bool, gradual: bool, ramp: float, expected: int) -> None:
    pruner = MaskTraining(sparsity=0.9, initial_sparsity=0.7 if gradual else None, init="soft", ramp=ramp)
    assert first_eligible(prepared(toy, pruner, fine_tuned=fine_tuned)) == expected


def test_a_gradual_run_saves_the_final_sparsity(toy: nn.Module) -> None:
    # the published code saves the initial one: 0.7 -> 0.9 leaves a mask of 69.95 %
    method = prepared(toy, MaskTraining(**GRADUAL), eval_every=5)
    assert pruned(method) == {"first.weight": 70, "second.weight": 14}
    saved = []
    for step in range(1, TOTAL + 1):
        push(method, step)
        method.after_step(step)
        if step % 5 == 0 and method.may_select(step):
            saved.append(pruned(mask_in(method.snapshot())))
    assert saved == [NINE_TENTHS] * 7  # steps 70, 75, ... 100


def test_a_gradual_run_follows_the_cubic(toy: nn.Module) -> None:
    pruner = MaskTraining(sparsity=0.9, initial_sparsity=0.5, init="soft", ramp=1.0, refresh_every=50)
    method = prepared(toy, pruner)
    method.after_step(50)
    # 0.9 - 0.4 * 0.5^3 = 0.85
    assert pruned(method) == {"first.weight": 85, "second.weight": 17}


def test_a_ramp_to_the_end_of_the_run_leaves_one_checkpoint_at_the_final_sparsity(toy: nn.Module) -> None:
    # as published: final_sparsity_epoch = num_epochs
    method = prepared(toy, MaskTraining(**GRADUAL, ramp=1.0), fine_tuned=True, eval_every=7)
    assert first_eligible(method) == TOTAL
    for step in range(1, TOTAL + 1):
        push(method, step)
        method.after_step(step)
    assert pruned(method) == NINE_TENTHS


# --- the published threshold ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("init", ["hard", "soft"])
def test_the_published_threshold_gives_the_masks_of_the_published_code(toy: nn.Module, init: Any) -> None:
    """A transcript of what it does: score > threshold, the threshold being the k-th value of the last update."""
    method = prepared(toy, MaskTraining(sparsity=0.5, init=init, cut="kth", refresh_every=10), eval_every=10)
    layers = masks(method)

    def kth() -> dict[str, float]:
        scores = {name: mask.scores.detach().flatten() for name, mask in layers.items()}
        return {name: each.kthvalue(int(0.5 * each.numel())).values.item() for name, each in scores.items()}

    thresholds, drifts = dict.fromkeys(layers, 0.01) if init == "hard" else kth(), []
    for step in range(1, TOTAL + 1):
        expected = {name: mask.scores.detach() > thresholds[name] for name, mask in layers.items()}
        assert all(torch.equal(keep, expected[name]) for name, keep in current_mask(method.layers).items()), step
        push(method, step)
        drift = method.after_step(step).get("mask/drift")
        if step % 10 == 0:
            thresholds = kth()
            drifts.append(drift)
            assert pruned(method) == HALF
    assert all(drift is not None and drift < -0.01 for drift in drifts[1:]), "the sparsity drifts in between"


@pytest.mark.parametrize(("init", "scale"), [("hard", 0.01), ("soft", 0.5)])
def test_the_published_threshold_of_a_global_budget_is_one_for_all(toy: nn.Module, init: Any, scale: float) -> None:
    """A transcript: score > threshold in every matrix, the threshold being the k-th value of all scores together.

    Of the second matrix nothing stays at first if its weights are a hundredth; what rises above the threshold returns.
    """
    with torch.no_grad():
        toy.second.weight.mul_(scale)  # type: ignore[operator, union-attr]
    pruner = MaskTraining(sparsity=0.5, init=init, cut="kth", scope="global", refresh_every=10)
    method = prepared(toy, pruner, eval_every=10)
    layers = masks(method)

    def kth() -> float:
        return torch.cat([mask.scores.detach().flatten() for mask in layers.values()]).kthvalue(60).values.item()

    threshold = 0.01 if init == "hard" else kth()
    assert (pruned(method)["second.weight"] == 20) == (scale == 0.01)
    for step in range(1, TOTAL + 1):
        push(method, step)
        expected = {name: mask.scores.detach() > threshold for name, mask in layers.items()}
        assert all(torch.equal(keep, expected[name]) for name, keep in current_mask(method.layers).items()), step
        method.after_step(step)
        if step % 10 == 0:
            threshold = kth()
            assert sum(pruned(method).values()) == 60


def test_one_threshold_by_hand() -> None:
    """Of seven scores four are pruned, so that the threshold is above 3: also where all or none are kept."""
    scores = {"a": [1.0, 2.0], "b": [5.0, 6.0], "c": [3.0, 3.0, 0.5]}
    keep = {"a": [False, False], "b": [True, True], "c": [False, True, False]}
    above = float(torch.nextafter(torch.tensor(3.0), torch.tensor(9.0)))
    made = {name: ScoreMask(torch.tensor(each), 0.0) for name, each in scores.items()}
    ScoreMask.set_shared_cut(made, {name: torch.tensor(each) for name, each in keep.items()})
    assert {name: float(mask.phi) for name, mask in made.items()} == dict.fromkeys("abc", above)
    assert made["c"].scores.tolist() == [3.0, above, 0.5], "of tied scores the kept one is raised"
    # a block keeps its best unit, 2, though others are pruned that have higher scores
    ScoreMask.set_shared_cut(made, {name: torch.tensor(each) for name, each in (keep | {"a": [False, True]}).items()})
    assert 1.0 < float(made["a"].phi) <= 2.0
    assert float(made["b"].phi) == float(made["c"].phi) == above


def test_the_middle_flips_later_than_the_published_threshold(toy: nn.Module) -> None:
    left = {}
    for cut in ("middle", "kth"):
        model = nn.Sequential(nn.Linear(4, 1, bias=False))
        model[0].weight.data.copy_(torch.tensor([[0.1, 0.2, 0.4, 0.5]]))
        method = prepared(model, MaskTraining(sparsity=0.5, init="soft", cut=cut))  # type: ignore[arg-type]
        with torch.no_grad():
            masks(method)["0.weight"].scores.add_(0.05)
        left[cut] = current_mask(method.layers).kept
    assert left == {"middle": 2, "kth": 3}, "0.25 is below 0.3, halfway, and above 0.2, the k-th value"


def test_snapshots_do_not_follow_the_scores(toy: nn.Module) -> None:
    method = prepared(toy, MaskTraining(sparsity=0.5))
    before = mask_in(method.snapshot())
    with torch.no_grad():
        for mask in masks(method).values():
            mask.scores.neg_()
    method.after_step(TOTAL)
    assert before == OneShot(sparsity=0.5).mask(toy)
    assert before != mask_in(method.snapshot())


def test_hard_initialisation_leaves_room_on_both_sides_of_phi(toy: nn.Module) -> None:
    # Eq. 1 puts kept scores at 2 phi: a step of a hundredth of phi must not flip anything
    method = prepared(toy, MaskTraining(sparsity=0.5, init="hard"))
    with torch.no_grad():
        for mask in masks(method).values():
            assert mask.phi.item() == pytest.approx(0.01)
            mask.scores.sub_(1e-4)
    assert current_mask(method.layers).sparsity == 0.5
