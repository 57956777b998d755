"""IMP and its rewound variant, driven by hand: noise on the weights stands in for training."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from srnet.masks.mask import Mask
from srnet.masks.parametrization import current_mask
from srnet.pruners.imp import IMP, RewoundIMP
from srnet.training.method import split_snapshot

TENTHS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
TOTAL, INTERVAL = 20, 2
Weights = dict[str, torch.Tensor]


class Drive:
    """One run over all TOTAL steps; keeps what was emitted and what the weights were after each step."""

    def __init__(self, pruner: IMP, model: nn.Module) -> None:
        self.emitted: dict[float, tuple[Weights, Mask | None]] = {}
        self.order: list[float] = []
        self.method = pruner.shared_run().method(fine_tuned=True, eval_every=5)
        self.method.emit = self._keep
        self.method.prepare(model, TOTAL)
        self.states = [self._state()]
        generator = torch.Generator().manual_seed(1)
        for step in range(1, TOTAL + 1):  # beyond stop_at(): even then nothing more may be pruned
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
            self.states.append(self._state())
            self.method.after_step(step)

    def _keep(self, level: float, snapshot: Weights) -> None:
        self.order.append(level)
        self.emitted[level] = split_snapshot(snapshot)

    def _state(self) -> Weights:
        return {name: tensor.clone() for name, tensor in self.method.state().items()}

    def mask(self, level: float) -> Mask:
        mask = self.emitted[level][1]
        assert mask is not None
        return mask


both = pytest.mark.parametrize("kind", [IMP, RewoundIMP])


@both
def test_levels_are_the_nine_tenths(kind: type[IMP]) -> None:
    assert kind().levels() == TENTHS  # exactly, and never 1.0


@both
def test_levels_follow_the_step_and_the_interval(kind: type[IMP]) -> None:
    assert kind(step_sparsity=0.3, sparsity=0.9).levels() == (0.3, 0.6, 0.9)
    assert kind(interval=0.5, sparsity=0.2).levels() == (0.1, 0.2)  # the run is over after two


@both
def test_all_levels_share_one_run(kind: type[IMP]) -> None:
    assert {kind(sparsity=level).shared_run() for level in TENTHS} == {kind(sparsity=0.9)}
    assert IMP().shared_run() != RewoundIMP().shared_run()


@both
def test_every_level_is_handed_out_once_and_exact(kind: type[IMP], toy: nn.Module) -> None:
    drive = Drive(kind(), toy)
    assert drive.order == list(TENTHS)
    for tenths, level in enumerate(TENTHS, start=1):
        pruned = {name: int((~keep).sum()) for name, keep in drive.mask(level).items()}
        assert pruned == {"first.weight": 10 * tenths, "second.weight": 2 * tenths}


@both
@pytest.mark.parametrize("scope", ["local", "global"])
def test_what_is_pruned_stays_pruned(kind: type[IMP], scope: str, toy: nn.Module) -> None:
    drive = Drive(kind(scope=scope), toy)  # type: ignore[arg-type]
    for tenths, level in enumerate(TENTHS, start=1):
        assert drive.mask(level).total - drive.mask(level).kept == 12 * tenths
        if tenths > 1:
            before = drive.mask(TENTHS[tenths - 2])
            assert drive.mask(level).intersection(before) == drive.mask(level)


@both
def test_each_prune_takes_the_smallest_of_what_remains(kind: type[IMP], toy: nn.Module) -> None:
    drive = Drive(kind(), toy)
    remaining = set(range(100))
    for index, level in enumerate(TENTHS):
        # level n is pruned at step n * INTERVAL, looking at the weights of that moment
        magnitude = drive.states[index * INTERVAL]["first.weight"].abs().flatten()
        remaining -= set(sorted(remaining, key=lambda i: magnitude[i].item())[:10])
        assert set(drive.mask(level)["first.weight"].flatten().nonzero().flatten().tolist()) == remaining


@both
def test_the_last_step_does_not_prune_everything(kind: type[IMP], toy: nn.Module) -> None:
    # the published loop prunes once more at the end and reaches 100 %
    drive = Drive(kind(), toy)
    assert current_mask(drive.method.layers).sparsity == pytest.approx(0.9)
    assert current_mask(drive.method.layers) == drive.mask(0.9)


def test_imp_hands_out_the_weights_after_the_training_that_follows_the_prune(toy: nn.Module) -> None:
    drive = Drive(IMP(), toy)
    for index, level in enumerate(TENTHS):
        weights, _ = drive.emitted[level]
        expected = drive.states[(index + 1) * INTERVAL]
        assert set(weights) == set(expected)
        # compared when the run is over: a snapshot that aliased live parameters would have moved on with them
        assert all(torch.equal(weights[name], expected[name]) for name in expected)


def test_imp_rw_hands_out_the_original_weights_bit_for_bit(toy: nn.Module) -> None:
    # the published code keeps references to live parameters, so nothing is rewound
    original = {name: tensor.clone() for name, tensor in toy.state_dict().items()}
    drive = Drive(RewoundIMP(), toy)
    assert not torch.equal(drive.method.state()["first.weight"], original["first.weight"])
    for level in TENTHS:
        weights, _ = drive.emitted[level]
        assert set(weights) == set(original)
        assert all(torch.equal(weights[name], original[name]) for name in original)


@both
def test_snapshots_own_their_memory(kind: type[IMP], toy: nn.Module) -> None:
    drive = Drive(kind(), toy)
    live = {tensor.data_ptr() for tensor in toy.state_dict().values()}
    seen: set[int] = set()
    for weights, mask in drive.emitted.values():
        assert mask is not None
        pointers = {tensor.data_ptr() for tensor in (*weights.values(), *mask.values())}
        assert not pointers & (live | seen)
        seen |= pointers


def test_training_ends_when_nothing_more_is_needed(toy: nn.Module) -> None:
    # imp trains after its ninth prune, imp-rw is done right after it
    assert Drive(IMP(), toy).method.stop_at() == 9 * INTERVAL


def test_rewound_training_ends_with_the_last_prune(toy: nn.Module) -> None:
    assert Drive(RewoundIMP(), toy).method.stop_at() == 8 * INTERVAL


@both
def test_nothing_is_selected_by_dev_score(kind: type[IMP], toy: nn.Module) -> None:
    drive = Drive(kind(), toy)
    assert not any(drive.method.may_select(step) for step in range(1, TOTAL + 1))
