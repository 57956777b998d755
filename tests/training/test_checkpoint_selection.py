"""The result of a run is chosen by ID dev alone, and where that favours the shortcut only after 0.7 t_max."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from driven import Attempts, Interrupted, mask_in, same

from srnet.pruners.imp import IMP
from srnet.pruners.mask_training import MaskTraining
from srnet.training.method import LATE, Method
from srnet.training.settings import TrainingSettings
from srnet.training.trainer import Result, train

EARLY_PEAK = (90.0, 80.0, 70.0, 60.0)
"""Dev scores at steps 5, 10, 15 and 20 of 20: what a biased mask looks like."""


def scores(
    make_run: Any, method: Method, folder: Path, values: tuple[float, ...], stop: int = 0, **changes: Any
) -> Result:
    """The result of a training with dev scores that are given instead of measured."""
    return Attempts(make_run, folder, lambda: method, values, **changes)(stop)


@pytest.mark.parametrize(
    ("fine_tuned", "values", "step"),
    [
        (True, EARLY_PEAK, 15),  # 10 of 20 is before 0.7
        (False, EARLY_PEAK, 5),
        (True, (10.0, 20.0, 30.0, 40.0), 20),
        (True, (50.0, 50.0, 50.0, 50.0), 15),  # the first of equals
        (False, (50.0, 60.0, 55.0, 60.0), 10),
    ],
)
def test_mask_training(fine_tuned: bool, values: tuple[float, ...], step: int, make_run: Any, tmp_path: Path) -> None:
    method = MaskTraining(0.5).method(fine_tuned=fine_tuned, eval_every=5)
    result = scores(make_run, method, tmp_path, values)
    assert (result.step, result.dev_score) == (step, values[step // 5 - 1])


@pytest.mark.parametrize(
    ("share", "values", "step"),
    [
        (LATE, EARLY_PEAK, 15),  # 10 of 20 is before 0.7
        (LATE, (90.0, 80.0, 60.0, 70.0), 20),
        (LATE, (90.0, 90.0, 90.0, 90.0), 15),  # the first of equals
        (0.75, EARLY_PEAK, 15),  # the share itself is late enough
        (0.76, EARLY_PEAK, 20),
        (0.0, EARLY_PEAK, 5),
    ],
)
def test_no_checkpoint_before_a_share_of_the_run(
    share: float, values: tuple[float, ...], step: int, make_run: Any, tmp_path: Path
) -> None:
    result = scores(make_run, Method(), tmp_path, values, select_after=share)
    assert (result.step, result.dev_score) == (step, values[step // 5 - 1])


def test_the_stricter_of_run_and_method_counts(make_run: Any, tmp_path: Path) -> None:
    for fine_tuned, share, step in ((True, 0.0, 15), (False, LATE, 15), (True, 0.9, 20)):
        method = MaskTraining(0.5).method(fine_tuned=fine_tuned, eval_every=5)
        folder = tmp_path / f"{fine_tuned}-{share}"
        assert scores(make_run, method, folder, EARLY_PEAK, select_after=share).step == step


def test_a_run_that_stops_before_its_late_part_is_represented_by_its_end(
    make_run: Any, tmp_path: Path, tiny_training: TrainingSettings
) -> None:
    settings = replace(tiny_training, patience=1)
    result = scores(make_run, Method(), tmp_path, EARLY_PEAK, select_after=LATE, settings=settings)
    assert (result.step, result.steps, result.dev_score) == (10, 10, None)


@pytest.mark.parametrize("stops", [(7,), (12, 17), (15,), (20,)], ids=str)
def test_a_resumed_run_chooses_the_same(stops: tuple[int, ...], make_run: Any, tmp_path: Path) -> None:
    # checkpoints are at 5, 10, 15 and 20: before the late part, in it with a choice made, and at its last step
    whole = scores(make_run, Method(), tmp_path / "whole", EARLY_PEAK, select_after=LATE)
    for stop in stops:
        with pytest.raises(Interrupted):
            scores(make_run, Method(), tmp_path / "broken", EARLY_PEAK, stop, select_after=LATE)
    result = scores(make_run, Method(), tmp_path / "broken", EARLY_PEAK, select_after=LATE)
    assert (result.step, result.dev_score) == (whole.step, whole.dev_score) == (15, 70.0)
    assert same(result.snapshot, whole.snapshot)


@pytest.mark.parametrize(
    ("fine_tuned", "options", "step"),
    # the second is the published schedule: the final sparsity is met at the end only, so nothing before may be saved
    [(False, {}, 15), (True, {"ramp": 1.0, "cut": "kth"}, 20)],
)
def test_a_gradual_run_is_chosen_only_at_its_final_sparsity(
    fine_tuned: bool, options: dict[str, Any], step: int, make_run: Any, tmp_path: Path
) -> None:
    pruner = MaskTraining(0.9, init="soft", initial_sparsity=0.7, **options)
    result = scores(make_run, pruner.method(fine_tuned=fine_tuned, eval_every=5), tmp_path, EARLY_PEAK)
    mask = mask_in(result.snapshot)
    assert (result.step, result.dev_score) == (step, EARLY_PEAK[step // 5 - 1])
    assert all(int((~keep).sum()) == round(0.9 * keep.numel()) for keep in mask.values())


def test_imp_does_not_choose(make_run: Any, tmp_path: Path) -> None:
    result = scores(make_run, IMP(0.5).shared_run().method(fine_tuned=True, eval_every=5), tmp_path, EARLY_PEAK)
    assert result.step == 18  # nine levels of two steps: the training after the 90 % level ends the run


def test_the_end_is_always_evaluated(make_run: Any, tmp_path: Path, tiny_training: TrainingSettings) -> None:
    run = make_run(Method(), tmp_path, settings=replace(tiny_training, steps=7))
    evaluated = {entry["step"] for entry in train(run).log if "eval_score" in entry}
    assert evaluated == {5, 7}


def test_trackers(make_run: Any, tmp_path: Path) -> None:
    train(make_run(Method(), tmp_path, report_to=("tensorboard",)))
    assert [path for path in tmp_path.rglob("events.out.tfevents.*") if path.stat().st_size > 0]


def test_progress_is_told(make_run: Any, tmp_path: Path) -> None:
    told: list[tuple[int, int, dict[str, float]]] = []

    def watch(step: int, total: int, figures: dict[str, float]) -> None:
        told.append((step, total, dict(figures)))

    train(make_run(MaskTraining(0.5).method(fine_tuned=True, eval_every=5), tmp_path, watch=watch))
    assert [(step, total) for step, total, _ in told] == [(step, 20) for step in range(1, 21)]
    assert {"loss", "eval_score", "mask/sparsity", "mask/flips_per_step"} <= told[-1][2].keys()
