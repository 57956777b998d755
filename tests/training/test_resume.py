"""A run that is interrupted, wherever, ends exactly as if nothing had happened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from driven import Attempts, Interrupted, same
from methods import STEERED, TRAINING
from safetensors.torch import save_file

from srnet.objectives.balanced import Balanced
from srnet.pruners.mask_training import MaskTraining
from srnet.pruners.soft_movement import SoftMovement
from srnet.training.method import Method, split_snapshot
from srnet.training.settings import TrainingSettings
from srnet.training.trainer import Result
from srnet.training.updates import update_method

MakeMethod = Callable[[], Method]
METHODS: dict[str, MakeMethod] = {
    "fine-tuning": Method,
    "head only": lambda: update_method("head", None),
    "LoRA": lambda: update_method("lora", None),
    "gradual": lambda: MaskTraining(0.8, init="soft", initial_sparsity=0.2).method(fine_tuned=False, eval_every=5),
    "fixed penalty": lambda: SoftMovement(0.8, penalty=50.0).method(fine_tuned=False, eval_every=5),
    **{name: partial(pruner.shared_run().method, fine_tuned=True, eval_every=5) for name, pruner in TRAINING.items()},
}

FAST = TrainingSettings(learning_rate=1e-2, steps=20, eval_every=5, batch_size=8)
"""Fast enough for masks to move."""
FASTER = replace(FAST, score_rate=0.5)
"""For scores that have a long way to go before they prune anything."""
STEERED_BY = {"fixed penalty", *STEERED}


def attempts(make_run: Any, name: str, folder: Path) -> Attempts:
    return Attempts(make_run, folder, METHODS[name], settings=FASTER if name in STEERED_BY else FAST)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Any, str], tuple[Attempts, Result]]:
    """Each method's run from beginning to end, made once."""
    done: dict[str, tuple[Attempts, Result]] = {}

    def run(make_run: Any, name: str) -> tuple[Attempts, Result]:
        if name not in done:
            made = attempts(make_run, name, tmp_path_factory.mktemp("whole"))
            done[name] = made, made()
        return done[name]

    return run


@pytest.mark.parametrize("name", METHODS)
def test_interrupted_runs_end_bit_identical(name: str, make_run: Any, undisturbed: Any, tmp_path: Path) -> None:
    whole, expected = undisturbed(make_run, name)
    torch.manual_seed(12345)  # whatever happened in between must not matter
    broken = attempts(make_run, name, tmp_path / "broken")
    # before the first checkpoint, between two, at one before it is written, and later; the methods differ in what a
    # checkpoint holds, not in when it is written
    stops = (3, 9, 10, 13) if name == "mask" else (9, 13)
    for stop in stops:
        with pytest.raises(Interrupted):
            broken(stop)
    result = broken()
    assert (result.step, result.dev_score) == (expected.step, expected.dev_score)
    assert same(result.snapshot, expected.snapshot)
    _, mask = split_snapshot(result.snapshot)
    assert mask is None or 0.0 < mask.sparsity < 1.0, "a mask that never moved would be alike in any case"
    assert whole.levels.keys() == broken.levels.keys()
    assert all(same(whole.levels[level], broken.levels[level]) for level in whole.levels)
    # it did continue: 1-3, 1-9, 6-10, 6-13, 11-end
    begins = {3: 1, 9: 1, 10: 6, 13: 6, whole.steps[-1]: 11}
    assert broken.steps == [step for end in (*stops, whole.steps[-1]) for step in range(begins[end], end + 1)]


def test_a_loss_with_weights_ends_the_same(make_run: Any, tmp_path: Path) -> None:
    def attempts(folder: Path) -> Attempts:
        loss, data = Balanced(), make_run(Method(), folder).train
        bias = torch.rand((len(data), 2), generator=torch.Generator().manual_seed(0)).log_softmax(1)
        given = {"loss": loss, "loss_state": loss, "needs": ("bias",), "train": replace(data, extras={"bias": bias})}
        return Attempts(make_run, folder, settings=FAST, **given)

    expected, broken = attempts(tmp_path / "whole")(), attempts(tmp_path / "broken")
    with pytest.raises(Interrupted):
        broken(9)
    assert same(broken().snapshot, expected.snapshot)


def test_a_kill_after_the_last_checkpoint_trains_no_more(make_run: Any, undisturbed: Any) -> None:
    whole, first = undisturbed(make_run, "mask")
    steps = len(whole.steps)
    again = whole()
    assert len(whole.steps) == steps
    assert (again.step, again.dev_score) == (first.step, first.dev_score)
    assert same(again.snapshot, first.snapshot)


def test_interrupted_inside_an_evaluation(make_run: Any, undisturbed: Any, tmp_path: Path) -> None:
    _, expected = undisturbed(make_run, "mask")
    broken = attempts(make_run, "mask", tmp_path / "broken")
    scores = iter([0.5])

    def score(logits: Any) -> float:
        try:
            return next(scores)
        except StopIteration:
            raise Interrupted from None

    with pytest.raises(Interrupted):
        broken(score=score)
    assert same(broken().snapshot, expected.snapshot)


def _truncated(folder: Path) -> None:
    data = (folder / "tensors.safetensors").read_bytes()
    (folder / "tensors.safetensors").write_bytes(data[: len(data) // 2])


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "empty": lambda folder: [path.unlink() for path in folder.iterdir()],
    "truncated": _truncated,
    "garbage": lambda folder: (folder / "state.json").write_bytes(b"\x00\xff{"),
    "without state": lambda folder: (folder / "trainer_state.json").unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_means_starting_over(damage: str, make_run: Any, undisturbed: Any, tmp_path: Path) -> None:
    broken = attempts(make_run, "fine-tuning", tmp_path / "run")
    with pytest.raises(Interrupted):
        broken(7)
    DAMAGES[damage](tmp_path / "run" / "checkpoint")
    broken.steps.clear()
    result = broken()
    assert broken.steps == list(range(1, 21))
    assert same(result.snapshot, undisturbed(make_run, "fine-tuning")[1].snapshot)


def test_leftovers_beside_the_checkpoint_do_no_harm(make_run: Any, tmp_path: Path) -> None:
    leftover = tmp_path / "run" / ".new-checkpoint-abc"
    leftover.mkdir(parents=True)
    save_file({"model/x": torch.zeros(1)}, leftover / "tensors.safetensors")
    run = attempts(make_run, "fine-tuning", tmp_path / "run")
    run()
    assert run.steps == list(range(1, 21))
