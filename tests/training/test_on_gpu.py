"""Whole trainings on a GPU that is simulated: found, evaluated, interrupted and resumed by the trainer itself."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from driven import Attempts, Interrupted, same
from methods import STEERED, TRAINING

from srnet.training.method import Method, split_snapshot
from srnet.training.settings import TrainingSettings
from tests.devices import DEVICE, Remote, counted_device, second_device

METHODS: dict[str, Callable[[], Method]] = {
    "fine-tuning": Method,
    **{name: partial(pruner.shared_run().method, fine_tuned=True, eval_every=3) for name, pruner in TRAINING.items()},
}
FAST = TrainingSettings(learning_rate=1e-2, steps=6, eval_every=3, batch_size=8)
FASTER = replace(FAST, score_rate=2.0)
"""For scores that have a long way to go before they prune anything."""


@pytest.mark.parametrize("name", METHODS)
def test_a_resumed_run_ends_bit_identical(name: str, make_run: Any, tmp_path: Path) -> None:
    """With dropout, whose random numbers are the GPU's own."""
    settings = FASTER if name in STEERED else replace(FAST, steps=10) if name.startswith("imp") else FAST  # its levels
    with second_device():
        whole = Attempts(make_run, tmp_path / "whole", METHODS[name], settings=settings)
        expected = whole()
        broken = Attempts(make_run, tmp_path / "broken", METHODS[name], settings=settings)
        with pytest.raises(Interrupted):
            broken(5)
        torch.cuda.manual_seed_all(12345)  # whatever happened in between must not matter
        result = broken()
    assert expected.device == "a simulated GPU"
    assert {type(each) for each in result.snapshot.values()} == {torch.Tensor}, "results are on the CPU"
    assert (result.step, result.dev_score) == (expected.step, expected.dev_score)
    assert same(result.snapshot, expected.snapshot)
    _, mask = split_snapshot(result.snapshot)
    assert mask is None or 0.0 < mask.sparsity < 1.0, "a mask that never moved would be alike in any case"
    assert broken.steps == [*range(1, 6), *range(4, whole.steps[-1] + 1)]


def test_the_model_runs_there_and_its_random_numbers_are_its_own(make_run: Any, tmp_path: Path) -> None:
    def ended(seed: int) -> Any:
        def watch(step: int, *args: Any) -> None:
            assert all(isinstance(each, Remote) and each.device == DEVICE for each in run.model.parameters())
            torch.manual_seed(0)  # of the CPU
            torch.cuda.manual_seed_all(seed + step)

        run = make_run(Method(), tmp_path / str(seed), settings=FAST, watch=watch)
        from srnet.training.trainer import train

        return train(run).snapshot

    with second_device():
        one, other = ended(1), ended(2)
    assert not same(one, other), "dropout draws on the GPU"


def test_a_step_of_every_method_waits_as_often_as_one_of_fine_tuning(make_run: Any, tmp_path: Path) -> None:
    """But for one number, and but for refreshes, which wait ten times at most."""

    def waits(name: str, method: Method) -> list[int]:
        counted: list[int] = []
        settings = TrainingSettings(learning_rate=1e-2, steps=30, eval_every=30, batch_size=8)
        with counted_device() as (_, counts):

            def watch(step: int, *args: Any) -> None:
                counted.append(counts.waits.total() + counts.uploads.total())
                if step == 7:
                    raise Interrupted

            with pytest.raises(Interrupted):
                Attempts(make_run, tmp_path / name, lambda: method, settings=settings)(watch=watch)
        return [after - before for before, after in itertools.pairwise(counted)]

    usual = max(waits("fine-tuning", Method()))
    assert usual <= 5
    for name, pruner in TRAINING.items():
        found = waits(name, pruner.method(fine_tuned=True, eval_every=30))
        refreshes = [step for step in (3, 6) if name in ("mask", "magnitude", "imp", "imp-rw")]
        for step, count in enumerate(found, start=2):
            emits = name.startswith("imp") and step in refreshes  # a level is a copy of the model for the disk
            assert emits or count <= (10 if step in refreshes else usual + 1), (name, step, found)
